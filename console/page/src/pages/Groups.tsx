// Every group, the one that is most behind first.
import { useCallback, useEffect, useMemo, useRef, useState, type ReactElement } from "react";
import { ask, query } from "../api/calls";
import type { Group, GroupWindow, Lag } from "../api/documents";
import type { LiveState } from "../api/live";
import { count, counted } from "../format/numbers";
import { GroupLink, LagCell, lagText, Trend, trendText } from "../parts/cells";
import { Empty, notKept, Nothing, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn, type Remote } from "../parts/Table";
import { usePast } from "../state/moment";
import { useAddress } from "../state/search";
import { nowOf, table, useView, value } from "../state/view";
import { groupRows, inOrder, type GroupRow } from "./group_rows";
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

interface EveryGroup {
  order: string[];
  groups: Group[];
  lag: Lag[];
}

/** All rows that match, for a file. */
async function everyRow(q: string, sort: string): Promise<readonly GroupRow[]> {
  const found = await ask<EveryGroup>(`/api/groups${query({ q, sort })}`);
  return inOrder(groupRows(found.groups, found.lag), found.order);
}

/** What lagmon says; it is greyed by itself while lagmon does not answer. */
const LAG_COLUMNS = ["lag", "lane", "records", "trend"];

const SORT = "-lag";
/** Rows of a window before the one in the middle of the screen; it begins at a round number, so that reloads find it. */
const BEFORE = 200;
const ROUND = 100;
/** Milliseconds without a key press after which a filter is sent. */
const TYPED_AFTER_MS = 250;

/** A text once it stays as it is. */
function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), TYPED_AFTER_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** The state of the view; while a window is on its way, that of the one before, if it is of the same time. */
function useKept(live: LiveState, past: boolean): LiveState {
  const kept = useRef({ live, past });
  if (live.state !== null || kept.current.past !== past) kept.current = { live, past };
  return live.state === null && live.fault === null ? kept.current.live : live;
}

/** What the server is asked for, and how the table asks for other rows. */
function useWindow(past: boolean): [Record<string, string>, (index: number) => void] {
  const [address] = useAddress();
  const q = useSettled(address["q"] ?? "");
  const sort = address["sort"] ?? SORT;
  const [place, setPlace] = useState({ q, sort, first: 0 });
  const first = place.q === q && place.sort === sort ? place.first : 0;
  const want = useCallback(
    (index: number) => setPlace({ q, sort, first: Math.max(0, Math.floor((index - BEFORE) / ROUND) * ROUND) }),
    [q, sort],
  );
  const params: Record<string, string> = { ...(q ? { q } : {}), sort, ...(first ? { first: String(first) } : {}) };
  return [past ? {} : params, want];
}

export function Groups(): ReactElement {
  const past = usePast();
  const [params, want] = useWindow(past);
  const live = useKept(useView("groups", params), past);
  const now = nowOf(live);
  const groups = table<Group>(live, "groups");
  const lag = table<Lag>(live, "lag");
  const shown = value<GroupWindow>(live, "window").value;
  const rows = useMemo(() => {
    const found = groupRows(groups.rows, lag.rows);
    return shown ? inOrder(found, shown.order) : found;
  }, [groups.rows, lag.rows, shown]);
  const { q = "", sort = SORT } = params;
  const remote: Remote<GroupRow> | undefined = shown
    ? { first: shown.first, matched: shown.matched, total: shown.total, want, whole: () => everyRow(q, sort) }
    : undefined;
  const minute = Math.floor(now / 5_000);
  const noLag = notKept(lag) ? "not kept" : "none known";
  const columns = useMemo(() => columnsAt(now, noLag), [minute, noLag]);
  return (
    <>
      <Title name="Groups" />
      <Staleness part={groups} now_ms={now} />
      <Staleness part={lag} now_ms={now} />
      {shown && !shown.whole ? <p className="note">Still reading: {counted(shown.total, "group")} so far. Rows are in order once all are read.</p> : null}
      <Table
        name="groups"
        rows={rows}
        columns={columns}
        sort={SORT}
        remote={remote}
        more={groups.more || lag.more}
        greyed={() => groups.stale && groups.as_of_ms > 0}
        staleColumns={lag.stale && lag.as_of_ms > 0 ? LAG_COLUMNS : []}
        empty={<Nothing part={groups}><Empty title="No group yet." command="braid consume logs --group indexer">A group is there as soon as its first member joins.</Empty></Nothing>}
      />
    </>
  );
}
