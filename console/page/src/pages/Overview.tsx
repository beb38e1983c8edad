// What is wrong now, what is moving, and who is behind: the page that people on call open first.
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { Alert, Cluster, Lag, MeshEvent, OverviewSummary, Stream } from "../api/documents";
import type { LiveState } from "../api/live";
import { count, counted } from "../format/numbers";
import { duration } from "../format/times";
import { ClusterLink, GroupLink, LagCell, lagText, StreamLink, Trend, trendText } from "../parts/cells";
import { Figure } from "../parts/Facts";
import { Age, Moment } from "../parts/moments";
import { Empty, Section } from "../parts/Notes";
import { stateOf } from "../parts/RouteDiagram";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { usePast } from "../state/moment";
import { nowOf, table, useView, value } from "../state/view";
import { aboutOf, typeWords } from "./event_words";
import { Title } from "./Title";

export function Overview(): ReactElement {
  const live = useView("overview");
  const now = nowOf(live);
  const alerts = table<Alert>(live, "alerts");
  return (
    <>
      <Title name="Overview" />
      <Figures summary={value<OverviewSummary>(live, "summary").value} />
      <div className="columns">
        <div>
          <Section title="Firing now" part={alerts} now_ms={now}>
            <Firing alerts={alerts.rows} now_ms={now} />
          </Section>
          <Section title="Most behind" part={table(live, "lag")} now_ms={now} actions={<Link to="/groups">All groups</Link>}>
            <Behind rows={table<Lag>(live, "lag").rows} now_ms={now} />
          </Section>
          <Moving live={live} now_ms={now} />
        </div>
        <div>
          <Section title="Clusters" part={table(live, "clusters")} now_ms={now} actions={<Link to="/clusters">All</Link>}>
            <ClusterList rows={table<Cluster>(live, "clusters").rows} />
          </Section>
          <Section title="Latest events" part={table(live, "events")} now_ms={now} actions={<Link to="/events">All</Link>}>
            <Latest events={table<MeshEvent>(live, "events").rows} />
          </Section>
        </div>
      </div>
    </>
  );
}

/** A number is absent while its service has not answered, and where nobody kept it. */
function shown(number: number | null | undefined, absent: string): string {
  return number === null || number === undefined ? absent : count(number);
}

/** Shows nothing while it is not known. */
function noteOf(number: number | null, some: string, none: string): string {
  if (number === null) return "";
  return number > 0 ? `${count(number)} ${some}` : none;
}

function Figures({ summary }: { summary: OverviewSummary | null }): ReactElement {
  const absent = usePast() && summary !== null ? "not kept" : "…";
  const { clusters_unwell = null, streams_blocked = null, worst_lag_seconds = null, free_leases = null, alerts_firing = null, moves = null } = summary ?? {};
  return (
    <div className="figures">
      <Figure label="Alerts firing" value={shown(alerts_firing, absent)} tone={alerts_firing ? "bad" : "idle"} note={alerts_firing === 0 ? "nobody needs to look" : ""} />
      <Figure label="Worst lag" value={worst_lag_seconds === null ? absent : duration(worst_lag_seconds)} note={summary?.lag_stale ? "some of it is stale" : "of any group"} tone={summary?.lag_stale ? "warn" : "idle"} />
      <Figure label="Clusters" value={shown(summary?.clusters, absent)} tone={clusters_unwell ? "bad" : "idle"} note={noteOf(clusters_unwell, "unwell", "all well")} />
      <Figure label="Streams" value={shown(summary?.streams, absent)} tone={streams_blocked ? "warn" : "idle"} note={noteOf(streams_blocked, "blocked", "none blocked")} />
      <Figure label="Moves in progress" value={shown(moves, absent)} note={moves === null ? "" : moves > 0 ? "channels drain" : "nothing moves"} />
      <Figure label="Unowned partitions" value={shown(free_leases, absent)} tone={free_leases ? "warn" : "idle"} note={typeof summary?.groups === "number" ? `among ${counted(summary.groups, "group")}` : ""} />
    </div>
  );
}

function Firing({ alerts, now_ms }: { alerts: readonly Alert[]; now_ms: number }): ReactElement {
  const firing = [...alerts].sort((one, other) => Number(Boolean(one.silence)) - Number(Boolean(other.silence)) || one.severity.localeCompare(other.severity) || other.fire_time_ms - one.fire_time_ms);
  if (firing.length === 0) return <p className="calm">No alert is firing.</p>;
  return (
    <ul className="list">
      {firing.slice(0, 8).map((alert) => (
        <li key={alert.key}>
          <State state={alert.silence ? "silenced" : alert.severity} />
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

function Behind({ rows, now_ms }: { rows: readonly Lag[]; now_ms: number }): ReactElement {
  const columns: CellColumn<Lag>[] = [
    { id: "group", label: "Group", text: (row) => row.group, cell: (row) => (row.foreign ? <span title="No group of this mesh">{row.group}</span> : <GroupLink name={row.group} />) },
    { id: "stream", label: "Stream / lane", width: 130, text: (row) => `${row.stream}/${row.lane}`, cell: (row) => <StreamLink name={row.stream} lane={row.lane} />, leave: "phone" },
    { id: "lag", label: "Lag", text: lagText, order: (row) => row.lag_seconds, align: "right", width: 134, cell: (row) => <LagCell lag={row} now_ms={now_ms} /> },
    { id: "records", label: "Records", text: (row) => count(row.lag_records), order: (row) => row.lag_records, align: "right", width: 96, leave: "tablet" },
    { id: "trend", label: "Trend", text: trendText, order: (row) => row.trend_per_s ?? 0, align: "right", width: 96, cell: (row) => <Trend lag={row} short />, leave: "tablet" },
  ];
  return (
    <Table
      name="lanes with the most lag"
      rows={rows}
      columns={columns}
      sort="-lag"
      bare
      empty={<Empty title="No group has read anything yet." command="braid consume logs --group indexer" />}
    />
  );
}

function Moving({ live, now_ms }: { live: LiveState; now_ms: number }): ReactElement {
  const streams = table<Stream>(live, "streams");
  const draining = streams.rows.flatMap((stream) => stream.status.channels.filter((channel) => channel.state === "draining"));
  const blocked = streams.rows.filter((stream) => stream.status.blocked_reason !== "");
  return (
    <Section title="Moves and failovers" part={streams} now_ms={now_ms} actions={<Link to="/streams">All streams</Link>}>
      {draining.length + blocked.length === 0 ? <p className="calm">Nothing moves.</p> : null}
      <ul className="list">
        {blocked.map((stream) => (
          <li key={stream.key}>
            <State state="blocked" />
            <span className="grow">
              <StreamLink name={stream.name} />: {stream.status.blocked_reason}
            </span>
          </li>
        ))}
        {draining.slice(0, 12).map((channel) => (
          <li key={channel.name}>
            <State state={stateOf(channel)} />
            <span className="grow">
              <StreamLink name={channel.stream} lane={channel.lane} /> leaves <ClusterLink name={channel.cluster} />
              <span className="faint"> · waits for {channel.drain_step.replaceAll("_", " ") || "its turn"}</span>
            </span>
            <span className="faint nowrap">
              for <Age ms={channel.state_since_ms} now_ms={now_ms} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function ClusterList({ rows }: { rows: readonly Cluster[] }): ReactElement {
  const unwellFirst = [...rows].sort((one, other) => Number(one.status.health === "healthy") - Number(other.status.health === "healthy") || one.name.localeCompare(other.name));
  if (rows.length === 0) return <Empty title="No cluster yet." command="braid create cluster east --bootstrap HOST:9092" />;
  return (
    <ul className="list">
      {unwellFirst.map((cluster) => (
        <li key={cluster.key}>
          <State state={cluster.status.health} />
          <span className="grow">
            <ClusterLink name={cluster.name} />
            {cluster.status.health_reason && cluster.status.health !== "healthy" ? <span className="faint"> {cluster.status.health_reason}</span> : null}
          </span>
          <span className="faint nowrap">{counted(cluster.status.active_channels, "channel")}</span>
        </li>
      ))}
    </ul>
  );
}

function Latest({ events }: { events: readonly MeshEvent[] }): ReactElement {
  const newest = [...events].sort((one, other) => other.time_ms - one.time_ms || other.sequence - one.sequence);
  if (newest.length === 0) return <Empty title="Nothing has happened yet." command="braid create stream logs --lane live=4 --lane bulk=4" />;
  return (
    <ol className="list events-list">
      {newest.map((event) => (
        <li key={event.key}>
          <span className="faint nowrap mono-number">
            <Moment ms={event.time_ms} />
          </span>
          <Link to="/events" search={{ history: aboutOf(event) } as never} className="grow">
            <strong>{typeWords(event.type)}</strong> {event.text}
          </Link>
        </li>
      ))}
    </ol>
  );
}
