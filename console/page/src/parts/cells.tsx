// Cells that several tables share: links to things, lag, trends.
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { Lag } from "../api/documents";
import { age, duration } from "../format/times";
import { count, rate } from "../format/numbers";

export function StreamLink({ name, lane }: { name: string; lane?: string }): ReactElement {
  if (name === "") return <span className="faint">none</span>;
  return (
    <Link to="/streams/$name" params={{ name }} className="row-link">
      {name}
      {lane ? <span className="faint">/{lane}</span> : null}
    </Link>
  );
}

export function GroupLink({ name }: { name: string }): ReactElement {
  if (name === "") return <span className="faint">none</span>;
  return (
    <Link to="/groups/$name" params={{ name }} className="row-link">
      {name}
    </Link>
  );
}

export function ClusterLink({ name }: { name: string }): ReactElement {
  if (name === "") return <span className="faint">none</span>;
  return (
    <Link to="/clusters/$name" params={{ name }} className="row-link">
      {name}
    </Link>
  );
}

/** Share of a bar for an age: a logarithmic scale from a tenth of a second to a day. */
export function lagShare(seconds: number): number {
  if (seconds <= 0.1) return 0;
  return Math.min(1, Math.log10(seconds * 10) / Math.log10(864_000));
}

/** Lag in seconds as text, with what must be known of it: an estimate, the least it can be, or stale. */
export function lagText(lag: Pick<Lag, "lag_seconds" | "source">): string {
  const text = duration(lag.lag_seconds);
  if (lag.source === "estimate") return `~${text}`;
  return lag.source === "unknown" ? `≥${text}` : text;
}

export function LagCell({ lag, now_ms }: { lag: Lag; now_ms: number }): ReactElement {
  const stale = lag.stale ? `, as of ${age(lag.as_of_ms, now_ms)} ago` : "";
  return (
    <span className={`lag${lag.stale ? " stale" : ""}`} title={`${count(lag.lag_records)} records${stale}`}>
      <span>{lagText(lag)}</span>
      {lag.stale ? (
        <span className="stale-word">stale</span>
      ) : (
        <svg className="lag-bar" viewBox="0 0 40 6" preserveAspectRatio="none" aria-hidden="true">
          <rect className="lag-track" width="40" height="6" rx="2" />
          <rect className="lag-fill" width={40 * lagShare(lag.lag_seconds)} height="6" rx="2" />
        </svg>
      )}
    </span>
  );
}

export function trendText(lag: Pick<Lag, "trend_per_s" | "seconds_to_zero">): string {
  if (lag.trend_per_s === undefined) return "unknown";
  if (Math.abs(lag.trend_per_s) < 0.05) return "steady";
  const zero = lag.seconds_to_zero === undefined ? "" : `, done in ${duration(lag.seconds_to_zero)}`;
  return `${lag.trend_per_s > 0 ? "+" : ""}${rate(lag.trend_per_s)}${zero}`;
}

export function Trend({ lag, short = false }: { lag: Pick<Lag, "trend_per_s" | "seconds_to_zero">; short?: boolean }): ReactElement {
  const text = trendText(short && lag.trend_per_s !== undefined ? { trend_per_s: lag.trend_per_s } : lag);
  if (lag.trend_per_s === undefined || text === "steady") return <span className="faint">{text}</span>;
  const grows = lag.trend_per_s > 0;
  return (
    <span className={grows ? "tone-warn" : "tone-good"}>
      <span aria-hidden="true">{grows ? "↗" : "↘"} </span>
      {text}
    </span>
  );
}
