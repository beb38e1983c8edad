// Which action's dialog is open. Rows, the palette and links open it, one at a time.
import { useSyncExternalStore } from "react";

export type Given = Readonly<Record<string, string | boolean>>;

export interface Opened {
  verb: string;
  given: Given;
}

let opened: Opened | null = null;
const listeners = new Set<() => void>();

function set(next: Opened | null): void {
  opened = next;
  for (const listener of listeners) listener();
}

export function openAction(verb: string, given: Given = {}): void {
  set({ verb, given });
}

export function closeAction(): void {
  set(null);
}

export function useOpened(): Opened | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => opened,
  );
}
