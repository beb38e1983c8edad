// Replays of dead letters: how far each is, and what can be done with it.
import { Link, useParams } from "@tanstack/react-router";
import type { ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { Replay } from "../api/documents";
import { count, percent, rate } from "../format/numbers";
import { duration } from "../format/times";
import { StreamLink } from "../parts/cells";
import { Age } from "../parts/moments";
import { Empty, Nothing, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { nowOf, table, useView } from "../state/view";
import { useAddress } from "../state/search";
import { Title } from "./Title";

export function doneShare(replay: Replay): number {
  const { matched, sent, skipped } = replay.status;
  return matched > 0 ? Math.min(1, (sent + skipped) / matched) : replay.status.state === "done" ? 1 : 0;
}

/** How much longer it takes at its rate; unknown where it does not move. */
export function secondsLeft(replay: Replay): number | undefined {
  const { matched, sent, skipped, rate_per_s, state } = replay.status;
  return state === "running" && rate_per_s > 0 ? Math.max(0, matched - sent - skipped) / rate_per_s : undefined;
}

function Progress({ replay }: { replay: Replay }): ReactElement {
  const share = doneShare(replay);
  const left = secondsLeft(replay);
  return (
    <span className="progress">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect className="lag-track" width="100" height="8" rx="2" />
        <rect className="lag-fill" width={100 * share} height="8" rx="2" />
      </svg>
      <span>
        {percent(share)}
        {left === undefined ? "" : `, ${duration(left)} left`}
      </span>
    </span>
  );
}

function columnsAt(now_ms: number): CellColumn<Replay>[] {
  return [
    { id: "replay", label: "Replay", text: (row) => row.id, width: 250, cell: (row) => (
        <Link to="/replays/$id" params={{ id: row.id }} className="row-link mono">
          {row.id}
        </Link>
      ), leave: "tablet" },
    { id: "stream", label: "Stream", text: (row) => row.spec.stream, cell: (row) => <StreamLink name={row.spec.stream} /> },
    { id: "state", label: "State", text: (row) => row.status.state, width: 130, cell: (row) => <><State state={row.status.state} /> <span className="only-phone faint">{percent(doneShare(row))}</span></> },
    { id: "filter", label: "Which", text: (row) => row.spec.filter || "all", leave: "phone", cell: (row) => <span className="mono">{row.spec.filter || "all"}</span> },
    { id: "progress", label: "Progress", text: (row) => percent(doneShare(row)), order: doneShare, width: 216, cell: (row) => <Progress replay={row} />, leave: "phone" },
    { id: "sent", label: "Sent", text: (row) => `${count(row.status.sent)} of ${count(row.status.matched)}`, order: (row) => row.status.sent, align: "right", width: 150, leave: "tablet" },
    { id: "rate", label: "Rate", text: (row) => rate(row.status.rate_per_s), order: (row) => row.status.rate_per_s, align: "right", width: 90, leave: "tablet" },
    { id: "age", label: "Age", text: (row) => String(row.create_time_ms), order: (row) => -row.create_time_ms, align: "right", width: 80, cell: (row) => <Age ms={row.create_time_ms} now_ms={now_ms} />, leave: "phone" },
    { id: "actions", label: "", text: () => "", align: "right", width: 150, cell: (row) => <Acts replay={row} /> },
  ];
}

function Acts({ replay }: { replay: Replay }): ReactElement | null {
  const { state } = replay.status;
  if (state !== "running" && state !== "paused") return null;
  const given = { replay: replay.id };
  return (
    <span className="buttons-tight">
      {state === "running" ? <ActionButton verb="pause-replay" given={given} label="Pause" small what={replay.id} /> : <ActionButton verb="resume-replay" given={given} label="Resume" small what={replay.id} />}
      <ActionButton verb="cancel-replay" given={given} label="Cancel" small what={replay.id} />
    </span>
  );
}

export function Replays(): ReactElement {
  const [address] = useAddress();
  const live = useView("replays", { stream: address["stream"] });
  const now = nowOf(live);
  const { id = "" } = useParams({ strict: false }) as { id?: string };
  const replays = table<Replay>(live, "replays");
  const rows = id ? replays.rows.filter((row) => row.id === id) : replays.rows;
  const failed = rows.filter((row) => row.status.reason !== "" && row.status.state !== "cancelled");
  return (
    <>
      <Title name={id || "Replays"} {...(id ? { parent: ["/replays", "Replays"] as const } : {})}>
        <ActionButton verb="replay" given={address["stream"] ? { stream: address["stream"] } : {}} label="New replay" />
      </Title>
      <Staleness part={replays} now_ms={now} />
      {failed.map((row) => (
        <p key={row.key} className="note tone-warn">
          <span className="mono">{row.id}</span>: {row.status.reason}
        </p>
      ))}
      <Table
        name="replays"
        rows={rows}
        columns={columnsAt(now)}
        sort="age"
        more={replays.more}
        greyed={() => replays.stale && replays.as_of_ms > 0}
        empty={<Nothing part={replays}><Empty title="Nothing was replayed yet." command="braid dlq replay --stream logs --dry-run" /></Nothing>}
      />
    </>
  );
}
