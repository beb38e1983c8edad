// Times, numbers and exports as people and spreadsheets read them.
import { expect, test } from "vitest";
import { csv, incidentTimeline } from "../src/format/exports";
import { bytes, count, counted, epochText, percent, rate } from "../src/format/numbers";
import { age, clock, dateTime, duration } from "../src/format/times";

const AT = Date.UTC(2026, 10, 29, 14, 3, 22);

test("times of day name their zone", () => {
  expect(clock(AT, "utc")).toBe("14:03:22 UTC");
  expect(dateTime(AT, "utc")).toBe("29 Nov 2026, 14:03:22 UTC");
  expect(dateTime(AT, "local")).toMatch(/UTC/);
  expect(clock(0, "utc")).toBe("never");
});

test.each([
  [0, "0s"], [0.0001, "1ms"], [0.35, "350ms"], [3, "3s"], [4.25, "4.3s"], [59.6, "1m"], [97.3, "1m37s"], [3_840, "1h04m"], [86_400, "1d0h"], [-5, "-5s"], [Number.NaN, "unknown"],
])("a duration of %d s is shown as %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("an age is never negative, whatever the clocks say", () => {
  expect(age(AT + 5_000, AT)).toBe("0s");
});

test("numbers are apart by thousands and carry units", () => {
  expect([count(1_204_331), rate(0.4), rate(-5_210), bytes(412), bytes(1_048_576), percent(0.004), counted(1, "group"), counted(2, "group")]).toEqual(["1,204,331", "0.4/s", "-5,210/s", "412 B", "1.0 MiB", "<1 %", "1 group", "2 groups"]);
});

test("an export holds no formula that a record's sender wrote", () => {
  const columns = [{ label: "Name", text: (row: { name: string }) => row.name }];
  const text = csv(columns, [{ name: "=cmd|' /C calc'!A0" }, { name: "-5,210" }, { name: 'a "quoted", one' }, { name: "@SUM(A1)" }]);
  expect(text.split("\r\n")).toEqual(["Name", "'=cmd|' /C calc'!A0", '"-5,210"', '"a ""quoted"", one"', "'@SUM(A1)", ""]);
});

test("an incident timeline is oldest first and holds no markup of others", () => {
  const event = { key: "", service: "registry", history: "", type: "", cause: "", request_id: "", data: null, actor: "" };
  const text = incidentTimeline([{ ...event, time_ms: AT, sequence: 2, text: "moved <b>*x*</b>\nnext" }, { ...event, time_ms: AT - 1000, sequence: 1, text: "suspect" }], "utc");
  expect(text).toContain("- **29 Nov 2026, 14:03:21 UTC** suspect (registry)\n- **29 Nov 2026, 14:03:22 UTC** moved \\<b\\>\\*x\\*\\</b\\> next (registry)");
});

test("an epoch reads as commands print it", () => {
  expect([epochText(2 ** 40 * 7 + 15), epochText(0)]).toEqual(["7.15", "0.0"]);
});
