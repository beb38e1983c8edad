// @vitest-environment jsdom
// Pages of a mesh in which nothing is yet, and pages that wait for their first answer: the two must not look alike.
import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { act, cleanup, render, screen } from "@testing-library/react";
import type { ReactElement } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Access } from "../src/pages/Access";
import { Alerts } from "../src/pages/Alerts";
import { Clusters } from "../src/pages/Clusters";
import { DeadLetters } from "../src/pages/DeadLetters";
import { Events } from "../src/pages/Events";
import { Groups } from "../src/pages/Groups";
import { Overview } from "../src/pages/Overview";
import { Pathways } from "../src/pages/Pathways";
import { Replays } from "../src/pages/Replays";
import { Spark } from "../src/pages/Spark";
import { Streams } from "../src/pages/Streams";
import { questions } from "../src/state/asking";
import { parseSearch, stringifySearch } from "../src/state/search";

const PAGES = { Access, Alerts, Clusters, DeadLetters, Events, Groups, Overview, Pathways, Replays, Spark, Streams };
const TABLES = ["alerts", "approvals", "clusters", "events", "gaps", "grants", "groups", "jobs", "kinds", "lag", "letters", "outlets", "pathways", "policies", "replays", "responses", "streams"];
/** Words for an empty page; they are true only after an answer. */
const SAYS_NONE = /no alert|no pathway|no spark query|no .* yet|nothing |is empty|all well|none blocked|nowhere/i;

interface Answer {
  as_of_ms: number;
  stale: boolean;
  error: unknown;
}

const opened: Source[] = [];

class Source extends EventTarget {
  readyState = 1;
  constructor() {
    super();
    opened.push(this);
  }
  close(): void {}
}

beforeEach(() => {
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ actions: [], events: [], gaps: [], next_page_token: "" }), { headers: { "Content-Type": "application/json" } }));
  vi.stubGlobal("ResizeObserver", class { observe() {} unobserve() {} disconnect() {} });
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));
});

afterEach(() => {
  cleanup();
  questions.clear();
  opened.length = 0;
  vi.unstubAllGlobals();
});

async function shown(page: () => ReactElement, answer: Answer): Promise<string> {
  const routeTree = createRootRoute({ component: page });
  const router = createRouter({ routeTree, history: createMemoryHistory({ initialEntries: ["/"] }), parseSearch, stringifySearch });
  render(
    <QueryClientProvider client={questions}>
      <RouterProvider router={router as never} />
    </QueryClientProvider>,
  );
  await screen.findByRole("heading", { level: 1 });
  const parts = Object.fromEntries(TABLES.map((name) => [name, { kind: "table", rows: [], more: false, ...answer }]));
  const summary = { kind: "value", value: null, ...answer };
  const data = JSON.stringify({ now_ms: 1_000, id: "k.1", parts: { ...parts, summary } });
  act(() => opened.at(-1)?.dispatchEvent(new MessageEvent("snapshot", { data, lastEventId: "k.1" })));
  return document.body.textContent;
}

test.each(Object.entries(PAGES))("%s of an empty mesh names a command", async (_name, page) => {
  const text = await shown(page, { as_of_ms: 900, stale: false, error: null });
  expect(text).toMatch(SAYS_NONE);
  expect([...document.querySelectorAll("code")].some((each) => /^(braid|python) /.test(each.textContent))).toBe(true);
});

test.each(Object.entries(PAGES))("%s says nothing of a mesh that has not answered", async (_name, page) => {
  const text = await shown(page, { as_of_ms: 0, stale: true, error: null });
  expect(text).toContain("Waiting for the first answer");
  expect(text).not.toMatch(SAYS_NONE);
});

test.each(Object.entries(PAGES))("%s says why a part is refused, and not that it is empty", async (_name, page) => {
  const error = { status: 403, reason: "ACCESS_DENIED", message: "You may not see it.", field: "", remedy: "ask an admin" };
  const text = await shown(page, { as_of_ms: 900, stale: false, error });
  expect(text).toContain("You may not see it.");
  expect(text).not.toMatch(SAYS_NONE);
});
