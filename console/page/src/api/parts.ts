// The state of a view: its parts, as a snapshot and then deltas make them. Pure.
import type { Row } from "./documents";

export interface Fault {
  status: number;
  reason: string;
  message: string;
  field: string;
  remedy: string;
  /** Values that the field may have, where these are few. */
  choices?: readonly string[];
}

interface Freshness {
  as_of_ms: number;
  stale: boolean;
  error: Fault | null;
}

export interface TablePart<R extends Row = Row> extends Freshness {
  kind: "table";
  rows: readonly R[];
  more: boolean;
}

export interface ValuePart<V = unknown> extends Freshness {
  kind: "value";
  value: V | null;
}

export type Part = TablePart | ValuePart;
export type Parts = Readonly<Record<string, Part>>;

export interface ViewState {
  readonly id: string;
  readonly now_ms: number;
  readonly parts: Parts;
}

interface PartDelta extends Partial<Freshness> {
  set?: Row[];
  removed?: string[];
  value?: unknown;
  more?: boolean;
}

export interface Delta {
  now_ms: number;
  parts: Record<string, PartDelta>;
}

/** Returns the state that a snapshot describes; it replaces everything. */
export function fromSnapshot(snapshot: { id: string; now_ms: number; parts: Record<string, Part> }): ViewState {
  return { id: snapshot.id, now_ms: snapshot.now_ms, parts: snapshot.parts };
}

/** Returns the state after a delta. Parts that the delta does not name keep their identity, so nothing of them is drawn again. */
export function applyDelta(state: ViewState, delta: Delta, id: string): ViewState {
  const parts: Record<string, Part> = { ...state.parts };
  for (const [name, change] of Object.entries(delta.parts)) {
    const part = parts[name];
    if (part !== undefined) parts[name] = part.kind === "table" ? tableAfter(part, change) : valueAfter(part, change);
  }
  return { id: id || state.id, now_ms: delta.now_ms, parts };
}

function freshness(part: Freshness, change: PartDelta): Freshness {
  return {
    as_of_ms: change.as_of_ms ?? part.as_of_ms,
    stale: change.stale ?? part.stale,
    error: change.error === undefined ? part.error : change.error,
  };
}

function tableAfter(part: TablePart, change: PartDelta): TablePart {
  return { ...part, ...freshness(part, change), more: change.more ?? part.more, rows: rowsAfter(part.rows, change) };
}

function valueAfter(part: ValuePart, change: PartDelta): ValuePart {
  const value = change.value === undefined ? part.value : change.value;
  return { ...part, ...freshness(part, change), value };
}

/** Rows keep their order; new ones come last. Without a change of rows the same array is returned. */
function rowsAfter(rows: readonly Row[], change: PartDelta): readonly Row[] {
  const set = new Map((change.set ?? []).map((row) => [row.key, row]));
  const removed = new Set(change.removed ?? []);
  if (set.size === 0 && removed.size === 0) return rows;
  const kept: Row[] = [];
  for (const row of rows) {
    if (removed.has(row.key)) continue;
    kept.push(set.get(row.key) ?? row);
    set.delete(row.key);
  }
  return kept.concat([...set.values()]);
}
