// A view's state: snapshots, deltas, and what stays as it was.
import { expect, test } from "vitest";
import { applyDelta, fromSnapshot, type TablePart, type ValuePart } from "../src/api/parts";

const fresh = { as_of_ms: 1, stale: false, error: null };
const start = fromSnapshot({
  id: "a.1",
  now_ms: 1,
  parts: {
    rows: { kind: "table", rows: [{ key: "a" }, { key: "b" }, { key: "c" }], more: false, ...fresh },
    one: { kind: "value", value: { n: 1 }, ...fresh },
  },
});

function rows(state: typeof start): string[] {
  return (state.parts["rows"] as TablePart).rows.map((row) => row.key);
}

test("a delta replaces, adds and removes rows in place", () => {
  const changed = { key: "b", n: 2 };
  const next = applyDelta(start, { now_ms: 2, parts: { rows: { set: [changed, { key: "d" }], removed: ["a"] } } }, "a.2");
  expect(rows(next)).toEqual(["b", "c", "d"]);
  expect((next.parts["rows"] as TablePart).rows[0]).toBe(changed);
  expect(rows(start)).toEqual(["a", "b", "c"]);
});

test("a delta of another part leaves a table's rows identical", () => {
  const next = applyDelta(start, { now_ms: 2, parts: { one: { value: { n: 2 } } } }, "a.2");
  expect(next.parts["rows"]).toBe(start.parts["rows"]);
  expect((next.parts["one"] as ValuePart).value).toEqual({ n: 2 });
});

test("a part that goes stale keeps its rows and says why", () => {
  const error = { status: 503, reason: "UNAVAILABLE", message: "away", field: "", remedy: "" };
  const part = applyDelta(start, { now_ms: 9, parts: { rows: { stale: true, error } } }, "a.2").parts["rows"] as TablePart;
  expect([part.stale, part.error, part.rows]).toEqual([true, error, (start.parts["rows"] as TablePart).rows]);
});

test("a null value and a null error replace what was there", () => {
  const next = applyDelta(start, { now_ms: 2, parts: { one: { value: null, error: null } } }, "a.2");
  expect((next.parts["one"] as ValuePart).value).toBeNull();
});

test("parts that nobody announced are ignored", () => {
  expect(applyDelta(start, { now_ms: 2, parts: { later: { set: [{ key: "x" }] } } }, "a.2").parts["later"]).toBeUndefined();
});
