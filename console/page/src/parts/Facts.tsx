// Names and values side by side, and large figures.
import type { ReactElement, ReactNode } from "react";
import { Shape, type Tone } from "./State";

export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }): ReactElement {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value === "" || value === null || value === undefined ? <span className="faint">none</span> : value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Figure({ label, value, note, tone = "idle" }: { label: string; value: string; note?: ReactNode; tone?: Tone }): ReactElement {
  return (
    <div className={`figure tone-${tone}`}>
      <div className="figure-label">{label}</div>
      <div className="figure-value">
        {value}
        {tone === "bad" || tone === "warn" ? <Shape tone={tone} /> : null}
      </div>
      <div className="figure-note">{note ?? " "}</div>
    </div>
  );
}
