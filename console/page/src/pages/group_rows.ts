// Rows of the groups' table: a group and its lag over all lanes. Pure.
import type { Group, Lag } from "../api/documents";

export interface GroupRow {
  key: string;
  group: Group | undefined;
  worst: Lag | undefined;
  records: number;
  trend_per_s: number | undefined;
  state: string;
}

function worse(one: Lag | undefined, other: Lag): Lag {
  return one === undefined || other.lag_seconds > one.lag_seconds ? other : one;
}

function stateOf(group: Group | undefined, worst: Lag | undefined): string {
  if (group === undefined) return "foreign";
  if (group.status.stopped_lanes.length > 0) return "blocked";
  if (group.status.members === 0) return "unattended";
  if (worst?.stale) return "stale";
  if (group.status.free_leases > 0) return "waiting";
  return group.rules?.freeze ? "frozen" : "live";
}

/** Rows in the order that the server gives them; one whose lag has yet to come has no state. */
export function inOrder(rows: readonly GroupRow[], order: readonly string[]): GroupRow[] {
  const known = new Map(rows.map((row) => [row.key, row]));
  return order.map((key) => known.get(key) ?? { key, group: undefined, worst: undefined, records: 0, trend_per_s: undefined, state: "" });
}

/** Groups that lagmon sees and the assigner does not know are shown, too: they read streams of the mesh. */
export function groupRows(groups: readonly Group[], lags: readonly Lag[]): GroupRow[] {
  const found = new Map<string, { worst: Lag | undefined; records: number; trend: number | undefined }>();
  for (const lag of lags) {
    const before = found.get(lag.group);
    const trend = lag.trend_per_s === undefined ? before?.trend : (before?.trend ?? 0) + lag.trend_per_s;
    found.set(lag.group, { worst: worse(before?.worst, lag), records: (before?.records ?? 0) + lag.lag_records, trend });
  }
  const row = (key: string, group: Group | undefined): GroupRow => {
    const lag = found.get(key);
    return { key, group, worst: lag?.worst, records: lag?.records ?? 0, trend_per_s: lag?.trend, state: stateOf(group, lag?.worst) };
  };
  const known = new Set(groups.map((group) => group.name));
  const foreign = [...found.keys()].filter((name) => !known.has(name));
  return [...groups.map((group) => row(group.name, group)), ...foreign.map((name) => row(name, undefined))];
}
