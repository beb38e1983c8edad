// One cluster: the evidence behind its health, its disks, and the channels that it carries.
import { useParams } from "@tanstack/react-router";
import type { ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { Alert, Channel, Cluster, Evidence } from "../api/documents";
import { bytes, count, percent } from "../format/numbers";
import { age, duration } from "../format/times";
import { StreamLink } from "../parts/cells";
import { Facts } from "../parts/Facts";
import { Age } from "../parts/moments";
import { Empty, refused, Section, Staleness } from "../parts/Notes";
import { drainText, stateOf } from "../parts/RouteDiagram";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { usePast } from "../state/moment";
import { nowOf, table, useView, value } from "../state/view";
import { AlertList } from "./AlertList";
import { diskShare } from "./Clusters";
import { NotThere, Title } from "./Title";

export function ClusterPage(): ReactElement {
  const { name } = useParams({ strict: false }) as { name: string };
  const live = useView("cluster", { name });
  const now = nowOf(live);
  const cluster = value<Cluster>(live, "cluster");
  const cordoned = cluster.value?.status.cordoned ?? false;
  if (refused(cluster)) return <NotThere name={name} parent={["/clusters", "Clusters"]} history={`cluster/${name}`} part={cluster} now_ms={now} />;
  return (
    <>
      <Title name={name} parent={["/clusters", "Clusters"]} history={`cluster/${name}`} state={cluster.value ? <State state={cluster.value.status.health} /> : null}>
        <ActionButton verb="cordon" given={{ cluster: name, undo: cordoned }} label={cordoned ? "Uncordon" : "Cordon"} />
      </Title>
      <Staleness part={cluster} now_ms={now} />
      <AlertList part={table<Alert>(live, "alerts")} now_ms={now} />
      {cluster.value ? <Health cluster={cluster.value} now_ms={now} /> : null}
      {cluster.value?.status.decommission ? <Decommissioned cluster={cluster.value} now_ms={now} /> : null}
      <Section title="Channels here" part={table(live, "channels")} now_ms={now}>
        <ChannelsHere name={name} rows={table<Channel>(live, "channels").rows} now_ms={now} />
      </Section>
    </>
  );
}

function Health({ cluster, now_ms }: { cluster: Cluster; now_ms: number }): ReactElement {
  const { spec, status } = cluster;
  const past = usePast();
  const used = diskShare(cluster);
  const load = status.load;
  return (
    <>
      {status.health_reason ? <p className={`note ${status.health === "healthy" ? "" : "tone-warn"}`}>{status.health_reason}</p> : null}
      {status.cordoned ? <p className="note tone-warn">Cordoned: no new traffic comes here.</p> : null}
      <Facts
        facts={[
          ["Bootstrap", <Addresses key="bootstrap" text={spec.bootstrap} />],
          ["Zone", spec.zone],
          ["Kafka's id", <span key="id" className="mono">{status.kafka_cluster_id}</span>],
          ["Health since", <Age key="since" ms={status.health_since_ms} now_ms={now_ms} />],
          ["Verdict", status.verdict.replaceAll("_", " ")],
          ["Fullest disk", used === undefined ? load?.unmeasured || (past ? "not kept" : "not measured") : `${percent(used)} used, ${bytes(load?.free_bytes ?? 0)} free on broker ${load?.broker}`],
          ["Written", load && load.measured_ms > 0 ? `${bytes(load.bytes_per_s)}/s` : past ? "not kept" : "not measured"],
          ["Security profile", spec.security_profile || "plain text"],
        ]}
      />
      {status.evidence ? <EvidenceFacts evidence={status.evidence} now_ms={now_ms} /> : <p className="note">{past ? "The evidence, disks and rates were measured, and are not kept at this time." : "Only the leading registry knows the evidence, and it has none yet."}</p>}
    </>
  );
}

/** Addresses, broken between two of them where one line is too short. */
function Addresses({ text }: { text: string }): ReactElement {
  return <span className="mono">{text.split(",").join(", ")}</span>;
}

function EvidenceFacts({ evidence, now_ms }: { evidence: Evidence; now_ms: number }): ReactElement {
  const partitions = `${count(evidence.partitions)} looked at, ${count(evidence.gone_partitions)} gone, ${count(evidence.under_replicated_partitions)} short of copies`;
  const brokers = `${count(evidence.brokers)}${evidence.missing_brokers.length ? `, missing ${evidence.missing_brokers.join(", ")}` : ""}${evidence.silent_brokers.length ? `, silent ${evidence.silent_brokers.join(", ")}` : ""}`;
  return (
    <Section title="Evidence">
      <Facts
        facts={[
          ["Last look", <Age key="look" ms={evidence.looked_ms} now_ms={now_ms} />],
          ["What failed", evidence.failed || "nothing"],
          ["Append", `${evidence.failed ? "failed" : duration(evidence.append_seconds)}; usual ${duration(evidence.usual_append_seconds)}, slow beyond ${duration(evidence.slow_append_seconds)}`],
          ["Brokers", brokers],
          ["Partitions", partitions],
          ["Witnesses", `${count(evidence.hosts)} hosts: ${count(evidence.hosts_reaching)} reach it, ${count(evidence.hosts_failing)} do not`],
          ["Falls in five minutes", count(evidence.falls)],
          ["New topics", evidence.no_topics || evidence.denied || "taken"],
        ]}
      />
    </Section>
  );
}

function Decommissioned({ cluster, now_ms }: { cluster: Cluster; now_ms: number }): ReactElement | null {
  const going = cluster.status.decommission;
  if (going === undefined) return null;
  return (
    <Section title="Decommission">
      <Facts
        facts={[
          ["State", <State key="state" state={going.state} />],
          ["For", <Age key="since" ms={going.since_ms} now_ms={now_ms} />],
          ["Streams left", count(going.streams_left)],
          ["Why", going.reason],
        ]}
      />
      <ul className="list">
        {going.blocked.map((each) => (
          <li key={each.stream}>
            <State state="blocked" />
            <span className="grow">
              <StreamLink name={each.stream} />: {each.reason}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function ChannelsHere({ name, rows, now_ms }: { name: string; rows: readonly Channel[]; now_ms: number }): ReactElement {
  const detail = (row: Channel): string => (row.state === "draining" ? drainText(row) : row.state === "active" ? `weight ${row.weight}` : "");
  const columns: CellColumn<Channel>[] = [
    { id: "stream", label: "Stream / lane", text: (row) => `${row.stream}/${row.lane}`, cell: (row) => <StreamLink name={row.stream} lane={row.lane} /> },
    { id: "state", label: "State", text: stateOf, width: 130, cell: (row) => <State state={stateOf(row)} /> },
    { id: "detail", label: "Detail", text: detail, leave: "phone" },
    { id: "topic", label: "Topic", text: (row) => row.topic, cell: (row) => <span className="mono">{row.topic}</span>, leave: "tablet" },
    { id: "partitions", label: "Partitions", text: (row) => count(row.partitions), order: (row) => row.partitions, align: "right", width: 100, leave: "phone" },
    { id: "since", label: "Since", text: (row) => age(row.state_since_ms, now_ms), order: (row) => -row.state_since_ms, align: "right", width: 90, cell: (row) => <Age ms={row.state_since_ms} now_ms={now_ms} /> },
  ];
  return <Table name="channels" rows={rows} columns={columns} sort="stream" empty={<Empty title="This cluster carries nothing." command={`braid move STREAM --to ${name}`} />} />;
}
