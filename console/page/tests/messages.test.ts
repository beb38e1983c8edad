// What the Messages page asks, and how it follows a tail.
import { beforeAll, expect, test } from "vitest";
import type { MessageRow } from "../src/api/messages";
import { recordAddress } from "../src/api/messages";
import { TAIL_ROWS_MAX, TailView, type TailSurroundings } from "../src/api/tail";
import { tailWords } from "../src/pages/messages/LiveTail";
import { formWords, shownText } from "../src/pages/messages/MessageTable";
import { askedOf, beginningOf, bodyOf, fromOf, traceAddress } from "../src/pages/messages/asked";

beforeAll(() => {
  Object.assign(globalThis, { EventSource: { CONNECTING: 0, OPEN: 1, CLOSED: 2 } });
});

class Wire extends EventTarget {
  readyState = 1;
  onerror: (() => void) | null = null;
  close(): void {}
  say(name: string, data: unknown): void {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
  }
}

const row = (offset: number) => ({ key: `logs/live/1/0@${offset}`, offset }) as MessageRow;
const rows = (first: number, many: number, skipped = 0) => ({ rows: Array.from({ length: many }, (_, place) => row(first + place)), skipped, absent: [] });

function opened(why: TailSurroundings["why"] = () => Promise.resolve(null)): { wire: Wire; view: TailView } {
  const wire = new Wire();
  const view = new TailView("/x", { open: () => wire as unknown as EventSource, why });
  view.start();
  wire.say("began", { cli: "braid consume logs" });
  return { wire, view };
}

test("an address makes the question that the server knows", () => {
  const asked = askedOf({ from: "offset:12", partition: "3", record: "x", limit: "50" });
  expect(bodyOf(asked, {})).toEqual({ from: "offset:12", partition: "3", limit: 50 });
  expect(bodyOf(askedOf({}), { "logs/live/1/0": 7 })).toEqual({ positions: { "logs/live/1/0": 7 } });
});

test("a beginning is typed and shown the same", () => {
  for (const from of ["", "earliest", "offset:12", "2026-11-29T14:03:00.000Z"]) expect(fromOf(...beginningOf(from))).toBe(from);
  const ago = fromOf("time", "10m"); // before the clock is read again
  expect(Date.now() - Date.parse(ago)).toBeGreaterThanOrEqual(600_000);
  expect(fromOf("time", "2026-11-29T14:03")).toMatch(/Z$/);
});

test("only an address of the web with a real id becomes a link to a trace", () => {
  const id = "0af7651916cd43dd8448eb211c80319c";
  expect(traceAddress("https://t.example/{trace_id}", id)).toBe(`https://t.example/${id}`);
  expect(traceAddress("javascript:alert(1)//{trace_id}", id)).toBe("");
  expect(traceAddress("https://t.example/{trace_id}", "javascript:alert(1)")).toBe("");
});

test("a record's key names its address", () => {
  expect(recordAddress("record", "logs/live/7/3@12", "hex")).toBe("/api/messages/logs/record?channel=logs%2Flive%2F7&partition=3&offset=12&form=hex");
});

test("marks that turn text are shown by their code", () => {
  expect(shownText({ form: "text", text: "\u202egpj", cut: true, reason: "", schema: "" })).toBe("⟨202E⟩gpj…");
  expect(shownText({ form: "hex", text: "ff", cut: false, reason: "", schema: "" })).toBe("0xff");
});

test("a value says what it was read as, and by which schema", () => {
  const shown = { text: "00", cut: false, reason: "", schema: "7" };
  expect(formWords({ ...shown, form: "avro" })).toBe("Avro, schema 7");
  expect(formWords({ ...shown, form: "protobuf" })).toBe("Protobuf, schema 7");
  expect(formWords({ ...shown, form: "json" })).toBe("JSON, schema 7");
  expect(formWords({ ...shown, form: "hex", reason: "schema 7: the schema registry does not know it" })).toBe("Hexadecimal, schema 7");
  expect(formWords({ ...shown, form: "hex", schema: "" })).toBe("No text in UTF-8");
  expect(formWords({ ...shown, form: "hex", schema: "", reason: "it is no text in UTF-8" })).toBe("");
  expect(formWords({ ...shown, form: "json", schema: "" })).toBe("");
});

test("the newest rows are kept, and what was skipped is said", () => {
  const { wire, view } = opened();
  wire.say("rows", rows(0, TAIL_ROWS_MAX));
  wire.say("rows", rows(TAIL_ROWS_MAX, 2, 40));
  expect(view.get().rows).toHaveLength(TAIL_ROWS_MAX);
  expect(view.get().rows[0]?.offset).toBe(TAIL_ROWS_MAX + 1);
  expect(tailWords(view.get())).toContain("40 records skipped");
});

test("a paused tail holds its rows within a bound", () => {
  const { wire, view } = opened();
  wire.say("rows", rows(0, 1));
  view.pause(true);
  for (let batch = 0; batch < 11; batch++) wire.say("rows", rows(1 + batch * 100, 100));
  expect(view.get().rows).toHaveLength(1);
  expect(view.get().waiting).toBe(TAIL_ROWS_MAX);
  expect(view.get().skipped).toBe(100);
  view.pause(false);
  expect(view.get().rows[0]?.offset).toBe(1_100);
  expect(view.get().waiting).toBe(0);
});

test("a line that was cut says so, and a refusal is shown", async () => {
  const fault = { status: 403, reason: "ACCESS_DENIED", message: "eve may not consume stream/logs", field: "", remedy: "" };
  const { wire, view } = opened(() => Promise.resolve(fault));
  wire.say("began", { cli: "braid consume logs" });
  expect(view.get().cuts).toBe(1);
  wire.readyState = 2;
  wire.onerror?.();
  await Promise.resolve();
  await Promise.resolve();
  expect(view.get()).toMatchObject({ connection: "ended", fault });
});
