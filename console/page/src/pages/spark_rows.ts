// Rows of the Spark page: a query, and what lagmon knows of its group. Pure.
import type { Lag, Member } from "../api/documents";

export interface SparkRow {
  key: string;
  job: Member;
  /** `<stream>/<lane>` of everything that its group reads. */
  lanes: string[];
  worst: Lag | undefined;
  /** When the group's newest commit was made; 0 for never. */
  committed_ms: number;
}

export function sparkRows(jobs: readonly Member[], lags: readonly Lag[]): SparkRow[] {
  const byGroup = new Map<string, Lag[]>();
  for (const lag of lags) byGroup.set(lag.group, [...(byGroup.get(lag.group) ?? []), lag]);
  return jobs.map((job) => {
    const found = byGroup.get(job.group) ?? [];
    return {
      key: job.key,
      job,
      lanes: found.filter((each) => each.stream !== "").map((each) => `${each.stream}/${each.lane}`).sort(),
      worst: found.reduce<Lag | undefined>((worst, each) => (worst === undefined || each.lag_seconds > worst.lag_seconds ? each : worst), undefined),
      committed_ms: Math.max(0, ...found.map((each) => each.commit_time_ms)),
    };
  });
}
