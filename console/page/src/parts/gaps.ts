// What services know of a partition's records from the commit to the log's end. Pure.
import type { DeadLetter, Lag, Lease } from "../api/documents";

export interface Gaps {
  /** Every record before it is done. -1 where nothing is committed. */
  committed: number;
  end: number;
  /** Records that are not done: waiting, in a handler, or about to be retried. */
  undone: number;
  /** Records that are done at or after the commit, rejected ones too. */
  done: number;
  /** Letters of records at or after the commit, by their offset. */
  rejected: readonly DeadLetter[];
  /** Letters of records before it. */
  rejected_before: number;
}

/** Whether a letter's record was in the lease's partition, and this group gave it up. */
export function isOf(letter: DeadLetter, lease: Lease): boolean {
  const origin = letter.origin;
  return letter.group === lease.group && origin !== undefined && origin.cluster === lease.cluster && origin.topic === lease.topic && origin.partition === lease.partition;
}

export function gapsOf(lag: Lag, letters: readonly DeadLetter[]): Gaps {
  const committed = lag.committed_offset;
  const end = Math.max(lag.end_offset, committed);
  const undone = Math.max(0, lag.lag_records);
  const offset = (letter: DeadLetter): number => letter.origin?.offset ?? -1;
  const rejected = letters.filter((letter) => committed >= 0 && offset(letter) >= committed && offset(letter) < end);
  return {
    committed,
    end,
    undone,
    // A commit and the log's end are seen at different moments: fewer than none is none.
    done: committed < 0 ? 0 : Math.max(0, end - committed - undone),
    rejected: [...rejected].sort((one, other) => offset(one) - offset(other)),
    rejected_before: letters.filter((letter) => committed >= 0 && offset(letter) < committed).length,
  };
}

export interface Band {
  kind: "done" | "rejected" | "undone";
  from: number;
  to: number;
}

/** The shares of done, rejected and undone records after the commit, side by side from 0 to 1. Places are not known. */
export function bandsOf(gaps: Gaps): Band[] {
  const rejected = Math.min(gaps.rejected.length, gaps.done);
  const sizes = [["done", gaps.done - rejected], ["rejected", rejected], ["undone", gaps.undone]] as const;
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

/** Where rejected records lie between the commit and the log's end, from 0 to 1: no more marks than can be told apart. */
export function marksOf(gaps: Gaps, most = 200): number[] {
  const span = Math.max(1, gaps.end - gaps.committed);
  const places = gaps.rejected.map((letter) => Math.round((((letter.origin?.offset ?? 0) - gaps.committed) / span) * most) / most);
  return [...new Set(places)];
}
