// "Why here?": the steps that led a lease to where it is, from the group's history.
import { useQuery } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { ActionButton } from "../actions/ActionDialog";
import { ask, CallError, query } from "../api/calls";
import type { Lag, Lease, Progress } from "../api/documents";
import { count, epochText } from "../format/numbers";
import { ClusterLink, GroupLink, lagText } from "../parts/cells";
import { Command } from "../parts/Copy";
import { Facts } from "../parts/Facts";
import { GapStrip } from "../parts/GapStrip";
import { Moment } from "../parts/moments";
import { Problem } from "../parts/Notes";
import { State } from "../parts/State";
import { momentText, useMoment } from "../state/moment";

export interface Explained {
  lease?: Lease;
  reasons: { time_ms: number; actor: string; history: string; sequence: number; type: string; text: string }[];
  kept_from_sequence: number;
}

/** An answer that is asked for once tells of the partition, too. */
type Answer = Explained & { progress?: Progress | null; lag?: Lag | null };

/** Why a lease is here, asked once; its lag is followed, and until it is there that of the answer is shown. */
export function Why(props: { group: string; lease: string; lag: Lag | undefined; now_ms: number; onClose: () => void }): ReactElement {
  const { group, lease } = props;
  const at_ms = useMoment().ms;
  const asked = useQuery({
    queryKey: ["why", group, lease, at_ms],
    queryFn: () => ask<Answer>(`/api/why${query({ group, lease, at_ms: at_ms > 0 ? String(at_ms) : "" })}`),
    staleTime: 2_000,
  });
  return (
    <Explanation {...props} explained={asked.data} lag={props.lag ?? asked.data?.lag ?? undefined} progress={asked.data?.progress ?? null}>
      {asked.error instanceof CallError ? <Problem fault={asked.error.fault} /> : null}
    </Explanation>
  );
}

interface ExplanationProps {
  group: string;
  lease: string;
  explained: Explained | undefined;
  lag: Lag | undefined;
  progress: Progress | null;
  now_ms: number;
  onClose: () => void;
  /** What is wrong with it. */
  children: ReactNode;
}

/** A group is named only where several have the lease. */
export function Explanation({ group, lease, explained, lag, progress, now_ms, onClose, children }: ExplanationProps): ReactElement {
  const at_ms = useMoment().ms;
  const held = explained?.lease;
  return (
    <section className="why" aria-label={`Why ${lease} is here`}>
      <header className="section-head">
        <h2>
          Why here? <span className="mono">{lease}</span>
        </h2>
        <div className="section-actions">
          <ActionButton verb="pin" given={{ group: held?.group ?? group, lease, member: held?.member ?? "" }} label="Pin" small />
          <button type="button" className="small" onClick={onClose}>
            Close
          </button>
        </div>
      </header>
      {children}
      {held ? <LeaseFacts lease={held} lag={lag} /> : null}
      {held && lag ? <GapStrip lease={held} lag={lag} progress={progress} now_ms={now_ms} /> : null}
      {explained ? <Steps explained={explained} /> : null}
      <Command text={`braid why lease ${lease}${group ? ` --group ${group}` : ""}${at_ms > 0 ? ` --at ${momentText(at_ms)}` : ""}`} />
    </section>
  );
}

function LeaseFacts({ lease, lag }: { lease: Lease; lag: Lag | undefined }): ReactElement {
  return (
    <Facts
      facts={[
        ["State", <State key="state" state={lease.state} />],
        ["Group", <GroupLink key="group" name={lease.group} />],
        ["Member", lease.member_client_id || lease.member],
        ["Cluster", <ClusterLink key="cluster" name={lease.cluster} />],
        ["Topic", <span key="topic" className="mono">{`${lease.topic}/${lease.partition}`}</span>],
        ["Epoch", epochText(lease.epoch)],
        ["Lag", lag ? `${lagText(lag)}, ${count(lag.lag_records)} records` : "not known"],
        ["Committed", !lag ? "not known" : lag.committed_offset >= 0 ? `${count(lag.committed_offset)} of ${count(lag.end_offset)}` : ""],
        ["Rule", lease.rule],
      ]}
    />
  );
}

function Steps({ explained }: { explained: Explained }): ReactElement {
  return (
    <>
      {explained.kept_from_sequence > 1 ? <p className="faint">Steps before event {count(explained.kept_from_sequence)} are not kept in the store.</p> : null}
      <ol className="steps">
        {explained.reasons.map((reason) => (
          <li key={`${reason.history}#${reason.sequence}`}>
            <span className="faint nowrap">
              <Moment ms={reason.time_ms} />
            </span>
            <span className="grow">{reason.text}</span>
            <span className="faint nowrap">{reason.actor}</span>
          </li>
        ))}
      </ol>
      {explained.reasons.length === 0 ? <p className="calm">No step is kept.</p> : null}
    </>
  );
}
