// @vitest-environment jsdom
// Pages of a mesh in which nothing is yet, and pages that wait for their first answer: the two must not look alike.
import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { act, cleanup, render, screen } from "@testing-library/react";
import type { ReactElement } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Access } from "../src/pages/Access";
import { Alerts } from "../src/pages/Alerts";
import { ClusterPage } from "../src/pages/Cluster";
import { Clusters } from "../src/pages/Clusters";
import { DeadLetters } from "../src/pages/DeadLetters";
import { Events } from "../src/pages/Events";
import { GroupPage } from "../src/pages/Group";
import { Groups } from "../src/pages/Groups";
import { LeasePage } from "../src/pages/LeasePage";
import { Overview } from "../src/pages/Overview";
import { Pathways } from "../src/pages/Pathways";
import { Replays } from "../src/pages/Replays";
import { Spark } from "../src/pages/Spark";
import { StreamPage } from "../src/pages/Stream";
import { Streams } from "../src/pages/Streams";
import { questions } from "../src/state/asking";
import { parseSearch, stringifySearch } from "../src/state/search";

const PAGES = { Access, Alerts, Clusters, DeadLetters, Events, Groups, Overview, Pathways, Replays, Spark, Streams };
const TABLES = ["alerts", "approvals", "clusters", "events", "gaps", "grants", "groups", "jobs", "kinds", "lag", "letters", "outlets", "pathways", "policies", "replays", "responses", "streams"];
const VALUES = ["summary", "group", "stream", "cluster", "explained", "lease_lag", "progress"];
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
  const values = Object.fromEntries(VALUES.map((name) => [name, { kind: "value", value: null, ...answer }]));
  const data = JSON.stringify({ now_ms: 1_000, id: "k.1", parts: { ...parts, ...values } });
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

test.each(Object.entries({ ClusterPage, GroupPage, StreamPage }))("%s says once that what it is about is not there", async (_name, page) => {
  const error = { status: 404, reason: "NOT_FOUND", message: "there is no such name", field: "name", remedy: "list them" };
  await shown(page, { as_of_ms: 900, stale: false, error });
  expect(screen.getAllByRole("alert")).toHaveLength(1);
  expect(screen.queryByRole("button", { name: /Freeze|Reset|Cordon|Move|Replay/ })).toBeNull();
});

test("the page of a lease that several groups have links to each", async () => {
  const error = { status: 400, reason: "INVALID", message: "groups a, b have this lease", field: "group", remedy: "name one of them", choices: ["a", "b"] };
  await shown(LeasePage, { as_of_ms: 900, stale: false, error });
  expect(screen.getAllByRole("link").map((link) => link.getAttribute("href")).filter((each) => each?.includes("group="))).toHaveLength(2);
});
