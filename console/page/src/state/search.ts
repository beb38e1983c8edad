// Filters and sorting live in the address, so every view can be sent to a colleague.
import { useNavigate, useSearch } from "@tanstack/react-router";

export type Search = Readonly<Record<string, string>>;

/** Reads an address as plain text: `?q=5` is the text 5, never a number. */
export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const set = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
  return set.length === 0 ? "" : `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString()}`;
}

/** Returns the address's parameters, and a function that changes some of them; an empty text removes one. */
export function useAddress(): [Search, (change: Search, replace?: boolean) => void] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const change = (next: Search, replace = true): void => {
    const to = { ...search, ...next };
    const set = Object.fromEntries(Object.entries(to).filter(([, value]) => value !== ""));
    void navigate({ to: ".", search: set as never, replace });
  };
  return [search, change];
}
