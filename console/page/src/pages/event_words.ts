// Words for events. Pure.
import type { MeshEvent } from "../api/documents";

/** `LeasesGranted` as people read it: `Leases granted`. */
export function typeWords(type: string): string {
  return type.replaceAll(/([a-z\d])([A-Z])/g, (_pair, before: string, after: string) => `${before} ${after.toLowerCase()}`);
}

/** What an event is about, for example `stream/logs`: its history, without the service. */
export function aboutOf(event: Pick<MeshEvent, "history" | "service">): string {
  return event.history.startsWith(`${event.service}/`) ? event.history.slice(event.service.length + 1) : event.history;
}
