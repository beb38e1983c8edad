// The moment that the whole console shows: `at` in the address, or the present without it.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import type { Search } from "./search";

/** Every link keeps this parameter, until somebody goes back to now. */
export const AT = "at";

export interface MomentShown {
  /** Milliseconds since the epoch; 0 for the present. */
  readonly ms: number;
  /** What the address says where that is no time, or one that has not been. */
  readonly fault: string;
}

/** Reads a time as the address has it: `2026-11-29T14:03:00Z`, or milliseconds since the epoch. */
export function momentOf(text: string, now_ms: number): MomentShown {
  if (text === "") return { ms: 0, fault: "" };
  const ms = /^\d{12,15}$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isFinite(ms) || ms <= 0) return { ms: 0, fault: `“${text.slice(0, 40)}” is no time. Write one as 2026-11-29T14:03:00Z.` };
  if (ms > now_ms) return { ms: 0, fault: `${momentText(ms)} has not been yet.` };
  return { ms, fault: "" };
}

/** A moment as the address has it. */
export function momentText(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}

export function useMoment(): MomentShown {
  const search = useSearch({ strict: false }) as Search;
  return momentOf(search[AT] ?? "", Date.now());
}

export function usePast(): boolean {
  return useMoment().ms > 0;
}

/** Returns a function that shows a moment on the same page; 0 for the present. */
export function useTravel(): (ms: number) => void {
  const navigate = useNavigate();
  return useCallback(
    (ms) => {
      const at = ms > 0 ? momentText(ms) : undefined;
      void navigate({ to: ".", search: ((before: Search) => ({ ...before, [AT]: at })) as never, replace: true });
    },
    [navigate],
  );
}
