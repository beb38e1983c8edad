// The ways of records over streams, and how long each stretch takes.
import type { ReactElement } from "react";
import type { Pathway, PathwayPoint } from "../api/documents";
import { count, rate } from "../format/numbers";
import { duration } from "../format/times";
import { GroupLink, StreamLink } from "../parts/cells";
import { answered, Empty, Section, Staleness } from "../parts/Notes";
import { Tabs } from "../parts/Tabs";
import { useAddress } from "../state/search";
import { nowOf, table, useView, value } from "../state/view";
import { Title } from "./Title";

const WINDOWS = [["60", "1 min"], ["900", "15 min"], ["3600", "1 h"]] as const;

interface Summary {
  window_seconds: number;
  kept_since_ms: number;
  left_out?: { garbage_headers: number; records: number; lost_reports: number };
}

function slowest(pathway: Pathway): number {
  return Math.max(0, ...pathway.points.map((point) => point.full?.p95_ms ?? 0));
}

export function Pathways(): ReactElement {
  const [address, change] = useAddress();
  const window = WINDOWS.find(([seconds]) => seconds === address["window_seconds"])?.[0] ?? "60";
  const live = useView("pathways", { stream: address["stream"], window_seconds: window });
  const pathways = table<Pathway>(live, "pathways");
  const summary = value<Summary>(live, "summary").value;
  const shown = [...pathways.rows].sort((one, other) => slowest(other) - slowest(one) || one.key.localeCompare(other.key));
  return (
    <>
      <Title name="Pathways">
        <Tabs label="Time covered" choices={WINDOWS} chosen={window} onChoose={(next) => change({ window_seconds: next })} />
      </Title>
      <div className="filters" role="group" aria-label="Which pathways">
        <label>
          <span>Stream</span>
          <input value={address["stream"] ?? ""} placeholder="all" spellCheck={false} onChange={(event) => change({ stream: event.target.value })} />
        </label>
      </div>
      <Staleness part={pathways} now_ms={nowOf(live)} />
      <LeftOut summary={summary} />
      <div className={pathways.stale && pathways.as_of_ms > 0 ? "stale" : ""}>
        {shown.map((pathway) => (
          <Way key={pathway.key} pathway={pathway} />
        ))}
      </div>
      {answered(pathways) && shown.length === 0 ? (
        <Empty title="No pathway was seen lately." command="braid get pathways -o wide">
          Applications report pathways if they say their name: braid.connect(pathways=NAME).
        </Empty>
      ) : null}
    </>
  );
}

function LeftOut({ summary }: { summary: Summary | null }): ReactElement | null {
  const left = summary?.left_out;
  if (!left || left.garbage_headers + left.records + left.lost_reports === 0) return null;
  return (
    <p className="note tone-warn">
      Left out: {count(left.records)} records beyond the bounds, {count(left.garbage_headers)} headers that could not be read, {count(left.lost_reports)} reports that did not arrive.
    </p>
  );
}

/** A pathway from left to right; the width of a bar is the share of the whole time that its stretch takes. */
function Way({ pathway }: { pathway: Pathway }): ReactElement {
  const whole = slowest(pathway);
  const last = pathway.points.at(-1);
  return (
    <Section title={`To ${last?.group || last?.stream || "nowhere"}${pathway.partial ? ", its beginning is not known" : ""}`} actions={<span className="faint">{`p95 ${duration(whole / 1000)} in all`}</span>}>
      <ol className="way">
        {pathway.points.map((point) => (
          <Point key={point.hash} point={point} whole={whole} />
        ))}
      </ol>
    </Section>
  );
}

function Point({ point, whole }: { point: PathwayPoint; whole: number }): ReactElement {
  const received = point.direction === "received";
  const edge = point.edge;
  const share = edge && whole > 0 ? Math.min(1, edge.p95_ms / whole) : 0;
  return (
    <li className={`way-point ${received ? "received" : "sent"}`}>
      <span className="faint">{received ? "handled by" : "sent to"}</span>
      <strong>{received ? <GroupLink name={point.group} /> : <StreamLink name={point.stream} />}</strong>
      <span className="faint">
        {point.service}, {rate(point.records_per_s)}
      </span>
      {edge ? (
        <span className="way-time" title="From the point before">
          <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
            <rect className="lag-track" width="100" height="6" rx="2" />
            <rect className="lag-fill" width={100 * share} height="6" rx="2" />
          </svg>
          p50 {duration(edge.p50_ms / 1000)} · p95 {duration(edge.p95_ms / 1000)} · p99 {duration(edge.p99_ms / 1000)}
        </span>
      ) : null}
    </li>
  );
}
