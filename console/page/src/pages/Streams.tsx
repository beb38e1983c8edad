// Every stream: where its lanes are, and whether it is moving or blocked.
import { useMemo, type ReactElement } from "react";
import type { Channel, Lag, Stream } from "../api/documents";
import { count } from "../format/numbers";
import { age } from "../format/times";
import { ClusterLink, LagCell, lagText, StreamLink } from "../parts/cells";
import { Age } from "../parts/moments";
import { Empty, notKept, Nothing, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { nowOf, table, useView } from "../state/view";
import { Title } from "./Title";

interface StreamRow extends Stream {
  worst: Lag | undefined;
  groups: number;
  state: string;
}

export function streamState(stream: Stream): string {
  const channels = stream.status.channels;
  if (stream.status.blocked_reason) return "blocked";
  if (channels.some((channel) => channel.stranded)) return "stranded";
  return channels.some((channel) => channel.state === "draining") ? "draining" : "active";
}

function clustersOf(channels: readonly Channel[], state: string): string[] {
  return [...new Set(channels.filter((channel) => channel.state === state).map((channel) => channel.cluster))].sort();
}

function rowsOf(streams: readonly Stream[], lags: readonly Lag[]): StreamRow[] {
  const worst = new Map<string, Lag>();
  const groups = new Map<string, Set<string>>();
  for (const lag of lags) {
    const before = worst.get(lag.stream);
    if (before === undefined || lag.lag_seconds > before.lag_seconds) worst.set(lag.stream, lag);
    groups.set(lag.stream, (groups.get(lag.stream) ?? new Set()).add(lag.group));
  }
  return streams.map((stream) => {
    const lag = worst.get(stream.name);
    return { ...stream, worst: lag, groups: lag?.groups ?? groups.get(stream.name)?.size ?? 0, state: streamState(stream) };
  });
}

function columnsAt(now_ms: number, noLag: string): CellColumn<StreamRow>[] {
  const links = (names: readonly string[]): ReactElement => (
    <>
      {names.map((name, place) => (
        <span key={name}>
          {place > 0 ? ", " : ""}
          <ClusterLink name={name} />
        </span>
      ))}
    </>
  );
  return [
    { id: "stream", label: "Stream", text: (row) => row.name, cell: (row) => <StreamLink name={row.name} /> },
    { id: "state", label: "State", text: (row) => row.state, width: 130, cell: (row) => <State state={row.state} /> },
    { id: "lanes", label: "Lanes", text: (row) => Object.entries(row.spec.lanes).map(([lane, spec]) => `${lane}=${spec.partitions}`).sort().join(" "), width: 170, leave: "tablet" },
    { id: "on", label: "Traffic on", text: (row) => clustersOf(row.status.channels, "active").join(" "), width: 150, cell: (row) => links(clustersOf(row.status.channels, "active")), leave: "phone" },
    { id: "leaves", label: "Drains from", text: (row) => clustersOf(row.status.channels, "draining").join(" "), width: 130, cell: (row) => links(clustersOf(row.status.channels, "draining")), leave: "tablet" },
    { id: "lag", label: "Worst lag", text: (row) => (row.worst ? lagText(row.worst) : ""), order: (row) => row.worst?.lag_seconds ?? -1, align: "right", width: 130, cell: (row) => (row.worst ? <LagCell lag={row.worst} now_ms={now_ms} /> : <span className="faint">{noLag}</span>) },
    { id: "groups", label: "Groups", text: (row) => (noLag === "not kept" ? "" : count(row.groups)), order: (row) => row.groups, align: "right", width: 80, leave: "tablet" },
    { id: "age", label: "Age", text: (row) => age(row.create_time_ms, now_ms), order: (row) => -row.create_time_ms, align: "right", width: 90, cell: (row) => <Age ms={row.create_time_ms} now_ms={now_ms} />, leave: "tablet" },
  ];
}

export function Streams(): ReactElement {
  const live = useView("streams");
  const now = nowOf(live);
  const streams = table<Stream>(live, "streams");
  const lag = table<Lag>(live, "lag");
  const rows = useMemo(() => rowsOf(streams.rows, lag.rows), [streams.rows, lag.rows]);
  const noLag = notKept(lag) ? "not kept" : "no reader";
  const columns = useMemo(() => columnsAt(now, noLag), [Math.floor(now / 5_000), noLag]);
  return (
    <>
      <Title name="Streams" />
      <Staleness part={streams} now_ms={now} />
      <Staleness part={lag} now_ms={now} />
      <Table
        name="streams"
        rows={rows}
        columns={columns}
        sort="stream"
        more={streams.more}
        staleColumns={lag.stale && lag.as_of_ms > 0 ? ["lag", "groups"] : []}
        greyed={() => streams.stale && streams.as_of_ms > 0}
        empty={<Nothing part={streams}><Empty title="No stream yet." command="braid create stream logs --lane live=4 --lane bulk=4" /></Nothing>}
      />
    </>
  );
}
