// A live tail of a stream: rows as they come, a bounded number, held while the page is paused; what is left out is counted.
import { ask, CallError } from "./calls";
import type { Absent, MessageRow } from "./messages";
import type { Fault } from "./parts";

/** Rows that a page keeps; the oldest go first. */
export const TAIL_ROWS_MAX = 1_000;

export interface TailState {
  readonly connection: "connecting" | "live" | "reconnecting" | "ended";
  /** Newest first. */
  readonly rows: readonly MessageRow[];
  /** Records that nobody was shown: too many came at once, or the page was paused for long. */
  readonly skipped: number;
  /** How often the line was cut; what came meanwhile is not shown, and not counted. */
  readonly cuts: number;
  /** Rows that wait while the page is paused. */
  readonly waiting: number;
  readonly absent: readonly Absent[];
  readonly fault: Fault | null;
  readonly cli: string;
}

export interface TailSurroundings {
  open(url: string): EventSource;
  /** Asks the same without a stream, to learn why there is none. */
  why(url: string): Promise<Fault | null>;
}

export const tailBrowser: TailSurroundings = {
  open: (url) => new EventSource(url),
  why: async (url) => {
    try {
      await Promise.race([ask(url), new Promise((resolve) => window.setTimeout(resolve, 2_000))]);
      return null;
    } catch (error) {
      return error instanceof CallError ? error.fault : null;
    }
  },
};

const NOTHING: TailState = { connection: "connecting", rows: [], skipped: 0, cuts: 0, waiting: 0, absent: [], fault: null, cli: "" };

interface Rows {
  rows: MessageRow[];
  skipped: number;
  absent: Absent[];
}

export class TailView {
  private shown: TailState = NOTHING;
  private held: MessageRow[] = [];
  private paused = false;
  private source: EventSource | null = null;
  private began = false;
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly url: string,
    private readonly around: TailSurroundings = tailBrowser,
  ) {}

  start(): void {
    const source = this.around.open(this.url);
    this.source = source;
    const on = <T>(name: string, act: (data: T) => void): void =>
      source.addEventListener(name, (event) => {
        if (this.source === source) act(JSON.parse((event as MessageEvent<string>).data) as T);
      });
    on<{ cli: string }>("began", ({ cli }) => {
      this.update({ connection: "live", fault: null, cli, cuts: this.shown.cuts + (this.began ? 1 : 0) });
      this.began = true;
    });
    on<Rows>("rows", (data) => this.take(data));
    on<{ error: Fault }>("end", ({ error }) => {
      this.stop();
      this.update({ connection: "ended", fault: error });
    });
    source.onerror = () => {
      if (this.source === source) void this.failed(source);
    };
  }

  stop(): void {
    this.source?.close();
    this.source = null;
  }

  /** While paused, rows wait, up to as many as are shown. */
  pause(paused: boolean): void {
    this.paused = paused;
    if (!paused && this.held.length > 0) {
      const rows = this.held;
      this.held = [];
      this.show(rows);
    }
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): TailState => this.shown;

  private take({ rows, skipped, absent }: Rows): void {
    this.update({ skipped: this.shown.skipped + skipped, absent });
    if (!this.paused) return this.show(rows);
    this.held.push(...rows);
    const over = this.held.length - TAIL_ROWS_MAX;
    if (over > 0) this.held.splice(0, over);
    this.update({ waiting: this.held.length, skipped: this.shown.skipped + Math.max(0, over) });
  }

  private show(rows: readonly MessageRow[]): void {
    const next = [...rows].reverse().concat(this.shown.rows).slice(0, TAIL_ROWS_MAX);
    this.update({ rows: next, waiting: 0 });
  }

  /** The browser opens the stream again by itself, unless the server answered with an error. */
  private async failed(source: EventSource): Promise<void> {
    this.update({ connection: "reconnecting" });
    if (source.readyState !== EventSource.CLOSED) return;
    this.stop();
    const fault = await this.around.why(this.url);
    this.update({ connection: "ended", fault });
  }

  private update(change: Partial<TailState>): void {
    this.shown = { ...this.shown, ...change };
    for (const listener of this.listeners) listener();
  }
}
