// "Why here?": the steps that led a lease to where it is, from the group's history.
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import { ask, CallError, query } from "../api/calls";
import type { Lag, Lease, Progress } from "../api/documents";
import { count, epochText } from "../format/numbers";
import { lagText } from "../parts/cells";
import { Command } from "../parts/Copy";
import { Facts } from "../parts/Facts";
import { GapStrip } from "../parts/GapStrip";
import { Moment } from "../parts/moments";
import { Problem } from "../parts/Notes";
import { State } from "../parts/State";
import { momentText, useMoment } from "../state/moment";

interface Explained {
  lease?: Lease;
  reasons: { time_ms: number; actor: string; history: string; sequence: number; type: string; text: string }[];
  kept_from_sequence: number;
  progress?: Progress | null;
  lag?: Lag | null;
}

/** Asks why a lease is here. A group is named only where several have the lease. */
export function useExplained(group: string, lease: string) {
  const at_ms = useMoment().ms;
  return useQuery({
    queryKey: ["why", group, lease, at_ms],
    queryFn: () => ask<Explained>(`/api/why${query({ group, lease, at_ms: at_ms > 0 ? String(at_ms) : "" })}`),
    staleTime: 2_000,
  });
}

/** `lag` is followed; until it is there, that of the answer is shown. */
export function Why(props: { group: string; lease: string; lag: Lag | undefined; now_ms?: number; onClose: () => void }): ReactElement {
  const { group, lease, now_ms = Date.now(), onClose } = props;
  const at_ms = useMoment().ms;
  const asked = useExplained(group, lease);
  const lag = props.lag ?? asked.data?.lag ?? undefined;
  return (
    <section className="why" aria-label={`Why ${lease} is here`}>
      <header className="section-head">
        <h2>
          Why here? <span className="mono">{lease}</span>
        </h2>
        <div className="section-actions">
          <ActionButton verb="pin" given={{ group: asked.data?.lease?.group ?? group, lease, member: asked.data?.lease?.member ?? "" }} label="Pin" small />
          <button type="button" className="small" onClick={onClose}>
            Close
          </button>
        </div>
      </header>
      {asked.data?.lease ? <LeaseFacts lease={asked.data.lease} lag={lag} /> : null}
      {asked.data?.lease && lag ? <GapStrip lease={asked.data.lease} lag={lag} progress={asked.data.progress ?? null} now_ms={now_ms} /> : null}
      {asked.error instanceof CallError ? <Problem fault={asked.error.fault} /> : null}
      {asked.data ? <Steps explained={asked.data} /> : null}
      <Command text={`braid why lease ${lease}${group ? ` --group ${group}` : ""}${at_ms > 0 ? ` --at ${momentText(at_ms)}` : ""}`} />
    </section>
  );
}

function LeaseFacts({ lease, lag }: { lease: Lease; lag: Lag | undefined }): ReactElement {
  return (
    <Facts
      facts={[
        ["State", <State key="state" state={lease.state} />],
        ["Member", lease.member_client_id || lease.member],
        ["Cluster", lease.cluster],
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
