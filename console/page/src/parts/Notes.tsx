// What a part says in place of rows: nothing there yet, stale, refused, or more than is shown.
import type { ReactElement, ReactNode } from "react";
import type { Part, Fault } from "../api/parts";
import { age } from "../format/times";
import { Command } from "./Copy";
import { Shape } from "./State";

/** An empty part names the next command. */
export function Empty({ title, children, command }: { title: string; children?: ReactNode; command?: string }): ReactElement {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children ? <p>{children}</p> : null}
      {command ? <Command text={command} /> : null}
    </div>
  );
}

/** What went wrong, and what to try. */
export function Problem({ fault }: { fault: Fault }): ReactElement {
  return (
    <div className="problem tone-bad" role="alert">
      <Shape tone="bad" />
      <div>
        <p className="problem-message">{fault.message || "It did not work, and nobody said why."}</p>
        {fault.remedy ? <p>{fault.remedy}</p> : null}
        <p className="faint">
          {fault.reason}
          {fault.field ? `, field ${fault.field}` : ""}
        </p>
      </div>
    </div>
  );
}

/** Whether nobody kept a part as of the moment that is shown: it is absent, and neither empty nor as today. */
export function notKept(part: Part): boolean {
  return part.error?.reason === "HISTORY_HOLE";
}

/** Whether what the page is about is not there, or not for this caller: nothing below it would say more. */
export function refused(part: Part): boolean {
  return part.error !== null && !part.stale && !notKept(part);
}

/** Whether the part says what is there: it was answered at least once, and neither refused nor left out. */
export function answered(part: Part): boolean {
  return !notKept(part) && (part.stale ? part.as_of_ms > 0 : part.error === null);
}

/** What stands in place of rows that are not there; empty until a service has answered. */
export function Nothing({ part, children }: { part: Part; children: ReactElement }): ReactElement | null {
  return answered(part) ? children : null;
}

/** Says that a part is the last that was known, since when, and why. */
export function Staleness({ part, now_ms }: { part: Part; now_ms: number }): ReactElement | null {
  if (notKept(part)) return <p className="note">Not kept at this time: {part.error?.message}. Events tell what happened.</p>;
  if (part.error !== null && !part.stale) return <Problem fault={part.error} />;
  if (!part.stale) return null;
  if (part.as_of_ms === 0) {
    return part.error === null ? <p className="note">Waiting for the first answer…</p> : <Problem fault={part.error} />;
  }
  return (
    <p className="note tone-warn">
      <Shape tone="warn" />
      <span className="note-text">
        Stale: as of {age(part.as_of_ms, now_ms)} ago. {part.error?.message} {part.error?.remedy ? `Try: ${part.error.remedy}` : ""}
      </span>
    </p>
  );
}

/** A titled part of a page, greyed in place while it is stale. */
export function Section(props: {
  title: string;
  part?: Part;
  now_ms?: number;
  actions?: ReactNode;
  children: ReactNode;
}): ReactElement {
  const { title, part, now_ms = 0, actions, children } = props;
  const stale = part !== undefined && part.stale && part.as_of_ms > 0;
  return (
    <section className="section" aria-label={title}>
      <header className="section-head">
        <h2>{title}</h2>
        <div className="section-actions">{actions}</div>
      </header>
      {part ? <Staleness part={part} now_ms={now_ms} /> : null}
      {part && !answered(part) ? null : <div className={stale ? "stale" : ""}>{children}</div>}
    </section>
  );
}
