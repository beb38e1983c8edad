// Alerts of one thing, on the page about it; nothing is shown where none is firing.
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { Alert } from "../api/documents";
import type { TablePart } from "../api/parts";
import { Age } from "../parts/moments";
import { State } from "../parts/State";

export function AlertList({ part, now_ms }: { part: TablePart<Alert>; now_ms: number }): ReactElement | null {
  const firing = part.rows.filter((alert) => alert.state === "firing" || alert.state === "pending");
  if (firing.length === 0) return null;
  return (
    <ul className={`list banner${part.stale ? " stale" : ""}`} aria-label="Alerts">
      {firing.map((alert) => (
        <li key={alert.key}>
          <State state={alert.state === "pending" ? "pending" : alert.severity} />
          <Link to="/alerts" search={{ q: alert.name } as never} className="grow">
            {alert.summary || alert.name}
          </Link>
          <span className="faint nowrap">
            for <Age ms={alert.fire_time_ms} now_ms={now_ms} />
          </span>
        </li>
      ))}
    </ul>
  );
}
