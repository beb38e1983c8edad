// The head of a page: its name, what it is, and what can be done.
import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";

interface TitleProps {
  name: string;
  parent?: readonly [string, string];
  state?: ReactNode;
  children?: ReactNode;
}

export function Title({ name, parent, state, children }: TitleProps): ReactElement {
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
      <div className="title-actions">{children}</div>
    </header>
  );
}
