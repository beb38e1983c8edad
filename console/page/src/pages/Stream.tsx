// One stream: its lanes over clusters as a diagram that moves, its channels, and who reads it.
import { Link, useParams } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { Alert, Channel, Cluster, Group, Lag, Stream } from "../api/documents";
import type { LiveState } from "../api/live";
import { count } from "../format/numbers";
import { age } from "../format/times";
import { ClusterLink, GroupLink, LagCell, lagText } from "../parts/cells";
import { Facts } from "../parts/Facts";
import { Age } from "../parts/moments";
import { Empty, refused, Section, Staleness } from "../parts/Notes";
import { layOut, shownChannels } from "../parts/route";
import { drainText, RouteDiagram, stateOf } from "../parts/RouteDiagram";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { Tabs } from "../parts/Tabs";
import { useNarrow } from "../state/screen";
import { useAddress } from "../state/search";
import { nowOf, table, useView, value } from "../state/view";
import { AlertList } from "./AlertList";
import { streamState } from "./Streams";
import { NotThere, Title } from "./Title";

export function StreamPage(): ReactElement {
  const { name } = useParams({ strict: false }) as { name: string };
  const live = useView("stream", { name });
  const now = nowOf(live);
  const stream = value<Stream>(live, "stream");
  if (refused(stream)) return <NotThere name={name} parent={["/streams", "Streams"]} history={`stream/${name}`} part={stream} now_ms={now} />;
  return (
    <>
      <Title name={name} parent={["/streams", "Streams"]} history={`stream/${name}`} state={stream.value ? <State state={streamState(stream.value)} /> : null}>
        <Link to="/streams/$name/messages" params={{ name }} className="button">
          Messages
        </Link>
        <ActionButton verb="move" given={{ stream: name }} label="Move" />
        <ActionButton verb="replay" given={{ stream: name }} label="Replay dead letters" />
      </Title>
      <Staleness part={stream} now_ms={now} />
      {stream.value?.status.blocked_reason ? <p className="note tone-warn">Traffic cannot leave: {stream.value.status.blocked_reason}</p> : null}
      <AlertList part={table<Alert>(live, "alerts")} now_ms={now} />
      {stream.value ? <Route live={live} stream={stream.value} /> : null}
      {stream.value ? <StreamFacts stream={stream.value} now_ms={now} /> : null}
      <Section title="Readers" part={table(live, "lag")} now_ms={now}>
        <Readers stream={name} rows={table<Lag>(live, "lag").rows} groups={table<Group>(live, "groups").rows} now_ms={now} />
      </Section>
      {stream.value ? (
        <Section title="Channels">
          <Channels name={name} rows={stream.value.status.channels} now_ms={now} />
        </Section>
      ) : null}
    </>
  );
}

const SHOWN = [["", "In use"], ["drained", "Drained, too"]] as const;

function Route({ live, stream }: { live: LiveState; stream: Stream }): ReactElement {
  const [address, change] = useAddress();
  const drained = address["channels"] === "drained" ? "drained" : "";
  const clusters = table<Cluster>(live, "clusters");
  const narrow = useNarrow();
  const diagram = useMemo(
    () => layOut(shownChannels(stream.status.channels, drained === "drained"), Object.keys(stream.spec.lanes), clusters.rows.filter((cluster) => stream.spec.clusters.length === 0 || stream.spec.clusters.includes(cluster.name) || stream.status.channels.some((channel) => channel.cluster === cluster.name)), stream.spec.clusters, narrow),
    [stream, clusters.rows, drained, narrow],
  );
  return (
    <Section
      title={`Route, revision ${count(stream.status.route_revision)}`}
      part={clusters}
      now_ms={nowOf(live)}
      actions={<Tabs label="Channels" choices={SHOWN} chosen={drained} onChoose={(next) => change({ channels: next })} />}
    >
      <RouteDiagram diagram={diagram} now_ms={nowOf(live)} />
    </Section>
  );
}

function StreamFacts({ stream, now_ms }: { stream: Stream; now_ms: number }): ReactElement {
  const { spec } = stream;
  const targets = Object.entries(spec.lag_target).map(([where, target]) => `${where} ${target}`);
  return (
    <Facts
      facts={[
        ["Failover", spec.failover.replaceAll("_", " ")],
        ["Clusters", spec.clusters.join(", ") || "any"],
        ["Copies", spec.replication_factor === 0 ? "three, where a cluster has so many brokers" : count(spec.replication_factor)],
        ["Kept", `${count(spec.retention_hours)} h`],
        ["Order over moves", spec.ordered ? "kept" : "not kept"],
        ["Lag targets", targets.join(", ")],
        ["Tenant", stream.tenant],
        ["Created", <Age key="age" ms={stream.create_time_ms} now_ms={now_ms} />],
      ]}
    />
  );
}

function Readers(props: { stream: string; rows: readonly Lag[]; groups: readonly Group[]; now_ms: number }): ReactElement {
  const { stream, rows, groups, now_ms } = props;
  const members = new Map(groups.map((group) => [group.name, group.status.members]));
  const columns: CellColumn<Lag>[] = [
    { id: "group", label: "Group", text: (row) => row.group, cell: (row) => (row.foreign ? <span title="No group of this mesh">{row.group}</span> : <GroupLink name={row.group} />) },
    { id: "lane", label: "Lane", text: (row) => row.lane, width: 110 },
    { id: "cluster", label: "Cluster", text: (row) => row.cluster, width: 120, cell: (row) => <ClusterLink name={row.cluster} />, leave: "phone" },
    { id: "topic", label: "Topic", text: (row) => row.topic, width: 220, cell: (row) => <span className="mono">{row.topic}</span>, leave: "tablet" },
    { id: "lag", label: "Lag", text: lagText, order: (row) => row.lag_seconds, align: "right", width: 130, cell: (row) => <LagCell lag={row} now_ms={now_ms} /> },
    { id: "records", label: "Records", text: (row) => count(row.lag_records), order: (row) => row.lag_records, align: "right", width: 110, leave: "phone" },
    { id: "members", label: "Members", text: (row) => String(members.get(row.group) ?? ""), order: (row) => members.get(row.group) ?? -1, align: "right", width: 90, leave: "tablet" },
  ];
  return <Table name="readers" prefix="r" rows={rows} columns={columns} sort="-lag" greyed={(row) => row.stale} empty={<Empty title="Nobody reads this stream." command={`braid consume ${stream} --group indexer`} />} />;
}

function Channels({ name, rows, now_ms }: { name: string; rows: readonly Channel[]; now_ms: number }): ReactElement {
  const keyed = rows.map((row) => ({ ...row, key: row.name }));
  const detail = (row: Channel): string => (row.state === "draining" ? drainText(row) : row.state === "active" ? `weight ${row.weight}` : row.closed ? "closed by a person" : "");
  const columns: CellColumn<Channel>[] = [
    { id: "channel", label: "Channel", text: (row) => row.name, cell: (row) => <span className="mono wrap">{row.name}</span> },
    { id: "state", label: "State", text: stateOf, width: 112, cell: (row) => <State state={stateOf(row)} /> },
    { id: "cluster", label: "Cluster", text: (row) => row.cluster, width: 90, cell: (row) => <ClusterLink name={row.cluster} /> },
    { id: "detail", label: "Detail", text: detail, leave: "tablet" },
    { id: "topic", label: "Topic", text: (row) => row.topic, cell: (row) => <span className="mono">{row.topic}</span>, leave: "tablet" },
    { id: "partitions", label: "Partitions", text: (row) => count(row.partitions), order: (row) => row.partitions, align: "right", width: 100, leave: "phone" },
    { id: "since", label: "Since", text: (row) => age(row.state_since_ms, now_ms), order: (row) => -row.state_since_ms, align: "right", width: 90, leave: "phone", cell: (row) => <Age ms={row.state_since_ms} now_ms={now_ms} /> },
  ];
  return <Table name="channels" prefix="c" rows={keyed} columns={columns} sort="channel" empty={<Empty title="The stream has no channel yet." command={`braid describe stream ${name}`} />} />;
}
