// Events that a page has shown, newest first. The server follows the newest five hundred alone; those that fall out of them stay here,
// and so do older ones that were loaded.
import type { MeshEvent } from "../api/documents";

function newestFirst(one: MeshEvent, other: MeshEvent): number {
  return other.time_ms - one.time_ms || (one.key < other.key ? -1 : 1);
}

/** A page may stay open for weeks: beyond this the oldest events are left out. These take some hundred megabytes. */
export const EVENTS_KEPT_MAX = 50_000;

export class EventLog {
  private events: readonly MeshEvent[] = [];
  private readonly keys = new Set<string>();
  private readonly added = new WeakSet<readonly MeshEvent[]>();

  constructor(private readonly most: number = EVENTS_KEPT_MAX) {}

  /** Adds those of the events that are new, and returns all; the same array if none is new. Each array is looked through once. */
  add(found: readonly MeshEvent[]): readonly MeshEvent[] {
    if (this.added.has(found)) return this.events;
    this.added.add(found);
    const fresh = found.filter((event) => !this.keys.has(event.key));
    if (fresh.length === 0) return this.events;
    for (const event of fresh) this.keys.add(event.key);
    const all = [...this.events, ...fresh].sort(newestFirst); // a few runs that are in order: no more work than to look at each
    for (const event of all.splice(this.most)) this.keys.delete(event.key);
    this.events = all;
    return this.events;
  }
}
