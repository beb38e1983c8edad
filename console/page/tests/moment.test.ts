// The moment of the past that an address names.
import { expect, test } from "vitest";
import { momentOf, momentText } from "../src/state/moment";

const NOW = Date.UTC(2026, 10, 29, 16, 0, 0);

test("an address names a moment as a time or as milliseconds", () => {
  const ms = Date.UTC(2026, 10, 29, 14, 3, 0);
  expect(momentOf("2026-11-29T14:03:00Z", NOW)).toEqual({ ms, fault: "" });
  expect(momentOf(String(ms), NOW)).toEqual({ ms, fault: "" });
  expect(momentText(ms)).toBe("2026-11-29T14:03:00Z");
  expect(momentOf("", NOW)).toEqual({ ms: 0, fault: "" });
});

test("what is no time, or has not been, shows the present and says why", () => {
  expect(momentOf("noon", NOW)).toMatchObject({ ms: 0, fault: expect.stringContaining("no time") });
  expect(momentOf("<img src=x>".repeat(99), NOW).fault.length).toBeLessThan(120);
  expect(momentOf("2026-11-29T16:00:01Z", NOW)).toMatchObject({ ms: 0, fault: expect.stringContaining("has not been yet") });
});
