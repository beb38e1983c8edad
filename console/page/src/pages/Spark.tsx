// Spark queries: what each holds, how far its group is behind, and when that last committed.
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";
import type { Lag, Member } from "../api/documents";
import { count } from "../format/numbers";
import { age } from "../format/times";
import { GroupLink, LagCell, lagText, StreamLink } from "../parts/cells";
import { Age } from "../parts/moments";
import { Empty, Nothing, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { nowOf, table, useView } from "../state/view";
import { memberState } from "./GroupTables";
import { sparkRows, type SparkRow } from "./spark_rows";
import { Title } from "./Title";

const nameOf = (job: Member): string => job.client_id || job.id;

function columnsAt(now_ms: number): CellColumn<SparkRow>[] {
  return [
    { id: "job", label: "Query", text: ({ job }) => `${nameOf(job)} ${job.id}`, cell: ({ job }) => (
        <Link to="/groups/$name" params={{ name: job.group }} search={{ mq: nameOf(job), q: nameOf(job) } as never} className="row-link" title={job.id}>
          {nameOf(job)}
        </Link>
      ) },
    { id: "state", label: "State", text: ({ job }) => memberState(job), width: 104, cell: ({ job }) => <State state={memberState(job)} /> },
    { id: "group", label: "Group", text: ({ job }) => job.group, width: 120, cell: ({ job }) => <GroupLink name={job.group} />, leave: "phone" },
    { id: "reads", label: "Reads", text: (row) => row.lanes.join(" "), width: 150, leave: "tablet", cell: (row) => <Reads row={row} /> },
    { id: "leases", label: "Leases", text: ({ job }) => count(job.leases), order: ({ job }) => job.leases, align: "right", width: 80, leave: "phone" },
    { id: "lag", label: "Group's lag", text: (row) => (row.worst ? lagText(row.worst) : ""), order: (row) => row.worst?.lag_seconds ?? -1, align: "right", width: 124, cell: (row) => (row.worst ? <LagCell lag={row.worst} now_ms={now_ms} /> : <span className="faint">none known</span>) },
    { id: "commit", label: "Last commit", text: (row) => age(row.committed_ms, now_ms), order: (row) => -row.committed_ms, align: "right", width: 110, cell: (row) => <Age ms={row.committed_ms} now_ms={now_ms} />, leave: "phone" },
    { id: "age", label: "Age", text: ({ job }) => age(job.join_time_ms, now_ms), order: ({ job }) => -job.join_time_ms, align: "right", width: 80, cell: ({ job }) => <Age ms={job.join_time_ms} now_ms={now_ms} />, leave: "phone" },
  ];
}

function Reads({ row }: { row: SparkRow }): ReactElement {
  if (row.lanes.length === 0) return <span className="faint">nothing yet</span>;
  return (
    <span className="cell-list">
      {row.lanes.map((each) => {
        const [name = "", lane = ""] = each.split("/");
        return <StreamLink key={each} name={name} lane={lane} />;
      })}
    </span>
  );
}

/** What lagmon says; greyed by itself while lagmon does not answer. */
const LAG_COLUMNS = ["reads", "lag", "commit"];

export function Spark(): ReactElement {
  const live = useView("spark");
  const now = nowOf(live);
  const jobs = table<Member>(live, "jobs");
  const lag = table<Lag>(live, "lag");
  const rows = useMemo(() => sparkRows(jobs.rows, lag.rows), [jobs.rows, lag.rows]);
  const moment = Math.floor(now / 5_000);
  const columns = useMemo(() => columnsAt(now), [moment]);
  return (
    <>
      <Title name="Spark jobs" />
      <p className="note">Spark commits a batch to the group once the next one is planned, so the last batch of an idle query counts as undone. Spark itself knows each batch.</p>
      <Staleness part={jobs} now_ms={now} />
      <Staleness part={lag} now_ms={now} />
      <Table
        name="queries"
        rows={rows}
        columns={columns}
        sort="-lag"
        more={jobs.more || lag.more}
        greyed={() => jobs.stale && jobs.as_of_ms > 0}
        staleColumns={lag.stale && lag.as_of_ms > 0 ? LAG_COLUMNS : []}
        empty={
          <Nothing part={jobs}>
            <Empty title="No Spark query holds leases." command="python -m pipelines.event_store --stream logs --group events --table events --checkpoint events.checkpoint">
              A streaming query is here while it runs. Batch reads hold no leases.
            </Empty>
          </Nothing>
        }
      />
    </>
  );
}
