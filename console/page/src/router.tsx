// Every address of the console, and the page that it shows.
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, Link, retainSearchParams, useParams, type ErrorComponentProps, type RouteComponent } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { Session } from "./api/calls";
import { Access } from "./pages/Access";
import { Alerts } from "./pages/Alerts";
import { ClusterPage } from "./pages/Cluster";
import { Clusters } from "./pages/Clusters";
import { DeadLetter } from "./pages/DeadLetter";
import { DeadLetters } from "./pages/DeadLetters";
import { Events } from "./pages/Events";
import { GroupPage } from "./pages/Group";
import { Groups } from "./pages/Groups";
import { LeasePage } from "./pages/LeasePage";
import { Overview } from "./pages/Overview";
import { Pathways } from "./pages/Pathways";
import { Replays } from "./pages/Replays";
import { Spark } from "./pages/Spark";
import { StreamPage } from "./pages/Stream";
import { Streams } from "./pages/Streams";
import { Shell } from "./shell/Shell";
import { AT } from "./state/moment";
import { parseSearch, stringifySearch } from "./state/search";

interface Context {
  session: Session;
  onSignedOut: () => void;
}

const root = createRootRouteWithContext<Context>()({
  validateSearch: (search: Record<string, string>) => search,
  search: { middlewares: [retainSearchParams([AT])] },
  component: () => {
    const { session, onSignedOut } = root.useRouteContext();
    return <Shell session={session} onSignedOut={onSignedOut} />;
  },
  notFoundComponent: NotFound,
});

const at = <P extends string>(path: P, component: RouteComponent) => createRoute({ getParentRoute: () => root, path, component });

const tree = root.addChildren([
  at("/", Overview),
  at("/streams", Streams),
  at("/streams/$name", StreamPage),
  at("/streams/$name/messages", lazyRouteComponent(() => import("./pages/messages/Messages"), "MessagesPage")),
  at("/groups", Groups),
  at("/groups/$name", GroupPage),
  at("/clusters", Clusters),
  at("/clusters/$name", ClusterPage),
  at("/alerts", Alerts),
  at("/events", Events),
  at("/dead-letters", DeadLetters),
  at("/dead-letters/$", DeadLetterOrInbox),
  at("/replays", Replays),
  at("/replays/$id", Replays),
  at("/alerts/$", Alerts),
  at("/leases/$", LeasePage),
  at("/pathways", Pathways),
  at("/spark", Spark),
  at("/access", Access),
]);

export const router = createRouter({
  routeTree: tree,
  context: undefined as unknown as Context,
  parseSearch,
  stringifySearch,
  defaultErrorComponent: Broken,
  defaultPreload: false,
});

/** The address without a letter's name is the inbox. */
function DeadLetterOrInbox(): ReactElement {
  const { _splat: name = "" } = useParams({ strict: false }) as { _splat?: string };
  return name === "" ? <DeadLetters /> : <DeadLetter />;
}

function NotFound(): ReactElement {
  return (
    <div className="empty">
      <h1>No such page</h1>
      <p>
        The address leads nowhere. <Link to="/">Go to the overview</Link>, or press Ctrl K.
      </p>
    </div>
  );
}

function Broken({ error, reset }: ErrorComponentProps): ReactElement {
  return (
    <div className="empty" role="alert">
      <h1>This page broke</h1>
      <p>The rest of the console works. Please report the text below.</p>
      <pre tabIndex={0}>{error instanceof Error ? (error.stack ?? error.message) : String(error)}</pre>
      <button type="button" onClick={reset}>
        Try again
      </button>
    </div>
  );
}
