// A live stream: resuming, pausing, gaps, silence and refusals, on a clock and a wire of the test's own.
import { beforeAll, expect, test, vi } from "vitest";
import { CallError } from "../src/api/calls";
import { LiveView, SILENCE_MS, type Surroundings } from "../src/api/live";

beforeAll(() => {
  // jsdom has no event source; the view asks for its constants alone.
  Object.assign(globalThis, { EventSource: { CONNECTING: 0, OPEN: 1, CLOSED: 2 } });
});

class Wire extends EventTarget {
  readyState = 1;
  onerror: (() => void) | null = null;
  closed = false;
  close(): void {
    this.closed = true;
  }
  say(name: string, data: unknown, id = ""): void {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data), lastEventId: id }));
  }
}

class Around implements Surroundings {
  wires: Wire[] = [];
  timers = new Map<number, { run: () => void; at: number }>();
  now = 0;
  answer: () => Promise<unknown> = () => Promise.reject(new Error("nobody asked for this"));
  private next = 1;
  open(): EventSource {
    const wire = new Wire();
    this.wires.push(wire);
    return wire as unknown as EventSource;
  }
  ask(): Promise<unknown> {
    return this.answer();
  }
  later(run: () => void, ms: number): number {
    this.timers.set(this.next, { run, at: this.now + ms });
    return this.next++;
  }
  cancel(timer: number): void {
    this.timers.delete(timer);
  }
  pass(ms: number): void {
    this.now += ms;
    for (const [id, timer] of [...this.timers]) {
      if (timer.at <= this.now && this.timers.delete(id)) timer.run();
    }
  }
}

const snapshot = (id: string, now_ms: number) => ({ view: "v", params: {}, id, now_ms, parts: {} });

function opened(): { around: Around; view: LiveView; wire: Wire } {
  const around = new Around();
  const view = new LiveView("v", around);
  view.start();
  return { around, view, wire: around.wires[0] as Wire };
}

test("a snapshot and deltas make the state, and heartbeats its clock", () => {
  const { view, wire } = opened();
  wire.say("snapshot", snapshot("a.1", 10), "a.1");
  wire.say("delta", { now_ms: 11, parts: {} }, "a.2");
  wire.say("heartbeat", { now_ms: 12 });
  expect(view.get()).toMatchObject({ connection: "live", state: { id: "a.2", now_ms: 12 } });
});

test("a paused view keeps its moment, and shows the present when it resumes", () => {
  const { view, wire } = opened();
  wire.say("snapshot", snapshot("a.1", 10), "a.1");
  view.pause(true);
  wire.say("delta", { now_ms: 99, parts: {} }, "a.2");
  expect(view.get().state?.now_ms).toBe(10);
  view.pause(false);
  expect(view.get().state?.now_ms).toBe(99);
});

test("a view that is paused before its first answer still shows one", () => {
  const around = new Around();
  const view = new LiveView("v", around);
  view.pause(true);
  view.start();
  around.wires[0]?.say("snapshot", snapshot("a.1", 10), "a.1");
  expect(view.get().state?.now_ms).toBe(10);
});

test("a gap is told, and the snapshot after it replaces everything", () => {
  const { view, wire } = opened();
  wire.say("snapshot", snapshot("a.1", 10), "a.1");
  wire.say("gap", { reason: "slow" });
  wire.say("snapshot", snapshot("b.1", 20), "b.1");
  expect(view.get()).toMatchObject({ gap: "slow", state: { id: "b.1", now_ms: 20 } });
});

test("silence opens another stream, and the silent one is not heard any more", () => {
  const { around, view, wire } = opened();
  wire.say("snapshot", snapshot("a.1", 10), "a.1");
  around.pass(SILENCE_MS);
  around.pass(500);
  expect([wire.closed, around.wires.length]).toEqual([true, 2]);
  wire.say("delta", { now_ms: 99, parts: {} }, "a.2");
  expect(view.get().state?.now_ms).toBe(10);
});

test("a heartbeat keeps the stream for another while", () => {
  const { around, wire } = opened();
  around.pass(SILENCE_MS - 1);
  wire.say("heartbeat", { now_ms: 1 });
  around.pass(SILENCE_MS - 1);
  expect(around.wires).toHaveLength(1);
});

test("the end of a session signs the page out for good", () => {
  const { around, view, wire } = opened();
  wire.say("end", { reason: "session" });
  around.pass(60_000);
  expect([view.get().connection, around.wires.length]).toEqual(["signed-out", 1]);
});

async function refused(status: number, reason: string) {
  const { around, view, wire } = opened();
  const fault = { status, reason, message: reason, field: "", remedy: "" };
  around.answer = () => Promise.reject(new CallError(fault));
  wire.readyState = 2;
  wire.onerror?.();
  await new Promise((done) => setTimeout(done));
  return { around, view };
}

test("a refusal is shown and not asked for again", async () => {
  const { around, view } = await refused(404, "NOT_FOUND");
  around.pass(60_000);
  expect(view.get()).toMatchObject({ connection: "failed", fault: { reason: "NOT_FOUND" } });
  expect(around.wires).toHaveLength(1);
});

test("a session that is gone leads to the sign-in page", async () => {
  const { view } = await refused(401, "UNAUTHENTICATED");
  expect(view.get().connection).toBe("signed-out");
});

test("a server that is away is tried again, less and less often", async () => {
  const { around } = await refused(503, "UNAVAILABLE");
  around.pass(500);
  expect(around.wires).toHaveLength(2);
});

test("a busy server is asked once, and left alone for half a minute", async () => {
  const { around, view, wire } = opened();
  around.answer = () => Promise.resolve(snapshot("c.1", 30));
  wire.say("end", { reason: "busy" });
  await new Promise((done) => setTimeout(done));
  expect(view.get().state?.now_ms).toBe(30);
  around.pass(29_000);
  expect(around.wires).toHaveLength(1);
  around.pass(2_000);
  expect(around.wires).toHaveLength(2);
});

test("a stopped view leaves no timer behind", () => {
  const { around, view } = opened();
  view.stop();
  expect(around.timers.size).toBe(0);
});

test("a moment is asked for until all of it is answered, and never followed", async () => {
  const around = new Around();
  const part = (as_of_ms: number) => ({ kind: "table", rows: [], as_of_ms, stale: as_of_ms === 0, error: null, more: false });
  const answers = [0, 900];
  let asked = 0;
  around.answer = () => Promise.resolve({ ...snapshot("a.1", 1_000), parts: { groups: part(answers[Math.min(asked++, 1)] ?? 0) } });
  const view = new LiveView("groups?at_ms=500", around, 500);
  view.start();
  await vi.waitFor(() => expect(view.get()).toMatchObject({ connection: "past", state: { now_ms: 500 } }));
  around.pass(10_000);
  await vi.waitFor(() => expect(view.get().state?.parts["groups"]?.stale).toBe(false));
  around.pass(600_000);
  await Promise.resolve();
  expect([asked, around.wires.length]).toEqual([2, 0]);
});
