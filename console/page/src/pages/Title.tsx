// The head of a page: its name, what it is, and what can be done.
import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";

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
