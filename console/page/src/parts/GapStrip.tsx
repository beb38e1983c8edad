// The gap strip of a partition: what became of its records, as far as the group's newest commit and dead letters tell.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";
import { ask, CallError, query } from "../api/calls";
import type { DeadLetter, Lag, Lease, Progress } from "../api/documents";
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

export function GapStrip(props: { lease: Lease; lag: Lag; progress: Progress | null; now_ms: number }): ReactElement {
  const { lease, lag, progress, now_ms } = props;
  const { letters, more, fault, search } = useLetters(lease);
  const gaps = gapsOf(lag, letters ?? [], progress);
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
        {gaps.taken >= 0 ? (
          <>
            <Known kind="retried" name="Retried">
              {gaps.retried.length === 0 ? "none" : triedText(gaps)}
            </Known>
            <Known kind="taken" name="In flight">
              {gaps.taken === gaps.retried.length ? "none before the last that is done" : `${counted(gaps.taken - gaps.retried.length, "record")} taken before others that are done`}
            </Known>
          </>
        ) : null}
        <Known kind="undone" name="Undone">
          {gaps.undone === 0 ? "none" : `${counted(gaps.undone, "record")}, the oldest for ${lagText(lag)}`}
          {lag.split_partitions > 0 ? `; split: ${duration(lag.live_lag_seconds)} behind at its head` : ""}
          {lag.stale ? `; stale, as of ${age(lag.as_of_ms, now_ms)} ago` : ""}
        </Known>
      </dl>
      <figcaption className="faint">
        {flightText(lease, gaps, progress, now_ms)}
        {gaps.rejected.length + gaps.retried.length > 0 ? " The bar counts records. The line below it marks where rejected and retried ones lie." : ""}
      </figcaption>
      {fault ? <Problem fault={fault} /> : null}
    </figure>
  );
}

const TRIED_SHOWN = 3;

function triedText(gaps: Gaps): string {
  const named = gaps.retried.slice(0, TRIED_SHOWN).map((each) => `${each.offset} (${each.attempts} failed)`);
  const more = gaps.retried.length - named.length;
  return `${counted(gaps.retried.length, "record")}: ${named.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

/** What only the member knows. */
function flightText(lease: Lease, gaps: Gaps, progress: Progress | null, now_ms: number): string {
  if (lease.member === "") return "Nobody holds it, so nothing is in flight.";
  const member = lease.member_client_id || "the member";
  if (gaps.taken < 0) return `Only ${member} knows which of the undone are in flight, and which wait for a retry.`;
  const since = progress ? ` of ${age(progress.commit_time_ms, now_ms)} ago` : "";
  return `As the commit${since} says. What ${member} took since then, only it knows.`;
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
        {marksOf(gaps, gaps.retried.map((each) => each.offset)).map((place) => (
          <rect key={`retried ${place}`} className="gap-retried" x={place * (WIDTH - 3)} y={BAR + 2} width={3} height={RULER - 2} />
        ))}
        {marksOf(gaps, gaps.rejected).map((place) => (
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
