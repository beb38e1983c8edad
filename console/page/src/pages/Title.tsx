// The head of a page: its name, what it is, and what can be done.
import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";
import type { Part } from "../api/parts";
import { Staleness } from "../parts/Notes";

interface TitleProps {
  name: string;
  parent?: readonly [string, string];
  state?: ReactNode;
  /** What events call it, for example `stream/logs`. */
  history?: string;
  children?: ReactNode;
}

export function Title({ name, parent, state, history, children }: TitleProps): ReactElement {
  return (
    <header className="title">
      <div className="title-name">
        {parent ? (
          <Link to={parent[0]} className="crumb">
            {parent[1]}
          </Link>
        ) : null}
        <h1>{name}</h1>
        {state}
      </div>
      <div className="title-actions">
        {history ? (
          <Link to="/events" search={{ history } as never} className="button">
            History
          </Link>
        ) : null}
        {children}
      </div>
    </header>
  );
}

interface NotThereProps {
  name: string;
  parent: readonly [string, string];
  history: string;
  part: Part;
  now_ms: number;
}

/** A page of what is not there, or not for this caller: says so once, and offers nothing but what happened. */
export function NotThere({ part, now_ms, ...title }: NotThereProps): ReactElement {
  return (
    <>
      <Title {...title} />
      <Staleness part={part} now_ms={now_ms} />
    </>
  );
}
