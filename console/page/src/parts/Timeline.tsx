// When things happened, at a glance: bars of events over time. A click narrows the view to a bar.
import { useMemo, type ReactElement } from "react";
import type { MeshEvent } from "../api/documents";
import { counted } from "../format/numbers";
import { clock, dateTime } from "../format/times";
import { usePreferences } from "../state/preferences";
import { binned } from "./timeline";

const BINS_MAX = 120;
const HEIGHT = 44;

export function Timeline({ events, onRange }: { events: readonly MeshEvent[]; onRange: (since_ms: number, until_ms: number) => void }): ReactElement | null {
  const { zone } = usePreferences();
  const bins = useMemo(() => binned(events, BINS_MAX), [events]);
  const [first, last] = [bins[0], bins.at(-1)];
  if (bins.length < 2 || first === undefined || last === undefined) return null;
  const most = Math.max(...bins.map((bin) => bin.events));
  const label = `${counted(events.length, "event")} from ${dateTime(first.from_ms, zone)} to ${dateTime(last.until_ms, zone)}`;
  return (
    <figure className="timeline">
      <svg viewBox={`0 0 ${bins.length * 10} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {bins.map((bin, place) => {
          const height = bin.events === 0 ? 0 : Math.max(3, (HEIGHT * Math.sqrt(bin.events)) / Math.sqrt(most));
          return (
            <g key={bin.from_ms} className="timeline-bin" onClick={() => onRange(bin.from_ms, bin.until_ms)}>
              <title>{`${clock(bin.from_ms, zone)}: ${counted(bin.events, "event")}`}</title>
              <rect className="timeline-hit" x={place * 10} width={10} height={HEIGHT} />
              <rect className="timeline-bar" x={place * 10 + 1} y={HEIGHT - height} width={8} height={height} />
            </g>
          );
        })}
      </svg>
      <figcaption className="faint">
        <span>{dateTime(first.from_ms, zone)}</span>
        <span>{dateTime(last.until_ms, zone)}</span>
      </figcaption>
    </figure>
  );
}
