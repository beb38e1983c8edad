// One live stream of a view: server-sent events become states. Reconnects, resumes, and says when steps were left out.
import { applyDelta, fromSnapshot, type Delta, type Fault, type ViewState } from "./parts";
import { ask, CallError } from "./calls";

/** Silence after which a stream counts as dead: three missed heartbeats. */
export const SILENCE_MS = 15_000;
/** A server with too many streams is left alone for so long; the page is asked for once instead. */
const BUSY_MS = 30_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];

export type Connection = "connecting" | "live" | "past" | "reconnecting" | "asleep" | "signed-out" | "failed";

export interface LiveState {
  readonly connection: Connection;
  readonly state: ViewState | null;
  readonly fault: Fault | null;
  /** Why steps were left out since the page was opened; empty for never. */
  readonly gap: string;
}

/** What the stream needs of the browser; tests give others. */
export interface Surroundings {
  open(url: string): EventSource;
  ask(url: string): Promise<unknown>;
  later(run: () => void, ms: number): number;
  cancel(timer: number): void;
}

export const browser: Surroundings = {
  open: (url) => new EventSource(url),
  ask: (url) => ask(url),
  later: (run, ms) => window.setTimeout(run, ms),
  cancel: (timer) => window.clearTimeout(timer),
};

const NOTHING: LiveState = { connection: "connecting", state: null, fault: null, gap: "" };

export class LiveView {
  private latest: LiveState = NOTHING;
  private shown: LiveState = NOTHING;
  private paused = false;
  private readonly listeners = new Set<() => void>();
  private source: EventSource | null = null;
  private silence = 0;
  private retry = 0;
  private failures = 0;
  private ended = false;

  constructor(
    private readonly path: string,
    private readonly around: Surroundings = browser,
    /** The moment that is shown, which is asked for and never followed; 0 for the present. */
    private readonly at_ms: number = 0,
  ) {}

  /** Opens the stream. After `stop` it may be opened again. */
  start(): void {
    this.ended = false;
    this.failures = 0;
    if (this.at_ms > 0) void this.lookBack();
    else this.connect();
  }

  stop(connection: Connection = "connecting"): void {
    this.ended = true;
    this.disconnect();
    this.around.cancel(this.retry);
    this.update({ connection });
  }

  /** While paused, the reader sees one moment; the stream goes on behind it. */
  pause(paused: boolean): void {
    this.paused = paused;
    this.publish();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): LiveState => this.shown;

  private connect(): void {
    const source = this.around.open(`/api/live/${this.path}`);
    this.source = source;
    const on = (name: string, act: (data: never, id: string) => void): void =>
      source.addEventListener(name, (event) => {
        if (this.source !== source) return;
        this.heard();
        const message = event as MessageEvent<string>;
        act(JSON.parse(message.data) as never, message.lastEventId);
      });
    on("snapshot", (data: Parameters<typeof fromSnapshot>[0]) => this.settle(fromSnapshot(data)));
    on("delta", (data: Delta, id) => {
      const before = this.latest.state;
      if (before !== null) this.settle(applyDelta(before, data, id));
    });
    on("gap", (data: { reason: string }) => this.update({ gap: data.reason }));
    on("heartbeat", (data: { now_ms: number }) => {
      const before = this.latest.state;
      if (before !== null) this.settle({ ...before, now_ms: data.now_ms });
    });
    on("end", (data: { reason: string }) => this.over(data.reason));
    source.onerror = () => {
      if (this.source === source) void this.failed(source);
    };
    this.heard();
  }

  private over(reason: string): void {
    if (reason === "session") return this.stop("signed-out");
    if (reason !== "busy") return this.again();
    this.disconnect();
    this.update({ connection: "reconnecting" });
    void this.look().then(() => this.again(BUSY_MS));
  }

  private settle(state: ViewState): void {
    this.failures = 0;
    this.update({ connection: "live", state, fault: null });
  }

  private heard(): void {
    this.around.cancel(this.silence);
    this.silence = this.around.later(() => this.again(), SILENCE_MS);
  }

  /** The browser reconnects by itself, with the last id, unless the server answered with an error. */
  private async failed(source: EventSource): Promise<void> {
    this.update({ connection: "reconnecting" });
    if (source.readyState !== EventSource.CLOSED) return;
    this.disconnect();
    await this.look();
    if (!this.ended) this.again();
  }

  /** Asks once without a stream: that says why there is none, and shows the state of now where there are too many watchers. */
  private async look(): Promise<void> {
    try {
      const answer = (await this.around.ask(`/api/views/${this.path}`)) as Parameters<typeof fromSnapshot>[0];
      if (!this.ended) this.update({ connection: "reconnecting", state: fromSnapshot(answer), fault: null });
    } catch (error) {
      if (this.ended) return;
      const fault = error instanceof CallError ? error.fault : null;
      if (fault?.status === 401) this.stop("signed-out");
      else if (fault !== null && [400, 403, 404].includes(fault.status)) this.refuse(fault);
      else this.update({ connection: "reconnecting", fault });
    }
  }

  /** Asks for a moment, and again only while some of it was not answered: what was does not change. */
  private async lookBack(): Promise<void> {
    await this.look();
    if (this.ended) return;
    const { state, fault } = this.latest;
    const parts = Object.values(state?.parts ?? {});
    if (state !== null && fault === null) {
      this.update({ connection: "past", state: { ...state, now_ms: this.at_ms } });
      if (parts.every((part) => !part.stale)) return;
    }
    const wait = RETRY_MS[Math.min((this.failures += 1), RETRY_MS.length - 1)] ?? 0;
    this.retry = this.around.later(() => void (this.ended ? null : this.lookBack()), wait);
  }

  private refuse(fault: Fault): void {
    this.stop("failed");
    this.update({ fault });
  }

  private again(least_ms = 0): void {
    this.disconnect();
    if (this.ended) return;
    this.update({ connection: "reconnecting" });
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)] ?? 0;
    this.failures += 1;
    this.around.cancel(this.retry);
    this.retry = this.around.later(() => {
      if (!this.ended) this.connect();
    }, Math.max(wait, least_ms));
  }

  private disconnect(): void {
    this.around.cancel(this.silence);
    this.source?.close();
    this.source = null;
  }

  private update(change: Partial<LiveState>): void {
    this.latest = { ...this.latest, ...change };
    this.publish();
  }

  private publish(): void {
    const next = this.paused && this.shown.state !== null ? { ...this.latest, state: this.shown.state } : this.latest;
    this.shown = next;
    for (const listener of this.listeners) listener();
  }
}
