// What a person sees without a session: how to get one.
import { useState, type FormEvent, type ReactElement } from "react";
import { CallError, send, type Session } from "../api/calls";
import { Command } from "../parts/Copy";
import { Problem } from "../parts/Notes";
import type { Fault } from "../api/parts";

const LINKS: Readonly<Record<string, string>> = {
  used: "This link was used already. A link opens one session.",
  expired: "This link is over. A link is good for five minutes.",
  unknown: "The console does not know this link. It may have been started again since.",
  unknown_login: "This sign-in was not begun in this browser, or more than ten minutes ago. Begin again.",
};

export function SignIn({ session, onSignedIn }: { session: Session; onSignedIn: () => void }): ReactElement {
  const said = LINKS[new URLSearchParams(window.location.search).get("sign_in") ?? ""];
  return (
    <main className="sign-in" id="main">
      <div className="sign-in-card">
        <Mark />
        <h1>Braid console</h1>
        {said ? (
          <p className="note tone-warn" role="alert">
            {said}
          </p>
        ) : null}
        {session.problem ? <Problem fault={session.problem} /> : null}
        {session.provider !== undefined ? (
          <a className="button primary sign-in-provider" href={providerAddress()}>
            Sign in with {session.provider}
          </a>
        ) : null}
        {session.sign_in.includes("link") ? (
          <>
            <p>{session.provider !== undefined ? "Or, on" : "On"} the machine whose certificate you use, print a one-time link and open it here:</p>
            <Command text="braid open" />
          </>
        ) : null}
        {session.sign_in.includes("token") ? <TokenForm onSignedIn={onSignedIn} /> : null}
        {session.sign_in.length === 0 && session.remedy ? <p>{session.remedy}</p> : null}
        <p className="faint">The console shows and does what you may see and do, nothing more. Version {session.version}.</p>
      </div>
    </main>
  );
}

/** The console's address that leads to the provider, and from there back to the page that was asked for. */
function providerAddress(): string {
  const { pathname, search } = window.location;
  const params = new URLSearchParams(search);
  params.delete("sign_in");
  const kept = params.toString() === "" ? "" : `?${params.toString()}`;
  return `/oidc/start?${new URLSearchParams({ to: pathname + kept }).toString()}`;
}

function TokenForm({ onSignedIn }: { onSignedIn: () => void }): ReactElement {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState<Fault | null>(null);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      await send("/api/session", { token: token.trim() });
      onSignedIn();
    } catch (error) {
      if (error instanceof CallError) setFault(error.fault);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <label className="field">
        <span>Or paste a token of your identity provider</span>
        <input type="password" autoComplete="off" value={token} onChange={(event) => setToken(event.target.value)} />
      </label>
      {fault ? <Problem fault={fault} /> : null}
      <button type="submit" className="primary" disabled={token.trim() === ""}>
        Sign in
      </button>
    </form>
  );
}

/** The mark: three strands. */
export function Mark(): ReactElement {
  return (
    <svg className="mark" viewBox="0 0 24 24" aria-hidden="true">
      <path d="M5 3c0 7 14 11 14 18M19 3C19 10 5 14 5 21" />
      <path className="mark-middle" d="M12 3v18" />
    </svg>
  );
}
