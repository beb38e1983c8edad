// Events over time, counted in bins. Pure.
import type { MeshEvent } from "../api/documents";

export interface Bin {
  from_ms: number;
  until_ms: number;
  events: number;
}

const LENGTHS_MS = [1_000, 5_000, 10_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];

/** At most `most` bins of a round length, from the oldest event to the newest. */
export function binned(events: readonly Pick<MeshEvent, "time_ms">[], most: number): Bin[] {
  let first = Infinity;
  let last = -Infinity;
  for (const { time_ms } of events) {
    if (time_ms <= 0) continue;
    first = Math.min(first, time_ms);
    last = Math.max(last, time_ms);
  }
  if (first > last) return [];
  const fits = LENGTHS_MS.find((length) => (last - first) / length < most - 1);
  const length = fits ?? Math.ceil((last - first) / (most - 2));
  const begin = Math.floor(first / length) * length;
  const bins: Bin[] = Array.from({ length: Math.floor((last - begin) / length) + 1 }, (_, place) => ({
    from_ms: begin + place * length,
    until_ms: begin + (place + 1) * length,
    events: 0,
  }));
  for (const { time_ms } of events) {
    const bin = time_ms > 0 ? bins[Math.floor((time_ms - begin) / length)] : undefined;
    if (bin !== undefined) bin.events += 1;
  }
  return bins;
}
