// Copies an incident of one group as Markdown, for the channel in which people write about it.
import type { ReactElement } from "react";
import { ask, CallError, query } from "../api/calls";
import type { Alert, Gap, Group, LagHistory, Lease, MeshEvent } from "../api/documents";
import type { LiveState } from "../api/live";
import { incidentReport } from "../format/incident";
import { Copy } from "../parts/Copy";
import { usePreferences } from "../state/preferences";
import { nowOf, table } from "../state/view";

/** As long as the chart of lag is. */
const SPAN_MS = 7_200_000;
/** A group reads few streams, on few clusters; what is beyond is named in the report. */
const HISTORIES_MAX = 16;
/** The server answers with so many at once. */
const EVENTS_MAX = 500;

interface Answer {
  events: MeshEvent[];
  gaps: Gap[];
  errors: { message: string }[];
}

interface Found {
  events: MeshEvent[];
  missing: string[];
}

async function read(history: string, since_ms: number): Promise<Found> {
  try {
    const found = await ask<Answer>(`/api/events${query({ history, since_ms: String(since_ms) })}`);
    const gaps = found.gaps.map((gap) => `Not kept: ${gap.history}, events ${gap.first} to ${gap.last}: ${gap.reason}`);
    const more = found.events.length >= EVENTS_MAX ? [`Only the newest ${found.events.length} events of ${history} are shown.`] : [];
    return { events: found.events, missing: [...more, ...gaps, ...found.errors.map((error) => `Not read: ${history}: ${error.message}`)] };
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    return { events: [], missing: [`Not read: ${history}: ${error.message}`] };
  }
}

/** What may have to do with a group: itself, its streams, and the clusters of its leases. */
export function historiesOf(group: Group, leases: readonly Lease[]): string[] {
  const clusters = [...new Set(leases.map((lease) => lease.cluster))].filter(Boolean).sort();
  return [`group/${group.name}`, ...group.spec.streams.map((stream) => `stream/${stream}`), ...clusters.map((cluster) => `cluster/${cluster}`)];
}

async function eventsOf(histories: readonly string[], since_ms: number): Promise<Found> {
  const found: Found = { events: [], missing: histories.slice(HISTORIES_MAX).map((history) => `Left out: ${history}`) };
  for (const history of histories.slice(0, HISTORIES_MAX)) {
    const { events, missing } = await read(history, since_ms);
    found.events.push(...events.filter((event) => event.time_ms >= since_ms));
    found.missing.push(...missing);
  }
  return found;
}

export function IncidentCopy({ group, live }: { group: Group; live: LiveState }): ReactElement {
  const { zone } = usePreferences();
  const make = async (): Promise<string> => {
    const now_ms = nowOf(live);
    const found = await eventsOf(historiesOf(group, table<Lease>(live, "leases").rows), now_ms - SPAN_MS);
    const known = { alerts: table<Alert>(live, "alerts").rows, histories: table<LagHistory>(live, "history").rows };
    return incidentReport({ title: `Group ${group.name}`, address: window.location.href, now_ms, ...known, ...found }, zone);
  };
  return <Copy text={make} label="Copy as incident timeline" />;
}
