// Times in a page: a time of day with its zone, and how long ago it was.
import type { ReactElement } from "react";
import { age, clock, dateTime } from "../format/times";
import { usePreferences } from "../state/preferences";

/** `14:03:22 UTC`; the whole date is in the title. */
export function Moment({ ms, full = false }: { ms: number; full?: boolean }): ReactElement {
  const { zone } = usePreferences();
  if (ms <= 0) return <span className="faint">never</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={dateTime(ms, zone)}>
      {full ? dateTime(ms, zone) : clock(ms, zone)}
    </time>
  );
}

export function Age({ ms, now_ms }: { ms: number; now_ms: number }): ReactElement {
  const { zone } = usePreferences();
  if (ms <= 0) return <span className="faint">never</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={dateTime(ms, zone)}>
      {age(ms, now_ms)}
    </time>
  );
}
