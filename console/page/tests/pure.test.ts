// Rows, matrices, routes, filters and letters: what pages compute before they draw.
import { expect, test } from "vitest";
import { argumentsOf, missing } from "../src/actions/values";
import type { Channel, DeadLetter, Lag, LagHistory, Lease, Member, Progress } from "../src/api/documents";
import { groupRows } from "../src/pages/group_rows";
import { kindFilter } from "../src/pages/letter_filter";
import { sparkRows } from "../src/pages/spark_rows";
import { hexDump, pretty, SHOWN_MAX, visible } from "../src/pages/letter_text";
import { bandsOf, gapsOf, isOf, marksOf } from "../src/parts/gaps";
import { laneLabel, levelOf, matrixOf } from "../src/parts/heat";
import { columnsOf, linesOf } from "../src/parts/LagChart";
import { layOut, shownChannels } from "../src/parts/route";
import { filtered, sorted, sortingOf } from "../src/parts/rows";
import { binned } from "../src/parts/timeline";
import { parseSearch, stringifySearch } from "../src/state/search";
import type { Action } from "../src/state/asking";

const columns = [{ id: "n", label: "N", text: (row: { key: string; n: number }) => String(row.n), order: (row: { key: string; n: number }) => row.n }];

test("rows that are equal keep an order, so an update moves nothing", () => {
  const rows = [{ key: "b", n: 1 }, { key: "a", n: 1 }, { key: "c", n: 10 }];
  expect(sorted(rows, columns, sortingOf("-n")).map((row) => row.key)).toEqual(["c", "a", "b"]);
});

test("a filter keeps rows with every word", () => {
  expect(filtered([{ key: "a", n: 12 }, { key: "b", n: 21 }], columns, " 1 2 ")).toHaveLength(2);
  expect(filtered([{ key: "a", n: 12 }, { key: "b", n: 3 }], columns, "12")).toHaveLength(1);
});

test("an address keeps texts that look like numbers", () => {
  const search = { q: "5", name: "a b&c=<d>", none: "" };
  expect(parseSearch(stringifySearch(search))).toEqual({ q: "5", name: "a b&c=<d>" });
});

const lag = (group: string, lane: string, seconds: number, more: Partial<Lag> = {}): Lag => ({ key: `${group}/${lane}`, group, stream: "logs", lane, lag_seconds: seconds, lag_records: 10, stale: false, ...more }) as Lag;

test("a Spark query's row has its group's lanes, its worst lag and its newest commit", () => {
  const job = (key: string, group: string): Member => ({ key, group, client_id: key }) as Member;
  const lags = [lag("g", "live", 1, { commit_time_ms: 7 }), lag("g", "bulk", 9, { commit_time_ms: 5 }), lag("x", "live", 30, { commit_time_ms: 9 })];
  const [row, idle] = sparkRows([job("a", "g"), job("b", "none")], lags);
  expect([row?.lanes, row?.worst?.lane, row?.committed_ms]).toEqual([["logs/bulk", "logs/live"], "bulk", 7]);
  expect([idle?.lanes, idle?.worst, idle?.committed_ms]).toEqual([[], undefined, 0]);
});

test("a group's row sums its lanes and names the worst", () => {
  const [row, foreign] = groupRows([{ key: "g", name: "g", status: { members: 1, free_leases: 0, stopped_lanes: [] } } as never], [lag("g", "live", 1), lag("g", "bulk", 9), lag("x", "live", 3)]);
  expect([row?.worst?.lane, row?.records, row?.state, foreign?.key, foreign?.state]).toEqual(["bulk", 20, "live", "x", "foreign"]);
});

const lease = (name: string, member: string): Lease => ({ key: name, name, member, member_client_id: member, since_ms: 0, state: "held", cluster: "east", topic: name.slice(0, name.lastIndexOf("/")), partition: Number(name.split("/").at(-1)) }) as Lease;

test("the heat map orders partitions by number and ends with what nobody has", () => {
  const members = [{ key: "m", id: "m", client_id: "app" } as Member];
  const matrix = matrixOf(members, [lease("s/live/1/10", "m"), lease("s/live/1/9", "m"), lease("s/bulk/1/0", "")], [lag("g", "live", 70, { cluster: "east", topic: "s/live/1", partition: 9 }), lag("g", "live", 900, { cluster: "west", topic: "s/live/1", partition: 10 })], "lag", 0);
  expect(matrix.rows.map((row) => [row.label, row.cells.map((cell) => [cell.column, cell.level])])).toEqual([["app", [[1, 3], [2, 0]]], ["nobody", [[0, 0]]]]);
  expect(matrix.lanes).toEqual([{ at: 0, name: "s/bulk" }, { at: 1, name: "s/live" }]);
});

test("a lane's label reaches into no other one", () => {
  expect([200, 60, 30, 16, 8].map((pixels) => laneLabel("telemetry/live", pixels))).toEqual(["telemetry/live", "live", "live", "l…", ""]);
});

test("heat has five levels with the bounds that the legend names", () => {
  expect([0, 1, 1.1, 60, 600, 601].map((seconds) => levelOf(seconds, "lag"))).toEqual([0, 0, 1, 2, 3, 4]);
});

const channel = (generation: number, cluster: string, state: string, weight = 1): Channel => ({ name: `s/live/${generation}`, stream: "s", lane: "live", generation, cluster, state, weight, drain_holders: [] }) as unknown as Channel;

test("a failover bends the lane's line to the other cluster", () => {
  const before = layOut([channel(1, "east", "active")], ["live"], [], ["east", "west"]);
  const after = layOut([channel(1, "east", "draining"), channel(2, "west", "active")], ["live"], [], ["east", "west"]);
  expect(after.flows.map((flow) => flow.key)).toEqual(before.flows.map((flow) => flow.key));
  expect(after.flows[0]?.path).not.toEqual(before.flows[0]?.path);
  // A line can only bend over if both paths have the same commands.
  expect(after.flows[0]?.path.replaceAll(/[\d. -]+/g, " ")).toEqual(before.flows[0]?.path.replaceAll(/[\d. -]+/g, " "));
});

test("a narrow diagram fits a phone, and a failover bends its line, too", () => {
  const before = layOut([channel(1, "east", "active"), channel(2, "west", "standby")], ["live", "dlq"], [], ["east", "west", "north"], true);
  const after = layOut([channel(1, "east", "draining"), channel(2, "west", "active")], ["live", "dlq"], [], ["east", "west", "north"], true);
  for (const box of [...after.chips, ...after.lanes, ...after.columns]) expect(box.x + box.width).toBeLessThanOrEqual(after.width);
  expect(after.width).toBeLessThanOrEqual(350);
  expect(after.columns.every((column) => after.lanes.every((lane) => column.y + column.height < lane.y))).toBe(true);
  expect(new Set(after.chips.map((chip) => chip.y)).size).toBe(2);
  expect(after.lanes.map((lane) => lane.name)).toEqual(["live", "dlq"]);
  expect(after.chips.every((chip) => chip.y > (after.lanes[0]?.y ?? 0) && chip.y < (after.lanes[1]?.y ?? 0))).toBe(true);
  expect(after.flows[0]?.key).toEqual(before.flows[0]?.key);
  expect(after.flows[0]?.path).not.toEqual(before.flows[0]?.path);
  expect(after.flows[0]?.path.replaceAll(/[\d. -]+/g, " ")).toEqual(before.flows[0]?.path.replaceAll(/[\d. -]+/g, " "));
});

test("weights are shares of a lane, and a channel that drains has none", () => {
  const diagram = layOut([channel(1, "east", "active", 3), channel(2, "west", "active", 1), channel(3, "west", "draining", 5)], [], [], []);
  expect(Object.fromEntries(diagram.chips.map((chip) => [chip.channel.generation, chip.share]))).toEqual({ 1: 0.75, 2: 0.25, 3: 0 });
});

test("drained channels are shown on demand, deleted ones never", () => {
  const all = [channel(1, "east", "retired"), channel(2, "east", "drained"), channel(3, "east", "active")];
  expect([shownChannels(all, false).length, shownChannels(all, true).length]).toEqual([1, 2]);
});

test("a time without a step is a hole in the chart", () => {
  const step = (time_ms: number, lag_seconds?: number) => ({ time_ms, known_seconds: 10, stale: false, unknown: false, estimated: false, ...(lag_seconds === undefined ? {} : { lag_seconds }) });
  const history = { key: "", group: "g", stream: "s", lane: "live", steps: [step(0, 1), step(10_000, 2), step(50_000, 3), step(60_000)] } as LagHistory;
  expect(columnsOf(linesOf([history], "lag_seconds"))).toEqual([[0, 10, 20, 50], [1, 2, null, 3]]);
});

test("events are counted in bins of a round length, each once", () => {
  const bins = binned(Array.from({ length: 500 }, (_, n) => ({ time_ms: 1_000_000 + n * 1_700 })), 120);
  expect(bins.length).toBeLessThanOrEqual(120);
  expect(bins.reduce((sum, bin) => sum + bin.events, 0)).toBe(500);
  expect(binned([], 120)).toEqual([]);
});

test("a filter quotes what its grammar would misread", () => {
  expect(kindFilter({ error_class: 'a "b" or c', group: "g.1-x", lane: "live" })).toBe('error="a \\"b\\" or c" and group=g.1-x and lane=live');
});

test("marks that nobody sees are shown by their code point", () => {
  expect(visible("invoice-\u202egnp.exe\u0000\n")).toBe("invoice-⟨202E⟩gnp.exe⟨0000⟩\n");
});

test("JSON is indented unless that would change a number", () => {
  expect(pretty('{"a": [1, "x y"]}')).toBe('{\n  "a": [\n    1,\n    "x y"\n  ]\n}');
  expect(pretty('{"a": 12345678901234567890}')).toBe('{"a": 12345678901234567890}');
  expect(pretty("{not json")).toBe("{not json");
});

test("a value of a megabyte is cut with the rest counted", () => {
  expect(pretty("x".repeat(1_048_576))).toBe(`${"x".repeat(SHOWN_MAX)}\n… ${1_048_576 - SHOWN_MAX} characters more: copy it to see them`);
});

test("bytes are dumped sixteen a line", () => {
  expect(hexDump("48656c6c6f00")).toBe(`00000000  ${"48 65 6c 6c 6f 00".padEnd(47)}  Hello.`);
});

const action: Action = {
  verb: "move", about: "", dry_run: true, destructive: false, confirms: "",
  arguments: [
    { name: "stream", type: "text", required: true, about: "" },
    { name: "lanes", type: "list", required: false, about: "" },
    { name: "percent", type: "number", required: false, about: "" },
    { name: "undo", type: "flag", required: false, about: "" },
  ],
};

test("an action's arguments are typed, and empty ones left out", () => {
  expect(argumentsOf(action, { stream: " logs ", lanes: "live, bulk", percent: "5", undo: false })).toEqual({ stream: "logs", lanes: ["live", "bulk"], percent: 5 });
  expect(argumentsOf(action, { stream: "logs", percent: "many" })).toEqual({ stream: "logs", percent: "many" });
  expect(missing(action, { stream: " " })).toEqual(["stream"]);
});

const held = { group: "g", cluster: "east", topic: "t", partition: 3 } as Lease;
const letter = (offset: number, more: object = {}, group = "g"): DeadLetter => ({ key: String(offset), group, origin: { cluster: "east", topic: "t", partition: 3, offset, ...more } }) as DeadLetter;
const behind = (committed_offset: number, end_offset: number, lag_records: number): Lag => lag("g", "live", 5, { committed_offset, end_offset, lag_records });

test("a gap strip counts what is done after the commit, and what was rejected of it", () => {
  const gaps = gapsOf(behind(100, 200, 60), [letter(150), letter(120), letter(99), letter(200)]);
  expect([gaps.done, gaps.undone, gaps.rejected, gaps.rejected_before, gaps.taken]).toEqual([40, 60, [120, 150], 1, -1]);
  expect(bandsOf(gaps).map((band) => [band.kind, band.from, band.to])).toEqual([["done", 0, 0.38], ["rejected", 0.38, 0.4], ["undone", 0.4, 1]]);
  expect(marksOf(gaps, gaps.rejected)).toEqual([0.2, 0.5]);
});

test("a gap strip is whole where all is done, and claims nothing without a commit", () => {
  expect(bandsOf(gapsOf(behind(100, 100, 0), []))).toEqual([{ kind: "done", from: 0, to: 1 }]);
  const none = gapsOf(behind(-1, 50, 50), [letter(10)]);
  expect([none.done, none.undone, none.rejected, none.rejected_before]).toEqual([0, 50, [], 0]);
  // The log's end was seen before the commit.
  expect(gapsOf(behind(100, 90, 0), [])).toMatchObject({ done: 0, undone: 0, end: 100 });
});

const told = (more: object = {}): Progress => ({ committed_offset: 100, commit_time_ms: 1, has_envelope: true, done: [{ first: 102, last: 110 }, { first: 115, last: 115 }], rejected: [{ first: 90, last: 91 }, { first: 103, last: 104 }], retried: [{ offset: 101, attempts: 3 }], partial: false, ...more });

test("a commit tells what was retried, and what was taken and is not done", () => {
  const gaps = gapsOf(behind(100, 200, 77), [letter(104), letter(150)], told());
  // Ten are done; of 100, 101 and 111 to 114 one was retried, and the others were taken before 115, which is done.
  expect([gaps.done, gaps.undone, gaps.taken, gaps.retried.map((each) => each.offset)]).toEqual([10, 90, 6, [101]]);
  expect([gaps.rejected, gaps.rejected_before]).toEqual([[103, 104, 150], 2]);
  expect(bandsOf(gaps).map((band) => [band.kind, Math.round(band.from * 100), Math.round(band.to * 100)])).toEqual([["done", 0, 7], ["rejected", 7, 10], ["retried", 10, 11], ["taken", 11, 16], ["undone", 16, 100]]);
});

test("a commit that does not tell all, is older than the lag's, or of a split partition claims nothing", () => {
  expect(gapsOf(behind(100, 200, 77), [], told({ partial: true }))).toMatchObject({ done: 23, undone: 77, taken: -1 });
  expect(gapsOf(behind(120, 200, 77), [], told())).toMatchObject({ committed: 120, undone: 77, taken: -1, retried: [] });
  expect(gapsOf({ ...behind(100, 200, 77), split_partitions: 1 }, [], told()).taken).toBe(-1);
  expect(gapsOf(behind(100, 200, 77), [], told({ has_envelope: false })).taken).toBe(-1);
  // The commit was made after the log's end was seen.
  expect(gapsOf(behind(100, 105, 5), [], told())).toMatchObject({ end: 116, undone: 6, done: 10 });
});

test("a letter of another group, cluster, topic or partition is none of the strip's", () => {
  expect([letter(1), letter(1, { cluster: "west" }), letter(1, { topic: "u" }), letter(1, { partition: 4 }), letter(1, {}, "h")].map((each) => isOf(each, held))).toEqual([true, false, false, false, false]);
});

test("a thousand rejected records make no more marks than can be told apart", () => {
  const gaps = gapsOf(behind(0, 1_000_000, 0), Array.from({ length: 1_000 }, (_, n) => letter(n * 10)));
  expect(marksOf(gaps, gaps.rejected).length).toBeLessThanOrEqual(201);
});
