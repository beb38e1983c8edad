// What the address asks of a stream's records, and what the server is asked. Pure.
import type { Search } from "../../state/search";

/** Parts of the address that make a question; the rest is about how the answer is shown. */
export const ASKED = ["from", "lane", "cluster", "partition", "filter", "form", "limit"] as const;

export type Asked = Readonly<Record<(typeof ASKED)[number], string>>;

export function askedOf(address: Search): Asked {
  return Object.fromEntries(ASKED.map((name) => [name, address[name] ?? ""])) as unknown as Asked;
}

/** The question's body; `positions` is where an earlier answer stopped. */
export function bodyOf(asked: Asked, positions: Readonly<Record<string, number>>): Record<string, unknown> {
  const set = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== ""));
  return {
    ...set,
    ...(asked.limit ? { limit: Number(asked.limit) || 0 } : {}),
    ...(Object.keys(positions).length > 0 ? { positions } : {}),
  };
}

export type Beginning = "newest" | "earliest" | "time" | "offset";

/** Takes `offset:12` or a time apart into what a form has. */
export function beginningOf(from: string): readonly [Beginning, string] {
  if (from === "" || from === "newest") return ["newest", ""];
  if (from === "earliest") return ["earliest", ""];
  return from.startsWith("offset:") ? ["offset", from.slice("offset:".length)] : ["time", from];
}

/** The opposite. A time without a zone is one of the reader's zone. */
export function fromOf(beginning: Beginning, detail: string): string {
  if (beginning === "newest") return "";
  if (beginning === "earliest") return "earliest";
  return beginning === "offset" ? `offset:${detail.trim()}` : zoned(detail.trim());
}

function zoned(text: string): string {
  const ago = /^(\d{1,6})([smhd])$/.exec(text);
  if (ago) {
    const seconds = { s: 1, m: 60, h: 3_600, d: 86_400 }[ago[2] as "s" | "m" | "h" | "d"];
    return new Date(Date.now() - Number(ago[1]) * seconds * 1_000).toISOString();
  }
  const time = new Date(text);
  return Number.isNaN(time.getTime()) || /(Z|[+-]\d\d:?\d\d)$/.test(text) ? text : time.toISOString();
}

const ENDS: Readonly<Record<string, string>> = {
  rows: "There may be more.",
  end: "That is all there is.",
  bytes: "It stopped at its bound of bytes; ask on to look further.",
  records: "It stopped at its bound of records; ask on to look further.",
  time: "It stopped at its bound of time; ask on to look further.",
};

export function endWords(endedBy: string): string {
  return ENDS[endedBy] ?? endedBy;
}

/** The address of a trace; empty where there is none, or it would be no address of that form. */
export function traceAddress(template: string, traceId: string): string {
  if (!/^[0-9a-f]{32}$/.test(traceId) || !/^https?:\/\//.test(template)) return "";
  return template.replaceAll("{trace_id}", traceId);
}
