// A state is told three ways: by its word, by its shape and by its colour.
import type { ReactElement } from "react";

export type Tone = "good" | "warn" | "bad" | "busy" | "idle";

const TONES: Readonly<Record<string, Tone>> = {
  healthy: "good", active: "good", held: "good", live: "good", done: "good", resolved: "good", handled: "good", approved: "good", applied: "good",
  suspect: "warn", slow: "warn", half_dead: "warn", flapping: "warn", cordoned: "warn", pending: "warn", stale: "warn", blocked: "warn",
  awaited: "warn", ticket: "warn", waiting: "warn", refused: "warn", frozen: "warn", unattended: "warn", exhausted: "warn",
  down: "bad", stranded: "bad", firing: "bad", failed: "bad", page: "bad", free: "bad", parked: "bad", parked_again: "bad", denied: "bad",
  proposed: "busy", draining: "busy", revoking: "busy", running: "busy", replaying: "busy", provisioning: "busy", moving: "busy", emptying: "busy",
};

export function toneOf(state: string): Tone {
  return TONES[state] ?? "idle";
}

const SHAPES: Readonly<Record<Tone, ReactElement>> = {
  good: <circle cx="6" cy="6" r="4.5" />,
  warn: <path d="M6 1 11.4 10.6H.6Z" />,
  bad: <path d="M1.5 1.5h9v9h-9Z" />,
  busy: <path d="M6 1.5a4.5 4.5 0 0 1 0 9Z M6 2.3a3.7 3.7 0 1 0 0 7.4Z" fillRule="evenodd" />,
  idle: <circle cx="6" cy="6" r="3.8" fill="none" stroke="currentColor" strokeWidth="1.4" />,
};

export function Shape({ tone }: { tone: Tone }): ReactElement {
  return (
    <svg className="shape" viewBox="0 0 12 12" aria-hidden="true" fill="currentColor">
      {SHAPES[tone]}
    </svg>
  );
}

/** A state's word, for example `half dead`. */
export function State({ state, tone }: { state: string; tone?: Tone }): ReactElement {
  const shown = tone ?? toneOf(state);
  return (
    <span className={`state tone-${shown}`}>
      <Shape tone={shown} />
      {state === "" ? "unknown" : state.replaceAll("_", " ")}
    </span>
  );
}
