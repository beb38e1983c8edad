// The log of events that a page has shown.
import { expect, test } from "vitest";
import type { MeshEvent } from "../src/api/documents";
import { EventLog } from "../src/state/event_log";

const event = (number: number, time_ms = number): MeshEvent => ({ key: `h#${number}`, time_ms }) as MeshEvent;
const shown = (events: readonly MeshEvent[]): number[] => events.map((each) => each.time_ms);

test("events that fall out of the newest stay, each once and newest first", () => {
  const log = new EventLog();
  log.add([event(3), event(2)]);
  log.add([event(1), event(2), event(0)]);
  expect(shown(log.add([event(5), event(4)]))).toEqual([5, 4, 3, 2, 1, 0]);
});

test("what brings nothing new changes nothing, so nothing is drawn again", () => {
  const log = new EventLog();
  const newest = [event(2), event(1)];
  const before = log.add(newest);
  expect(log.add(newest)).toBe(before);
  expect(log.add([event(1)])).toBe(before);
});

test("events of one moment keep an order, whichever came first", () => {
  const [one, other] = [new EventLog(), new EventLog()];
  one.add([event(1, 7)]);
  other.add([event(2, 7)]);
  expect(one.add([event(2, 7)]).map((each) => each.key)).toEqual(other.add([event(1, 7)]).map((each) => each.key));
});

test("a page that stays open forgets the oldest events", () => {
  const log = new EventLog(3);
  log.add([event(2), event(1)]);
  expect(shown(log.add([event(4), event(3)]))).toEqual([4, 3, 2]);
  expect(shown(log.add([event(5)]))).toEqual([5, 4, 3]);
});
