// The view that the page shows now: one live stream a page, which the clock in the header reads as well.
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { query } from "../api/calls";
import type { Row } from "../api/documents";
import { browser, LiveView, type LiveState } from "../api/live";
import type { TablePart, ValuePart } from "../api/parts";
import { useMoment } from "./moment";

/** A hidden page closes its stream after so long; browsers open six connections to a server at most. */
const ASLEEP_AFTER_MS = 10_000;

let current: LiveView | null = null;
let paused = false;
const listeners = new Set<() => void>();

function announce(): void {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setPaused(next: boolean): void {
  paused = next;
  current?.pause(next);
  announce();
}

export function usePaused(): boolean {
  return useSyncExternalStore(subscribe, () => paused);
}

const NO_VIEW = new LiveView("");

/** The state of the page's view, for the header. */
export function useCurrent(): LiveState {
  const view = useSyncExternalStore(subscribe, () => current) ?? NO_VIEW;
  return useSyncExternalStore(view.subscribe, view.get);
}

function sleepWhileHidden(view: LiveView): () => void {
  let timer = 0;
  let asleep = false;
  const changed = (): void => {
    browser.cancel(timer);
    if (document.hidden) {
      timer = browser.later(() => {
        asleep = true;
        view.stop("asleep");
      }, ASLEEP_AFTER_MS);
    } else if (asleep) {
      asleep = false;
      view.start();
    }
  };
  document.addEventListener("visibilitychange", changed);
  return () => {
    browser.cancel(timer);
    document.removeEventListener("visibilitychange", changed);
  };
}

/** Follows a view of the server for as long as the component is there. */
export function useView(name: string, params: Readonly<Record<string, string | undefined>> = {}): LiveState {
  const at_ms = useMoment().ms;
  const path = `${name}${query(at_ms > 0 ? { ...params, at_ms: String(at_ms) } : params)}`;
  const view = useMemo(() => new LiveView(path, browser, at_ms), [path, at_ms]);
  useEffect(() => {
    current = view;
    view.pause(paused);
    view.start();
    const wake = sleepWhileHidden(view);
    announce();
    return () => {
      wake();
      view.stop();
      if (current === view) current = null;
      announce();
    };
  }, [view]);
  return useSyncExternalStore(view.subscribe, view.get);
}

const NO_TABLE: TablePart<never> = { kind: "table", rows: [], as_of_ms: 0, stale: true, error: null, more: false };
const NO_VALUE: ValuePart<never> = { kind: "value", value: null, as_of_ms: 0, stale: true, error: null };

/** Returns a table of the view; an empty one until the first answer. */
export function table<R extends Row>(live: LiveState, name: string): TablePart<R> {
  const part = live.state?.parts[name];
  return part?.kind === "table" ? (part as TablePart<R>) : NO_TABLE;
}

export function value<V>(live: LiveState, name: string): ValuePart<V> {
  const part = live.state?.parts[name];
  return part?.kind === "value" ? (part as ValuePart<V>) : NO_VALUE;
}

/** The server's clock of the state that is shown, by which ages are told. */
export function nowOf(live: LiveState): number {
  return live.state?.now_ms ?? Date.now();
}
