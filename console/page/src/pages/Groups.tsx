// Every group, the one that is most behind first.
import { useMemo, type ReactElement } from "react";
import type { Group, Lag } from "../api/documents";
import { count } from "../format/numbers";
import { GroupLink, LagCell, lagText, Trend, trendText } from "../parts/cells";
import { Empty, notKept, Nothing, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { nowOf, table, useView } from "../state/view";
import { groupRows, type GroupRow } from "./group_rows";
import { Title } from "./Title";

function trendOf(row: GroupRow): { trend_per_s?: number; seconds_to_zero?: number } {
  const zero = row.worst?.seconds_to_zero;
  return {
    ...(row.trend_per_s === undefined ? {} : { trend_per_s: row.trend_per_s }),
    ...(zero === undefined ? {} : { seconds_to_zero: zero }),
  };
}

function columnsAt(now_ms: number, noLag: string): CellColumn<GroupRow>[] {
  return [
    { id: "group", label: "Group", text: (row) => row.key, cell: (row) => (row.group ? <GroupLink name={row.key} /> : <span title="lagmon sees its commits; the assigner does not know it">{row.key}</span>) },
    { id: "state", label: "State", text: (row) => row.state, width: 132, cell: (row) => <State state={row.state} />, leave: "phone" },
    {
      id: "lag",
      label: "Worst lag",
      text: (row) => (row.worst ? lagText(row.worst) : ""),
      order: (row) => row.worst?.lag_seconds ?? -1,
      align: "right",
      width: 134,
      cell: (row) => (row.worst ? <LagCell lag={row.worst} now_ms={now_ms} /> : <span className="faint">{noLag}</span>),
    },
    { id: "lane", label: "Where", text: (row) => (row.worst ? `${row.worst.stream}/${row.worst.lane}` : ""), width: 130, leave: "tablet" },
    { id: "records", label: "Records", text: (row) => (row.worst ? count(row.records) : ""), order: (row) => row.records, align: "right", width: 104, leave: "phone" },
    { id: "trend", label: "Trend", text: (row) => trendText(trendOf(row)), order: (row) => row.trend_per_s ?? 0, align: "right", width: 186, cell: (row) => <Trend lag={trendOf(row)} />, leave: "tablet" },
    { id: "members", label: "Members", text: (row) => String(row.group?.status.members ?? ""), order: (row) => row.group?.status.members ?? -1, align: "right", width: 80, leave: "phone" },
    {
      id: "leases",
      label: "Leases",
      text: (row) => (row.group ? `${count(row.group.status.leases)}${row.group.status.free_leases ? ` (${count(row.group.status.free_leases)} free)` : ""}` : ""),
      order: (row) => row.group?.status.leases ?? -1,
      align: "right",
      width: 112,
      leave: "tablet",
    },
  ];
}

/** What lagmon says; it is greyed by itself while lagmon does not answer. */
const LAG_COLUMNS = ["lag", "lane", "records", "trend"];

export function Groups(): ReactElement {
  const live = useView("groups");
  const now = nowOf(live);
  const groups = table<Group>(live, "groups");
  const lag = table<Lag>(live, "lag");
  const rows = useMemo(() => groupRows(groups.rows, lag.rows), [groups.rows, lag.rows]);
  const minute = Math.floor(now / 5_000);
  const noLag = notKept(lag) ? "not kept" : "none known";
  const columns = useMemo(() => columnsAt(now, noLag), [minute, noLag]);
  return (
    <>
      <Title name="Groups" />
      <Staleness part={groups} now_ms={now} />
      <Staleness part={lag} now_ms={now} />
      <Table
        name="groups"
        rows={rows}
        columns={columns}
        sort="-lag"
        more={groups.more || lag.more}
        greyed={() => groups.stale && groups.as_of_ms > 0}
        staleColumns={lag.stale && lag.as_of_ms > 0 ? LAG_COLUMNS : []}
        empty={<Nothing part={groups}><Empty title="No group yet." command="braid consume logs --group indexer">A group is there as soon as its first member joins.</Empty></Nothing>}
      />
    </>
  );
}
