// The frame of every page: navigation, clock, palette, dialogs.
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type ReactElement, type ReactNode } from "react";
import { ActionDialogs } from "../actions/ActionDialog";
import { send, type Session } from "../api/calls";
import { Dialog } from "../parts/Dialog";
import { dateTime } from "../format/times";
import { notKept } from "../parts/Notes";
import { usePast } from "../state/moment";
import { usePreferences } from "../state/preferences";
import { setPaused, useCurrent, usePaused } from "../state/view";
import { Clock } from "./Clock";
import { Display } from "./Display";
import { useKeys } from "./keys";
import { Palette } from "./Palette";
import { PLACES, SHORTCUTS } from "./places";
import { Mark } from "./SignIn";
import { Travel } from "./Travel";

type Open = "" | "palette" | "shortcuts" | "display" | "navigation";

export function Shell({ session, onSignedOut }: { session: Session; onSignedOut: () => void }): ReactElement {
  const [open, setOpen] = useState<Open>("");
  const navigate = useNavigate();
  const paused = usePaused();
  const acts = useMemo(
    () => ({
      palette: () => setOpen("palette"),
      shortcuts: () => setOpen("shortcuts"),
      pause: () => setPaused(!paused),
      go: (path: string) => void navigate({ to: path }),
    }),
    [navigate, paused],
  );
  useKeys(acts);
  useSignedOut(onSignedOut);
  const main = useFocusAfterNavigation();
  const close = (): void => setOpen("");
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <nav className="side" aria-label="Pages">
        <Link to="/" className="brand">
          <Mark />
          <span>Braid</span>
        </Link>
        <Navigation />
      </nav>
      <Header session={session} onOpen={setOpen} />
      <main id="main" ref={main} tabIndex={-1}>
        <Travel />
        <Printed mesh={session.mesh ?? ""} />
        <Kept>
          <Outlet />
        </Kept>
      </main>
      {open === "palette" ? <Palette onClose={close} /> : null}
      {open === "shortcuts" ? <Shortcuts onClose={close} /> : null}
      {open === "display" ? <Display onClose={close} /> : null}
      {open === "navigation" ? (
        <Dialog title="Pages" onClose={close}>
          <div className="drawer" onClick={close}>
            <Navigation />
          </div>
        </Dialog>
      ) : null}
      <ActionDialogs />
    </div>
  );
}

/** A page of which nothing is kept as of the moment says so, in place of tables that would look empty. */
function Kept({ children }: { children: ReactNode }): ReactElement {
  const { state, fault } = useCurrent();
  const past = usePast();
  const { pathname } = useLocation();
  const parts = Object.values(state?.parts ?? {});
  const records = past && pathname.endsWith("/messages"); // brokers answer as of now alone: they are not even asked
  const nothing = records || (past && parts.length > 0 && parts.every(notKept));
  return (
    <>
      {nothing ? (
        <div className="empty">
          <h1>Not kept at this time</h1>
          <p>
            Nobody records this page as of a moment. <Link to="/events">Events</Link> tell what happened until then.
          </p>
        </div>
      ) : null}
      <div hidden={nothing} className={state === null && fault === null ? "unanswered" : ""}>{records ? null : children}</div>
    </>
  );
}

function useSignedOut(onSignedOut: () => void): void {
  const { connection } = useCurrent();
  useEffect(() => {
    if (connection === "signed-out") onSignedOut();
  }, [connection, onSignedOut]);
}

/** A screen reader continues at the page that was opened, not at the link that led there. */
function useFocusAfterNavigation() {
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const before = useRef(pathname);
  useEffect(() => {
    if (before.current !== pathname) main.current?.focus({ preventScroll: true });
    before.current = pathname;
    window.scrollTo(0, 0);
    const place = PLACES.find((each) => each.path !== "/" && pathname.startsWith(each.path)) ?? PLACES[0];
    const name = decodeURIComponent(pathname.split("/").slice(2).join("/"));
    document.title = `${name ? `${name} · ` : ""}${place?.label ?? ""} · Braid`;
  }, [pathname]);
  return main;
}

function Navigation(): ReactElement {
  const groups = [...new Set(PLACES.map((place) => place.group))];
  return (
    <>
      {groups.map((group) => (
        <div key={group} className="nav-group">
          <div className="nav-title">{group}</div>
          <ul>
            {PLACES.filter((place) => place.group === group).map((place) => (
              <li key={place.path}>
                <Link to={place.path} className="nav-link" activeOptions={{ exact: place.path === "/", includeSearch: false }}>
                  {place.label}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </>
  );
}

function Header({ session, onOpen }: { session: Session; onOpen: (open: Open) => void }): ReactElement {
  return (
    <header className="top">
      <button type="button" className="quiet only-phone" aria-label="Pages" onClick={() => onOpen("navigation")}>
        ☰
      </button>
      <button type="button" className="search-button" onClick={() => onOpen("palette")}>
        <span className="faint">Go anywhere, do anything</span>
        <kbd>Ctrl K</kbd>
      </button>
      <Clock />
      <button type="button" className="quiet" aria-label="Display" title="Theme, time zone, density" onClick={() => onOpen("display")}>
        ◐
      </button>
      <button type="button" className="quiet not-phone" aria-label="Shortcuts" title="Shortcuts" onClick={() => onOpen("shortcuts")}>
        ?
      </button>
      <Who session={session} />
    </header>
  );
}

/** What paper must say, and a screen shows elsewhere: which mesh, as of when, at which address. */
function Printed({ mesh }: { mesh: string }): ReactElement {
  const { zone } = usePreferences();
  const { state } = useCurrent();
  useLocation();
  return (
    <p className="only-print faint">
      Braid, mesh {mesh}, as of {state ? dateTime(state.now_ms, zone) : "no answer"}
      <br />
      {window.location.href}
    </p>
  );
}

function Who({ session }: { session: Session }): ReactElement {
  const name = session.principal || "anybody";
  const leave = async (): Promise<void> => {
    const left = await send<{ sign_out?: string } | null>("/api/session", {}, "DELETE").catch(() => null);
    window.location.assign(left?.sign_out || "/"); // a provider signs out, too, and leads back
  };
  return (
    <details className="who not-phone">
      <summary title={name}>{name.split("/").at(-1)}</summary>
      <div className="who-card">
        <p className="mono">{name}</p>
        <p className="faint">
          Mesh {session.mesh}, version {session.version}
        </p>
        <button type="button" onClick={() => void leave()}>
          Sign out
        </button>
      </div>
    </details>
  );
}

function Shortcuts({ onClose }: { onClose: () => void }): ReactElement {
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      <dl className="shortcuts">
        {SHORTCUTS.map(([keys, about]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
