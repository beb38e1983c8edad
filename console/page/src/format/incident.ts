// An incident of one group as Markdown: alerts, lag over time, and what happened to it, its streams and their clusters. Pure.
import type { Alert, LagHistory, LagStep, MeshEvent } from "../api/documents";
import { escaped, incidentTimeline } from "./exports";
import { clock, dateTime, duration, type Zone } from "./times";

export interface Incident {
  title: string;
  /** The page's address, filters included. */
  address: string;
  now_ms: number;
  alerts: readonly Alert[];
  histories: readonly LagHistory[];
  events: readonly MeshEvent[];
  /** Why events may be missing. */
  missing: readonly string[];
}

const BLOCKS = "▁▂▃▄▅▆▇█";
const COLUMNS_MAX = 60;

function secondsOf(step: LagStep): number | undefined {
  return step.max_lag_seconds ?? step.lag_seconds;
}

/** The most of each stretch of time as one character; a stretch in which nothing was known is a dot. */
export function sparkline(steps: readonly LagStep[], from_ms: number, until_ms: number, columns: number): string {
  const most = Array.from({ length: columns }, (): number | undefined => undefined);
  for (const step of steps) {
    const place = Math.floor(((step.time_ms - from_ms) / Math.max(1, until_ms - from_ms)) * columns);
    const seconds = secondsOf(step);
    if (seconds === undefined || place < 0 || place >= columns) continue;
    most[place] = Math.max(most[place] ?? 0, seconds);
  }
  const top = Math.max(1, ...most.map((seconds) => seconds ?? 0));
  return most.map((seconds) => (seconds === undefined ? "·" : BLOCKS[Math.min(BLOCKS.length - 1, Math.floor((seconds / top) * BLOCKS.length))])).join("");
}

/** No more characters than steps: a time between two steps would look as if nothing was known. */
function columnsOf(histories: readonly LagHistory[], span_ms: number): number {
  const distances = histories.flatMap((history) => history.steps.slice(1).map((step, place) => step.time_ms - (history.steps[place]?.time_ms ?? 0)));
  const step_ms = distances.reduce((least, distance) => (distance > 0 ? Math.min(least, distance) : least), span_ms);
  return Math.max(1, Math.min(COLUMNS_MAX, Math.floor(span_ms / Math.max(1, step_ms))));
}

function lagLines({ histories, now_ms }: Incident, zone: Zone): string[] {
  const times = histories.flatMap((history) => history.steps.map((step) => step.time_ms));
  if (times.length === 0) return ["No lag is kept."];
  const from = times.reduce((least, time) => Math.min(least, time), now_ms);
  const columns = columnsOf(histories, now_ms - from);
  const rows = histories.map((history) => {
    const known = history.steps.filter((step) => secondsOf(step) !== undefined);
    const worst = known.reduce<LagStep | undefined>((most, step) => (most === undefined || (secondsOf(step) ?? 0) > (secondsOf(most) ?? 0) ? step : most), undefined);
    const last = known.at(-1);
    const name = `${history.stream}/${history.lane}`;
    return {
      chart: `${sparkline(history.steps, from, now_ms, columns)}  ${name.replaceAll(/[\r\n`]/g, " ")}`,
      row: `| ${escaped(name)} | ${last ? duration(last.lag_seconds ?? secondsOf(last) ?? 0) : "unknown"} | ${worst ? duration(secondsOf(worst) ?? 0) : "unknown"} | ${worst ? clock(worst.time_ms, zone) : ""} |`,
    };
  });
  return ["| Lane | Last | Most | At |", "|---|---|---|---|", ...rows.map((row) => row.row), "", `From ${clock(from, zone)} to ${clock(now_ms, zone)}, each line to its own scale; a dot is not known:`, "", "```text", ...rows.map((row) => row.chart), "```"];
}

function alertLine(alert: Alert, zone: Zone): string {
  const until = alert.resolve_time_ms > 0 ? `, resolved ${dateTime(alert.resolve_time_ms, zone)}` : "";
  return `- **${escaped(alert.severity)}** since ${dateTime(alert.fire_time_ms, zone)}${until}: ${escaped(alert.summary || alert.name)}`;
}

export function incidentReport(incident: Incident, zone: Zone): string {
  const alerts = [...incident.alerts].sort((one, other) => one.fire_time_ms - other.fire_time_ms).map((alert) => alertLine(alert, zone));
  return [
    `# ${escaped(incident.title)}, ${dateTime(incident.now_ms, zone)}`,
    "",
    `<${incident.address}>`,
    "",
    "## Alerts",
    "",
    ...(alerts.length > 0 ? alerts : ["None."]),
    "",
    "## Lag",
    "",
    ...lagLines(incident, zone),
    "",
    incident.events.length > 0 ? incidentTimeline(incident.events, zone).trimEnd() : "## Timeline\n\n- No event is kept.",
    ...incident.missing.map((reason) => `- ${escaped(reason)}`),
    "",
  ].join("\n");
}
