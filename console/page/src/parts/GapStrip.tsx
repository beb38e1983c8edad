// The gap strip of a partition: what of its records is done, rejected and undone, as far as services know.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";
import { ask, CallError, query } from "../api/calls";
import type { DeadLetter, Lag, Lease } from "../api/documents";
import type { TablePart } from "../api/parts";
import { count, counted } from "../format/numbers";
import { age, duration } from "../format/times";
import { quoted } from "../pages/letter_filter";
import { lagText } from "./cells";
import { bandsOf, gapsOf, isOf, marksOf, type Gaps } from "./gaps";
import { Problem } from "./Notes";

const WIDTH = 1_000;
const BAR = 16;
const RULER = 12;
/** Between two questions for dead letters: longer than the server reads on for a page that nobody looks at. */
const LETTERS_MS = 60_000;

interface Answer {
  parts: { letters: TablePart<DeadLetter> };
}

function filterOf(lease: Lease): string {
  return `group=${quoted(lease.group)} and lane=${quoted(lease.name.split("/")[1] ?? "")} and partition=${lease.partition}`;
}

/** Dead letters of the lease's partition: rejected records are known from them alone. */
function useLetters(lease: Lease) {
  const stream = lease.name.split("/")[0] ?? "";
  const filter = filterOf(lease);
  const asked = useQuery({
    queryKey: ["rejected", stream, filter],
    queryFn: () => ask<Answer>(`/api/views/dead-letters${query({ stream, filter })}`),
    staleTime: LETTERS_MS,
    refetchInterval: LETTERS_MS,
  });
  const part = asked.data?.parts.letters;
  const fault = asked.error instanceof CallError ? asked.error.fault : (part?.error ?? null);
  return { letters: part?.rows.filter((letter) => isOf(letter, lease)), more: part?.more ?? false, fault, search: { show: "letters", stream, filter } };
}

export function GapStrip({ lease, lag, now_ms }: { lease: Lease; lag: Lag; now_ms: number }): ReactElement {
  const { letters, more, fault, search } = useLetters(lease);
  const gaps = gapsOf(lag, letters ?? []);
  const rejected = letters === undefined ? "unknown" : `${more ? "at least " : ""}${count(gaps.rejected.length)} after the commit, ${count(gaps.rejected_before)} before`;
  return (
    <figure className={`gaps${lag.stale ? " stale" : ""}`} aria-label={`Records of ${lease.name}`}>
      <Strip gaps={gaps} />
      <dl>
        <Known kind="done" name="Done">
          {gaps.committed < 0 ? "nothing is committed yet" : `all before offset ${gaps.committed}${gaps.done ? `, and ${count(gaps.done)} after it` : ""}`}
        </Known>
        <Known kind="rejected" name="Rejected">
          <Link to="/dead-letters" search={search as never}>
            {rejected}
          </Link>
        </Known>
        <Known kind="undone" name="Undone">
          {gaps.undone === 0 ? "none" : `${counted(gaps.undone, "record")}, the oldest for ${lagText(lag)}`}
          {lag.split_partitions > 0 ? `; split: ${duration(lag.live_lag_seconds)} behind at its head` : ""}
          {lag.stale ? `; stale, as of ${age(lag.as_of_ms, now_ms)} ago` : ""}
        </Known>
      </dl>
      <figcaption className="faint">
        {lease.member === "" ? "Nobody holds it, so nothing is in flight." : `Only ${lease.member_client_id || "the member"} knows which of the undone are in flight, and which wait for a retry.`}
        {gaps.done > 0 ? " The bar counts records: of those done after the commit, only rejected ones have a place that services know. It is marked below." : ""}
      </figcaption>
      {fault ? <Problem fault={fault} /> : null}
    </figure>
  );
}

function Known({ kind, name, children }: { kind: string; name: string; children: ReactNode }): ReactElement {
  return (
    <div>
      <dt>
        <svg width="12" height="12" aria-hidden="true">
          <rect className={`gap-${kind}`} width="12" height="12" rx="2" />
          {kind === "rejected" ? <path className="gap-cross" d="M3 3l6 6M9 3l-6 6" /> : null}
        </svg>
        {name}
      </dt>
      <dd>{children}</dd>
    </div>
  );
}

function Strip({ gaps }: { gaps: Gaps }): ReactElement {
  const label = gaps.committed < 0 ? `${counted(gaps.undone, "record")} undone` : `From offset ${gaps.committed} to ${gaps.end}: ${count(gaps.done)} done, ${count(gaps.undone)} undone`;
  return (
    <>
      <svg className="gap-bar" viewBox={`0 0 ${WIDTH} ${BAR + RULER}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {bandsOf(gaps).map((band) => (
          <rect key={band.kind} className={`gap-${band.kind}`} x={band.from * WIDTH} width={Math.max(2, (band.to - band.from) * WIDTH)} height={BAR} />
        ))}
        <rect className="lag-track" y={BAR + 4} width={WIDTH} height={RULER - 4} />
        {marksOf(gaps).map((place) => (
          <rect key={place} className="gap-rejected" x={place * (WIDTH - 3)} y={BAR + 2} width={3} height={RULER - 2} />
        ))}
      </svg>
      <div className="gap-ends faint mono">
        <span>{gaps.committed < 0 ? "" : gaps.committed}</span>
        <span>{gaps.end < 0 ? "" : gaps.end}</span>
      </div>
    </>
  );
}
