// Every Kafka cluster with its health, and why it is judged so.
import { useMemo, type ReactElement } from "react";
import type { Cluster, Evidence } from "../api/documents";
import { bytes, count, percent } from "../format/numbers";
import { age, duration } from "../format/times";
import { ClusterLink } from "../parts/cells";
import { Age } from "../parts/moments";
import { Empty, Nothing, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { nowOf, table, useView } from "../state/view";
import { Title } from "./Title";

export function diskShare(cluster: Cluster): number | undefined {
  const load = cluster.status.load;
  return load && load.measured_ms > 0 && load.total_bytes > 0 ? 1 - load.free_bytes / load.total_bytes : undefined;
}

/** What else holds of a cluster, beside its health. */
export function marks(cluster: Cluster): string[] {
  const { cordoned, decommission, orphans } = cluster.status;
  return [
    ...(cordoned ? ["cordoned"] : []),
    ...(decommission ? [`decommission ${decommission.state}`] : []),
    ...(orphans > 0 ? [`${count(orphans)} orphans`] : []),
  ];
}

/** How long an append took; one that failed took no time that says anything. */
function appended(evidence: Evidence | undefined): string {
  if (!evidence?.looked_ms) return "unknown";
  return evidence.failed ? "failed" : duration(evidence.append_seconds);
}

function columnsAt(now_ms: number): CellColumn<Cluster>[] {
  return [
    { id: "cluster", label: "Cluster", text: (row) => row.name, width: 110, cell: (row) => <ClusterLink name={row.name} /> },
    { id: "health", label: "Health", text: (row) => row.status.health.replaceAll("_", " "), width: 130, cell: (row) => <State state={row.status.health} /> },
    { id: "why", label: "Why", text: (row) => [row.status.health_reason, ...marks(row)].filter(Boolean).join("; "), cell: (row) => <span className="wrap">{[row.status.health_reason, ...marks(row)].filter(Boolean).join("; ") || <span className="faint">nothing to say</span>}</span> },
    { id: "since", label: "Since", text: (row) => age(row.status.health_since_ms, now_ms), order: (row) => -row.status.health_since_ms, align: "right", width: 90, cell: (row) => <Age ms={row.status.health_since_ms} now_ms={now_ms} />, leave: "tablet" },
    { id: "zone", label: "Zone", text: (row) => row.spec.zone, width: 84, leave: "tablet" },
    { id: "active", label: "Channels", text: (row) => `${count(row.status.active_channels)}${row.status.draining_channels ? ` (${count(row.status.draining_channels)} draining)` : ""}`, order: (row) => row.status.active_channels, align: "right", width: 128, leave: "phone" },
    { id: "disk", label: "Fullest disk", text: (row) => (diskShare(row) === undefined ? "unknown" : percent(diskShare(row) ?? 0)), order: (row) => diskShare(row) ?? -1, align: "right", width: 110, leave: "tablet" },
    { id: "rate", label: "Written", text: (row) => (row.status.load && row.status.load.measured_ms > 0 ? `${bytes(row.status.load.bytes_per_s)}/s` : "unknown"), order: (row) => row.status.load?.bytes_per_s ?? -1, align: "right", width: 110, leave: "tablet" },
    { id: "append", label: "Append", text: (row) => appended(row.status.evidence), order: (row) => row.status.evidence?.append_seconds ?? -1, align: "right", width: 90, leave: "tablet" },
  ];
}

export function Clusters(): ReactElement {
  const live = useView("clusters");
  const now = nowOf(live);
  const clusters = table<Cluster>(live, "clusters");
  const columns = useMemo(() => columnsAt(now), [Math.floor(now / 5_000)]);
  return (
    <>
      <Title name="Clusters" />
      <Staleness part={clusters} now_ms={now} />
      <Table
        name="clusters"
        rows={clusters.rows}
        columns={columns}
        sort="cluster"
        more={clusters.more}
        greyed={() => clusters.stale && clusters.as_of_ms > 0}
        empty={<Nothing part={clusters}><Empty title="No cluster yet." command="braid create cluster east --bootstrap HOST:9092" /></Nothing>}
      />
    </>
  );
}
