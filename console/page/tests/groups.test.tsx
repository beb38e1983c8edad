// @vitest-environment jsdom
// The page of all groups: it shows the server's window in the server's order, and asks for another by filter and order.
import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { act, cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Groups } from "../src/pages/Groups";
import { questions } from "../src/state/asking";
import { parseSearch, stringifySearch } from "../src/state/search";

class Stream extends EventTarget {
  static opened: Stream[] = [];
  closed = false;
  onerror: (() => void) | null = null;
  constructor(readonly url: string) {
    super();
    Stream.opened.push(this);
  }
  close(): void {
    this.closed = true;
  }
  send(name: string, data: object): void {
    act(() => void this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data), lastEventId: "k.1" })));
  }
}

const state = { as_of_ms: 1_000, stale: false, error: null };

function snapshot(order: string[], matched: number, total: number): object {
  const status = { members: 1, leases: 4, free_leases: 0, idle_since_ms: 0, stopped_lanes: [], doubts: [] };
  const groups = order.map((name) => ({ key: name, name, status, spec: { streams: ["logs"] } }));
  const lag = order.map((group, place) => ({ key: `${group}/logs/live`, group, stream: "logs", lane: "live", lag_seconds: place, lag_records: place, source: "done", stale: false, as_of_ms: 1_000 }));
  return {
    view: "groups",
    params: {},
    now_ms: 1_000,
    id: "k.1",
    parts: {
      groups: { kind: "table", rows: groups, ...state, more: false },
      lag: { kind: "table", rows: lag, ...state, more: false },
      window: { kind: "value", value: { order, first: 0, matched, total }, ...state },
    },
  };
}

function shown(): (string | null)[] {
  return [...document.querySelectorAll("tbody tr td:first-child")].map((cell) => cell.textContent);
}

function open(address: string): void {
  const routeTree = createRootRoute({ component: Groups });
  const router = createRouter({ routeTree, history: createMemoryHistory({ initialEntries: [address] }), parseSearch, stringifySearch });
  render(
    <QueryClientProvider client={questions}>
      <RouterProvider router={router as never} />
    </QueryClientProvider>,
  );
}

beforeEach(() => {
  Stream.opened = [];
  vi.stubGlobal("EventSource", Stream);
  Object.assign(globalThis, { ResizeObserver: class { observe() {} unobserve() {} disconnect() {} } });
});

afterEach(() => {
  cleanup();
  questions.clear();
  vi.unstubAllGlobals();
});

test("groups stand in the server's order, and a change of it moves them", async () => {
  open("/groups");
  await waitFor(() => expect(Stream.opened.length).toBe(1));
  const stream = Stream.opened[0] as Stream;
  expect(new URL(stream.url, "http://x").searchParams.get("sort")).toBe("-lag");
  stream.send("snapshot", snapshot(["b", "c", "a"], 3, 45_000));
  expect(await screen.findByText("3 of 45,000")).toBeTruthy();
  expect(shown()).toEqual(["b", "c", "a"]);
  const window = { value: { order: ["a", "b", "c"], first: 0, matched: 3, total: 45_000 }, ...state };
  stream.send("delta", { now_ms: 2_000, parts: { window } });
  expect(shown()).toEqual(["a", "b", "c"]);
  expect(Stream.opened.length).toBe(1);
});

test("a filter is asked of the server once nobody types, and rows stay until it answers", async () => {
  open("/groups");
  await waitFor(() => expect(Stream.opened.length).toBe(1));
  (Stream.opened[0] as Stream).send("snapshot", snapshot(["a", "b"], 2, 2));
  await waitFor(() => expect(shown()).toEqual(["a", "b"]));
  for (const text of ["o", "ot", "oth"]) fireEvent.change(screen.getByRole("searchbox"), { target: { value: text } });
  await waitFor(() => expect(Stream.opened.length).toBe(2));
  expect(shown()).toEqual(["a", "b"]);
  const stream = Stream.opened[1] as Stream;
  expect(new URL(stream.url, "http://x").searchParams.get("q")).toBe("oth");
  expect((Stream.opened[0] as Stream).closed).toBe(true);
  stream.send("snapshot", snapshot(["other"], 1, 2));
  await waitFor(() => expect(shown()).toEqual(["other"]));
  expect(screen.getByText("1 of 2")).toBeTruthy();
});

test("another column is sorted by the server", async () => {
  open("/groups");
  await waitFor(() => expect(Stream.opened.length).toBe(1));
  (Stream.opened[0] as Stream).send("snapshot", snapshot(["a", "b"], 2, 2));
  fireEvent.click(await screen.findByRole("button", { name: "Members" }));
  await waitFor(() => expect(Stream.opened.length).toBe(2));
  expect(new URL((Stream.opened[1] as Stream).url, "http://x").searchParams.get("sort")).toBe("-members");
});

test("a server that sends every row has them sorted here", async () => {
  open("/groups?sort=group");
  await waitFor(() => expect(Stream.opened.length).toBe(1));
  const whole = snapshot(["b", "c", "a"], 3, 3) as { parts: Record<string, unknown> };
  delete whole.parts["window"];
  (Stream.opened[0] as Stream).send("snapshot", whole);
  await waitFor(() => expect(shown()).toEqual(["a", "b", "c"]));
});

test("rows that come into sight are asked for once scrolling rests", async () => {
  Object.defineProperty(Element.prototype, "clientHeight", { configurable: true, value: 600 });
  Object.defineProperty(Element.prototype, "clientWidth", { configurable: true, value: 1_000 });
  open("/groups");
  await waitFor(() => expect(Stream.opened.length).toBe(1));
  const names = (first: number): string[] => Array.from({ length: 400 }, (_, place) => `g${String(first + place).padStart(5, "0")}`);
  (Stream.opened[0] as Stream).send("snapshot", snapshot(names(0), 5_000, 5_000));
  await waitFor(() => expect(shown()).toContain("g00003"));
  expect(shown().length).toBeLessThan(60);
  const scroll = screen.getByRole("region", { name: "groups table" });
  for (const top of [20_000, 60_000, 90_000]) {
    scroll.scrollTop = top;
    fireEvent.scroll(scroll);
  }
  await waitFor(() => expect(document.querySelectorAll("tr.coming").length).toBeGreaterThan(10));
  await waitFor(() => expect(Stream.opened.length).toBe(2));
  const first = Number(new URL((Stream.opened[1] as Stream).url, "http://x").searchParams.get("first"));
  expect(first % 100).toBe(0);
  const window = snapshot(names(first), 5_000, 5_000) as { parts: { window: { value: { first: number } } } };
  window.parts.window.value.first = first;
  (Stream.opened[1] as Stream).send("snapshot", window);
  await waitFor(() => expect(document.querySelectorAll("tr.coming").length).toBe(0));
  const row = [...document.querySelectorAll("tbody tr[aria-rowindex]")][15] as Element;
  expect(row.textContent).toContain(`g${String(Number(row.getAttribute("aria-rowindex")) - 2).padStart(5, "0")}`);
  expect(Stream.opened.length).toBe(2);
});
