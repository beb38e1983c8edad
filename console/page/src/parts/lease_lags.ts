// Which lag belongs to which lease: lag is told by partition of a topic, and so is a lease. Pure.
import type { Lag, Lease } from "../api/documents";

type Place = Pick<Lag, "cluster" | "topic" | "partition">;

function placeOf(row: Place): string {
  return `${row.cluster}/${row.topic}/${row.partition}`;
}

/** Returns a function that finds a lease's lag among the lags of its group. */
export function lagFinder(lags: readonly Lag[]): (lease: Pick<Lease, "cluster" | "topic" | "partition">) => Lag | undefined {
  const found = new Map(lags.map((lag) => [placeOf(lag), lag]));
  return (lease) => found.get(placeOf(lease));
}
