// The header's clock: as of when the page is, whether it follows the present, and why not.
import type { ReactElement } from "react";
import type { LiveState } from "../api/live";
import { Shape, type Tone } from "../parts/State";
import { Moment } from "../parts/moments";
import { usePast, useTravel } from "../state/moment";
import { setPaused, useCurrent, usePaused } from "../state/view";

const GAPS: Readonly<Record<string, string>> = {
  slow: "this page was too slow to follow",
  restarted: "the console's server was started again",
  too_old: "this page was away for too long",
};

function word(live: LiveState, paused: boolean): [string, Tone] {
  if (paused) return ["paused", "warn"];
  if (live.connection === "live") return ["live", "good"];
  if (live.connection === "connecting") return ["connecting", "busy"];
  if (live.connection === "past") return ["past", "warn"];
  if (live.connection === "asleep") return ["asleep", "idle"];
  if (live.connection === "failed") return ["refused", "bad"];
  return ["reconnecting", "warn"];
}

export function Clock(): ReactElement {
  const live = useCurrent();
  const paused = usePaused();
  const past = usePast();
  const travel = useTravel();
  const [shown, tone] = past ? (["past", "warn"] as const) : word(live, paused);
  return (
    <div className="clock">
      {live.gap ? (
        <span className="faint gap" title={GAPS[live.gap] ?? live.gap}>
          steps left out
        </span>
      ) : null}
      <span className="clock-time">
        <span className="faint">as of </span>
        {live.state ? <Moment ms={live.state.now_ms} /> : "…"}
      </span>
      <button type="button" className={`small tone-${tone}`} aria-pressed={past || paused} title={past || paused ? "Show the present again" : "Hold this moment"} onClick={() => (past ? travel(0) : setPaused(!paused))}>
        <Shape tone={tone} /> <span>{shown}</span>
      </button>
    </div>
  );
}
