// The places of the console: what the navigation, the palette and the shortcuts lead to.

export interface Place {
  readonly path: string;
  readonly label: string;
  /** Pressed after `g`. */
  readonly key: string;
  readonly group: "Now" | "Mesh" | "Records" | "Past and rights";
}

export const PLACES: readonly Place[] = [
  { path: "/", label: "Overview", key: "o", group: "Now" },
  { path: "/alerts", label: "Alerts", key: "a", group: "Now" },
  { path: "/groups", label: "Groups", key: "g", group: "Mesh" },
  { path: "/streams", label: "Streams", key: "s", group: "Mesh" },
  { path: "/clusters", label: "Clusters", key: "c", group: "Mesh" },
  { path: "/spark", label: "Spark jobs", key: "k", group: "Mesh" },
  { path: "/pathways", label: "Pathways", key: "p", group: "Mesh" },
  { path: "/dead-letters", label: "Dead letters", key: "d", group: "Records" },
  { path: "/replays", label: "Replays", key: "r", group: "Records" },
  { path: "/events", label: "Events", key: "e", group: "Past and rights" },
  { path: "/access", label: "Access", key: "x", group: "Past and rights" },
];

export const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["Ctrl K", "Go anywhere, do anything"],
  ["/", "Filter the table"],
  ["Space", "Pause, or show the present again"],
  ["j, k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["?", "This list"],
  ["Esc", "Close"],
  ...PLACES.map((place) => [`g ${place.key}`, place.label] as const),
];

/** Addresses of things by kind and name, as events and searches name them. */
export function pathOf(kind: string, name: string): string {
  const pages: Readonly<Record<string, string>> = { stream: "streams", group: "groups", cluster: "clusters" };
  const page = pages[kind];
  return page === undefined ? "/" : `/${page}/${encodeURIComponent(name)}`;
}
