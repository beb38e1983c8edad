// What groups did about their lag by themselves: proposed, in force, and undone, the newest first.
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { LagResponse } from "../api/documents";
import type { LiveState } from "../api/live";
import { GroupLink } from "../parts/cells";
import { Age } from "../parts/moments";
import { Empty, Section } from "../parts/Notes";
import { State } from "../parts/State";
import { nowOf, table } from "../state/view";

const SHOWN_MAX = 50;

/** `shift shares of live: 4 → 6`. */
export function responseText(row: LagResponse): string {
  const about = [row.lane, row.subject].filter(Boolean).join(", ");
  const change = row.after ? `: ${row.before ? `${row.before} → ` : ""}${row.after}` : "";
  return `${row.kind.replaceAll("_", " ")}${about ? ` of ${about}` : ""}${change}`;
}

export function ResponseList({ live }: { live: LiveState }): ReactElement {
  const part = table<LagResponse>(live, "responses");
  const now_ms = nowOf(live);
  const rows = [...part.rows].sort((one, other) => other.since_ms - one.since_ms || one.key.localeCompare(other.key));
  return (
    <Section title="What groups did by themselves" part={part} now_ms={now_ms}>
      {live.state && rows.length === 0 ? (
        <Empty title="No group has answered lag by itself." command="braid set responses GROUP shift-shares propose">
          A policy proposes a response first, or takes it at once when it is automatic.
        </Empty>
      ) : null}
      <ul className="list">
        {rows.slice(0, SHOWN_MAX).map((row) => (
          <li key={row.key}>
            <State state={row.state} />
            <span className="grow">
              <GroupLink name={row.group} />: {responseText(row)}
              {row.reason ? <span className="faint"> {row.reason}</span> : null}
            </span>
            <Link to="/events" search={{ history: `group/${row.group}` } as never} className="nowrap" aria-label={`Events of ${row.group}`}>
              events
            </Link>
            <span className="faint nowrap">
              <Age ms={row.since_ms} now_ms={now_ms} />
            </span>
          </li>
        ))}
      </ul>
      {rows.length > SHOWN_MAX ? <p className="note">{rows.length - SHOWN_MAX} older ones are left out: the events have them.</p> : null}
    </Section>
  );
}
