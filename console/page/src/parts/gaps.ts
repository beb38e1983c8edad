// What services know of a partition's records from the commit to the log's end. Pure.
import type { DeadLetter, Lag, Lease, OffsetSpan, Progress } from "../api/documents";

export interface Gaps {
  /** Every record before it is done. -1 where nothing is committed. */
  committed: number;
  end: number;
  /** Records that are not done: waiting, in a handler, or about to be retried. */
  undone: number;
  /** Of those, records that were tried and failed. None where the commit does not tell. */
  retried: readonly { offset: number; attempts: number }[];
  /** Of those, records that were taken before others that are done: in a handler, or about to be retried. -1 where it is not known. */
  taken: number;
  /** Records that are done at or after the commit, rejected ones too. */
  done: number;
  /** Offsets of rejected records at or after the commit, in order. */
  rejected: readonly number[];
  /** Rejected records before it. */
  rejected_before: number;
}

/** Offsets of one span that are named one by one: a strip has no room for more. */
const NAMED = 1_000;

/** Whether a letter's record was in the lease's partition, and this group gave it up. */
export function isOf(letter: DeadLetter, lease: Lease): boolean {
  const origin = letter.origin;
  return letter.group === lease.group && origin !== undefined && origin.cluster === lease.cluster && origin.topic === lease.topic && origin.partition === lease.partition;
}

export function gapsOf(lag: Lag, letters: readonly DeadLetter[], told: Progress | null = null): Gaps {
  const progress = told?.has_envelope && told.committed_offset >= lag.committed_offset ? told : null;
  const committed = progress?.committed_offset ?? lag.committed_offset;
  const spans = (progress?.done ?? []).filter((span) => span.last >= committed);
  const top = spans.reduce((most, span) => Math.max(most, span.last + 1), committed);
  const end = Math.max(lag.end_offset, committed, top);
  const beyond = progress !== null && !progress.partial ? spans.reduce((sum, span) => sum + sizeOf(span), 0) : null;
  const undone = beyond === null || committed < 0 ? Math.max(0, lag.lag_records) : end - committed - beyond;
  const offsets = rejectedOffsets(letters, progress);
  const retried = (progress?.retried ?? []).filter((each) => each.offset >= committed && each.offset < end);
  return {
    committed,
    end,
    undone,
    retried,
    // A partition that is split is worked on at two places: what lies between them was not taken.
    taken: beyond === null || lag.split_partitions > 0 ? -1 : Math.max(retried.length, top - committed - beyond),
    // A commit and the log's end are seen at different moments: fewer than none is none.
    done: committed < 0 ? 0 : Math.max(0, end - committed - undone),
    rejected: offsets.filter((offset) => committed >= 0 && offset >= committed && offset < end),
    rejected_before: offsets.filter((offset) => committed >= 0 && offset < committed).length,
  };
}

function sizeOf(span: OffsetSpan): number {
  return span.last - span.first + 1;
}

/** Records with a dead letter, and those that were given up in place, each once. */
function rejectedOffsets(letters: readonly DeadLetter[], progress: Progress | null): number[] {
  const found = new Set(letters.map((letter) => letter.origin?.offset ?? -1));
  for (const span of progress?.rejected ?? []) {
    for (let offset = span.first; offset <= Math.min(span.last, span.first + NAMED); offset += 1) found.add(offset);
  }
  return [...found].sort((one, other) => one - other);
}

export interface Band {
  kind: "done" | "rejected" | "retried" | "taken" | "undone";
  from: number;
  to: number;
}

/** The shares of records after the commit by what became of them, side by side from 0 to 1. Places are not known. */
export function bandsOf(gaps: Gaps): Band[] {
  const rejected = Math.min(gaps.rejected.length, gaps.done);
  const retried = Math.min(gaps.retried.length, gaps.undone);
  const taken = Math.min(Math.max(gaps.taken, retried), gaps.undone) - retried;
  const sizes = [["done", gaps.done - rejected], ["rejected", rejected], ["retried", retried], ["taken", taken], ["undone", gaps.undone - retried - taken]] as const;
  const all = gaps.done + gaps.undone;
  if (all === 0) return [{ kind: "done", from: 0, to: 1 }];
  let from = 0;
  return sizes.flatMap(([kind, size]) => {
    if (size === 0) return [];
    const band: Band = { kind, from, to: from + size / all };
    from = band.to;
    return [band];
  });
}

/** Where offsets lie between the commit and the log's end, from 0 to 1: no more marks than can be told apart. */
export function marksOf(gaps: Gaps, offsets: readonly number[], most = 200): number[] {
  const span = Math.max(1, gaps.end - gaps.committed);
  return [...new Set(offsets.map((offset) => Math.round(((offset - gaps.committed) / span) * most) / most))];
}
