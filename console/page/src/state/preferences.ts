// What a person chose for themselves: theme, zone of times, density. Kept in this browser alone.
import { useSyncExternalStore } from "react";
import type { Zone } from "../format/times";

export interface Preferences {
  theme: "system" | "light" | "dark";
  zone: Zone;
  density: "compact" | "roomy";
}

const KEY = "braid.preferences";
const DEFAULTS: Preferences = { theme: "system", zone: "utc", density: "compact" };
const CHOICES: { readonly [K in keyof Preferences]: readonly Preferences[K][] } = {
  theme: ["system", "light", "dark"],
  zone: ["utc", "local"],
  density: ["compact", "roomy"],
};

const listeners = new Set<() => void>();
let current = read();

function read(): Preferences {
  const found = { ...DEFAULTS };
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Record<string, unknown>;
    for (const name of Object.keys(CHOICES) as (keyof Preferences)[]) {
      if ((CHOICES[name] as readonly unknown[]).includes(kept[name])) Object.assign(found, { [name]: kept[name] });
    }
  } catch {
    // A browser that keeps nothing, or a damaged entry: the defaults apply.
  }
  return found;
}

/** Marks the document, so that style sheets follow. */
export function applyPreferences(): void {
  const root = document.documentElement;
  root.dataset["density"] = current.density;
  if (current.theme === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = current.theme;
}

export function setPreference<K extends keyof Preferences>(name: K, value: Preferences[K]): void {
  current = { ...current, [name]: value };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // It applies until the page is closed.
  }
  applyPreferences();
  for (const listener of listeners) listener();
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
