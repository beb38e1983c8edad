// @vitest-environment jsdom
// What pages draw: hostile names as text, stale parts in place, actions that ask for a name.
import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import type { ReactElement } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ActionButton, ActionDialogs } from "../src/actions/ActionDialog";
import { closeAction } from "../src/actions/opened";
import { Section } from "../src/parts/Notes";
import { State } from "../src/parts/State";
import { Table } from "../src/parts/Table";
import { SignIn } from "../src/shell/SignIn";
import { questions } from "../src/state/asking";
import { parseSearch, stringifySearch } from "../src/state/search";

const HOSTILE = "<img src=x onerror=alert(1)>";

beforeEach(() => {
  // jsdom has no modal dialogs, and no observer of sizes.
  HTMLDialogElement.prototype.showModal = function (this: HTMLDialogElement) {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function (this: HTMLDialogElement) {
    this.open = false;
  };
  Object.assign(globalThis, { ResizeObserver: class { observe() {} unobserve() {} disconnect() {} } });
});

afterEach(() => {
  closeAction();
  cleanup();
  questions.clear();
  vi.unstubAllGlobals();
});

function show(content: ReactElement, address = "/"): void {
  const routeTree = createRootRoute({ component: () => content });
  const router = createRouter({ routeTree, history: createMemoryHistory({ initialEntries: [address] }), parseSearch, stringifySearch });
  render(
    <QueryClientProvider client={questions}>
      <RouterProvider router={router as never} />
    </QueryClientProvider>,
  );
}

const columns = [{ id: "name", label: "Name", text: (row: { key: string }) => row.key }];

test("a table shows hostile names as text", async () => {
  show(<Table name="things" rows={[{ key: HOSTILE }]} columns={columns} sort="name" empty={<p>none</p>} />);
  expect(await screen.findByText(HOSTILE)).toBeTruthy();
  expect(document.querySelector("img")).toBeNull();
});

test("a table that the server keeps is shown as it came, and asks for all of it for a file", async () => {
  const rows = ["b", "c", "a"].map((key) => ({ key }));
  const whole = vi.fn(() => Promise.resolve([...rows, { key: "d" }]));
  const saved: Blob[] = [];
  vi.stubGlobal("URL", Object.assign(URL, { createObjectURL: (blob: Blob) => (saved.push(blob), "blob:x"), revokeObjectURL: () => undefined }));
  const remote = { first: 0, matched: 3, total: 45_000, want: () => undefined, whole };
  show(<Table name="things" rows={rows} columns={columns} sort="name" empty={<p>none</p>} remote={remote} />, "/?q=nothing");
  expect(await screen.findByText("3 of 45,000")).toBeTruthy();
  expect([...document.querySelectorAll("tbody td")].map((cell) => cell.textContent)).toEqual(["b", "c", "a"]);
  fireEvent.click(screen.getByRole("button", { name: "Export things as CSV" }));
  await waitFor(() => expect(saved.length).toBe(1));
  expect(whole).toHaveBeenCalledOnce();
});

test("an address opens a table filtered and sorted", async () => {
  const rows = ["a1", "a2", "b1"].map((key) => ({ key }));
  show(<Table name="things" rows={rows} columns={columns} sort="name" empty={<p>none</p>} />, "/?q=a&sort=-name");
  await screen.findByText("a2");
  expect([...document.querySelectorAll("tbody td")].map((cell) => cell.textContent)).toEqual(["a2", "a1"]);
  expect(screen.getByRole("columnheader", { name: /Name/ }).getAttribute("aria-sort")).toBe("descending");
});

test("a stale part keeps its content and says since when and why", () => {
  const error = { status: 503, reason: "UNAVAILABLE", message: "No lagmon replica answers.", field: "", remedy: "braid dev status" };
  const part = { kind: "table", rows: [], as_of_ms: 1_000, stale: true, error, more: false } as const;
  render(
    <Section title="Lag" part={part} now_ms={43_000}>
      <p>content</p>
    </Section>,
  );
  expect(screen.getByText(/as of 42s ago. No lagmon replica answers. Try: braid dev status/)).toBeTruthy();
  expect(screen.getByText("content").parentElement?.className).toBe("stale");
});

test("a state is a word and a shape beside its colour", () => {
  render(<State state="half_dead" />);
  expect(screen.getByText("half dead").querySelector("svg path")).toBeTruthy();
});

const RESET = {
  verb: "reset", about: "Move progress.", dry_run: true, destructive: true, confirms: "group",
  arguments: [{ name: "group", type: "text", required: true, about: "" }],
};

function server(): ReturnType<typeof vi.fn> {
  const answer = (url: string): unknown => {
    if (url === "/api/actions") return { actions: [RESET] };
    return url.endsWith("/cli") ? { cli: "braid reset group indexer" } : { summary: "done", cli: "", dry_run: false, result: {} };
  };
  const fetch = vi.fn((url: string) => Promise.resolve(new Response(JSON.stringify(answer(url)))));
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

test("a destructive action waits for the name, and one id stands for a retry", async () => {
  const fetch = server();
  show(
    <>
      <ActionButton verb="reset" given={{ group: "indexer" }} label="Reset progress" />
      <ActionDialogs />
    </>,
  );
  fireEvent.click(await screen.findByText("Reset progress"));
  const submit = await screen.findByRole<HTMLButtonElement>("button", { name: "reset", hidden: true });
  expect(submit.disabled).toBe(true);
  expect(await screen.findByText("braid reset group indexer")).toBeTruthy();
  fireEvent.change(screen.getByLabelText(/to confirm/), { target: { value: "indexer" } });
  expect(submit.disabled).toBe(false);
  fireEvent.click(submit);
  await waitFor(() => expect(screen.getByText(/done/)).toBeTruthy());
  const sent = fetch.mock.calls.filter(([url]) => url === "/api/actions/reset").map(([, init]) => JSON.parse(init.body));
  expect(sent).toEqual([{ group: "indexer", confirm: "indexer", request_id: expect.stringMatching(/^[\da-f-]{36}$/) }]);
});

test("a used link is told apart from one that is over", () => {
  window.history.replaceState(null, "", "/?sign_in=used");
  render(<SignIn session={{ signed_in: false, sign_in: ["link"], version: "1" }} onSignedIn={() => undefined} />);
  expect(screen.getByRole("alert").textContent).toMatch(/used already/);
  expect(screen.queryByText(/token/)).toBeNull();
});

test("the sign-in page leads to the provider and back to the page asked for", () => {
  window.history.replaceState(null, "", "/streams/logs?q=a%26b&sign_in=unknown_login");
  const problem = { status: 401, reason: "UNAUTHENTICATED", message: `refused: ${HOSTILE}`, field: "", remedy: "sign in again" };
  const session = { signed_in: false, sign_in: ["oidc", "link"], provider: HOSTILE, problem, version: "1" };
  render(<SignIn session={session} onSignedIn={() => undefined} />);
  const link = screen.getByRole("link", { name: `Sign in with ${HOSTILE}` });
  expect(new URLSearchParams(link.getAttribute("href")?.split("?")[1]).get("to")).toBe("/streams/logs?q=a%26b");
  expect(screen.getByText(/^refused: <img/)).toBeTruthy();
  expect(screen.getByText(/Begin again/)).toBeTruthy();
  expect(document.querySelector("img")).toBeNull();
});
