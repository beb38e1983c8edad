// An incident as Markdown: alerts, lag and events, with nothing of others as markup.
import { expect, test } from "vitest";
import type { Alert, LagHistory, LagStep, MeshEvent } from "../src/api/documents";
import { incidentReport, sparkline } from "../src/format/incident";

const NOW = Date.UTC(2026, 10, 29, 14);
const step = (ago_s: number, lag_seconds?: number): LagStep => ({ time_ms: NOW - ago_s * 1000, known_seconds: 10, stale: false, unknown: false, estimated: false, ...(lag_seconds === undefined ? {} : { lag_seconds }) });
const alert = { severity: "page", summary: "97 s <b>behind</b>", name: "a", fire_time_ms: NOW - 60_000, resolve_time_ms: 0 } as Alert;
const event = { time_ms: NOW - 90_000, sequence: 1, service: "registry", type: "TrafficMoved", text: "live moves to west", actor: "ann" } as MeshEvent;
const none = { title: "Group g", address: "https://console/groups/g", now_ms: NOW, alerts: [], histories: [], events: [], missing: [] };

test("an incident report holds alerts, lag and moves, each with its time", () => {
  const histories = [{ stream: "logs", lane: "live", steps: [step(100, 1), step(50, 97), step(10, 4)] } as LagHistory];
  const text = incidentReport({ ...none, alerts: [alert], histories, events: [event], missing: ["Not read: stream/x: refused"] }, "utc");
  expect(text).toContain("# Group g, 29 Nov 2026, 14:00:00 UTC\n\n<https://console/groups/g>\n");
  expect(text).toContain("- **page** since 29 Nov 2026, 13:59:00 UTC: 97 s \\<b\\>behind\\</b\\>\n");
  expect(text).toContain("```text\n▁█  logs/live\n```");
  expect(text).toContain("| logs/live | 4s | 1m37s | 13:59:10 UTC |\n");
  expect(text).toContain("## Timeline\n\n- **29 Nov 2026, 13:58:30 UTC** Traffic moved live moves to west (ann)\n- Not read: stream/x: refused");
});

test("an incident report without lag or alerts says so", () => {
  const text = incidentReport(none, "utc");
  expect(text).toContain("## Alerts\n\nNone.\n");
  expect(text).toContain("## Lag\n\nNo lag is kept.\n");
});

test("a line of lag shows the most of each stretch, and a dot where nothing is known", () => {
  expect(sparkline([step(100, 1), step(99, 8), step(50), step(20, 2)], NOW - 100_000, NOW, 5)).toBe("█···▃");
});
