// The heat map's matrix: members by partitions, and how hot each cell is. Pure.
import type { Lag, Lease, Member } from "../api/documents";
import { lagFinder } from "./lease_lags";

export type Heat = "lag" | "records" | "age";

export interface HeatCell {
  lease: Lease;
  lag: Lag | undefined;
  value: number;
  /** From 0 to 4; the legend names the bounds. */
  level: number;
  column: number;
}

export interface HeatRow {
  id: string;
  label: string;
  member: Member | undefined;
  cells: HeatCell[];
}

export interface HeatMatrix {
  rows: HeatRow[];
  columns: number;
  /** Where each lane begins, and its name. */
  lanes: { at: number; name: string }[];
}

/** Pixels of one character of a label, at the most that usual text takes. */
const LABEL_CHARACTER = 6.5;

/** A lane's name in so many pixels: whole, else without its stream, else cut; a name may not reach into the next one. */
export function laneLabel(name: string, pixels: number): string {
  const characters = Math.floor(pixels / LABEL_CHARACTER);
  const lane = name.slice(name.indexOf("/") + 1);
  const whole = [name, lane].find((each) => each.length <= characters);
  return whole ?? (characters < 2 ? "" : `${lane.slice(0, characters - 1)}…`);
}

/** Upper bounds of the levels 0 to 3. */
export const BOUNDS: Readonly<Record<Heat, readonly number[]>> = {
  lag: [1, 10, 60, 600],
  records: [100, 10_000, 1_000_000, 100_000_000],
  age: [60, 600, 3_600, 86_400],
};

export function levelOf(value: number, heat: Heat): number {
  const place = BOUNDS[heat].findIndex((bound) => value <= bound);
  return place < 0 ? 4 : place;
}

function valueOf(lease: Lease, lag: Lag | undefined, heat: Heat, now_ms: number): number {
  if (heat === "age") return Math.max(0, (now_ms - lease.since_ms) / 1000);
  return (heat === "lag" ? lag?.lag_seconds : lag?.lag_records) ?? 0;
}

function byLane(one: Lease, other: Lease): number {
  const [left, right] = [one.name.split("/"), other.name.split("/")];
  const lanes = `${left[0]}/${left[1]}`.localeCompare(`${right[0]}/${right[1]}`);
  return lanes || Number(left[2]) - Number(right[2]) || Number(left[3]) - Number(right[3]);
}

/** Columns are leases in the order of stream, lane, generation and partition; the last row holds those that nobody has. */
export function matrixOf(members: readonly Member[], leases: readonly Lease[], lags: readonly Lag[], heat: Heat, now_ms: number): HeatMatrix {
  const lagOf = lagFinder(lags);
  const rows = new Map<string, HeatRow>(
    [...members]
      .sort((one, other) => one.client_id.localeCompare(other.client_id) || one.id.localeCompare(other.id))
      .map((member) => [member.id, { id: member.id, label: member.client_id || member.id, member, cells: [] }]),
  );
  const lanes: HeatMatrix["lanes"] = [];
  const ordered = [...leases].sort(byLane);
  ordered.forEach((lease, column) => {
    const name = lease.name.split("/").slice(0, 2).join("/");
    if (lanes.at(-1)?.name !== name) lanes.push({ at: column, name });
    const lag = lagOf(lease);
    const value = valueOf(lease, lag, heat, now_ms);
    const cell = { lease, lag, value, level: levelOf(value, heat), column };
    const row = rows.get(lease.member) ?? { id: lease.member, label: lease.member ? lease.member_client_id || lease.member : "nobody", member: undefined, cells: [] };
    row.cells.push(cell);
    rows.set(lease.member, row);
  });
  const nobody = rows.get("");
  rows.delete("");
  return { rows: [...rows.values(), ...(nobody ? [nobody] : [])], columns: ordered.length, lanes };
}
