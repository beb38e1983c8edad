// Time travel: which moment the console shows, a slider through the past, and what is not known of it.
import { useEffect, useState, type ReactElement } from "react";
import type { Gap } from "../api/documents";
import { age } from "../format/times";
import { Moment } from "../parts/moments";
import { Shape } from "../parts/State";
import { useMoment, useTravel } from "../state/moment";
import { useCurrent } from "../state/view";

const SPANS = [
  [3_600_000, "1 h"],
  [21_600_000, "6 h"],
  [86_400_000, "24 h"],
  [604_800_000, "7 days"],
] as const;
/** The slider has so many steps; the buttons beside it go a minute. */
const STEPS = 720;
const MINUTE_MS = 60_000;
/** A slider that is dragged asks for a moment once it rests. */
const REST_MS = 300;

/** The slider: its right end is now. Arrow keys move it by a step, and the buttons by a minute. */
export function TravelSlider(): ReactElement {
  const shown = useMoment();
  const travel = useTravel();
  const now = Date.now();
  const past = shown.ms > 0 ? now - shown.ms : 0;
  const [span, setSpan] = useState<number>(() => (SPANS.find(([ms]) => past <= ms) ?? SPANS[SPANS.length - 1]!)[0]);
  const step = span / STEPS;
  const [held, setHeld] = useState<number | null>(null);
  useEffect(() => {
    if (held === null) return;
    const timer = window.setTimeout(() => {
      setHeld(null);
      travel(held >= STEPS ? 0 : Math.floor((Date.now() - (STEPS - held) * step) / 1000) * 1000);
    }, REST_MS);
    return () => window.clearTimeout(timer);
  }, [held, step, travel]);
  const place = held ?? Math.max(0, Math.min(STEPS, Math.round(STEPS - past / step)));
  const at = held === null ? shown.ms : held >= STEPS ? 0 : now - (STEPS - held) * step;
  return (
    <div className="travel-slider" role="group" aria-label="Time travel">
      <span className="faint travel-name">Show the console as of</span>
      <label>
        <span className="visually-hidden">Moment that the console shows</span>
        <input type="range" min={0} max={STEPS} step={1} value={place} aria-valuetext={at > 0 ? `${age(at, now)} ago` : "now"} onChange={(event) => setHeld(Number(event.target.value))} />
      </label>
      <span className="travel-at">{at > 0 ? <Moment ms={at} /> : "now"}</span>
      <button type="button" className="small" onClick={() => travel((shown.ms || now) - MINUTE_MS)}>
        −1 min
      </button>
      <button type="button" className="small" disabled={shown.ms === 0} onClick={() => travel(shown.ms + MINUTE_MS >= now ? 0 : shown.ms + MINUTE_MS)}>
        +1 min
      </button>
      <label>
        <span className="visually-hidden">Reach of the slider</span>
        <select value={span} onChange={(event) => setSpan(Number(event.target.value))}>
          {SPANS.map(([ms, label]) => (
            <option key={ms} value={ms}>
              last {label}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** The banner of every page that shows the past. */
export function Travel(): ReactElement | null {
  const shown = useMoment();
  const travel = useTravel();
  if (shown.fault) {
    return (
      <div className="travel" role="alert">
        <Shape tone="warn" />
        <span className="grow">{shown.fault} The present is shown.</span>
        <button type="button" onClick={() => travel(0)}>
          Back to now
        </button>
      </div>
    );
  }
  if (shown.ms === 0) return null;
  return (
    <div className="travel" role="region" aria-label="The past is shown">
      <Shape tone="warn" />
      <span className="grow">
        <strong>
          As of <Moment ms={shown.ms} full />
        </strong>
        , {age(shown.ms, Date.now())} ago. <span className="faint">Nothing can be changed here, and what was only measured is left out.</span>
      </span>
      <button type="button" onClick={() => travel(0)}>
        Back to now
      </button>
      <TravelSlider />
      <Unknown />
    </div>
  );
}

/** Things whose history is not kept so far back: they may have been there. */
function Unknown(): ReactElement | null {
  const { state } = useCurrent();
  const gaps = Object.entries(state?.parts ?? {}).flatMap(([name, part]) => (name.startsWith("unknown_") && part.kind === "table" ? (part.rows as readonly Gap[]) : []));
  if (gaps.length === 0) return null;
  return (
    <details className="travel-unknown">
      <summary>
        {gaps.length === 1 ? "One history is" : `${gaps.length} histories are`} not kept at this time, and may be missing here
      </summary>
      <ul>
        {gaps.map((gap) => (
          <li key={`${gap.history}#${gap.first}`}>
            <span className="mono">{gap.history}</span>: {gap.reason}
          </li>
        ))}
      </ul>
    </details>
  );
}
