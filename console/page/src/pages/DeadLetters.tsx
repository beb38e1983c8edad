// The inbox of dead letters: grouped by error and handler, so that one bug is one line.
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { DeadLetter, LetterKind } from "../api/documents";
import type { LiveState } from "../api/live";
import type { Part } from "../api/parts";
import { bytes, count, counted } from "../format/numbers";
import { age } from "../format/times";
import { GroupLink, StreamLink } from "../parts/cells";
import { Age } from "../parts/moments";
import { Empty, Nothing, Staleness } from "../parts/Notes";
import { Shape, State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { Tabs } from "../parts/Tabs";
import { useAddress, type Search } from "../state/search";
import { nowOf, table, useView, value } from "../state/view";
import { kindFilter } from "./letter_filter";
import { Title } from "./Title";

const SHOWN = [["", "By error"], ["letters", "One by one"]] as const;

interface Summary {
  total: number;
  total_incomplete: boolean;
  catching_up: string[];
}

export function DeadLetters(): ReactElement {
  const [address, change] = useAddress();
  const { stream = "", filter = "" } = address;
  const live = useView("dead-letters", { stream, filter });
  const now = nowOf(live);
  const chosen = address["show"] === "letters" ? "letters" : "";
  const replayed = stream ? { stream, filter } : { filter };
  return (
    <>
      <Title name="Dead letters">
        <Tabs label="Dead letters" choices={SHOWN} chosen={chosen} onChoose={(next) => change({ show: next })} />
        <ActionButton verb="replay" given={replayed} label="Replay" />
      </Title>
      <Filters address={address} change={change} />
      <Staleness part={value(live, "summary")} now_ms={now} />
      <Total summary={value<Summary>(live, "summary").value} />
      {chosen === "letters" ? <Letters live={live} now_ms={now} /> : <Kinds live={live} now_ms={now} />}
    </>
  );
}

function Filters({ address, change }: { address: Search; change: (next: Search) => void }): ReactElement {
  return (
    <div className="filters" role="group" aria-label="Which dead letters">
      <label>
        <span>Stream</span>
        <input value={address["stream"] ?? ""} placeholder="all" spellCheck={false} onChange={(event) => change({ stream: event.target.value })} />
      </label>
      <label className="grow">
        <span>Filter</span>
        <input value={address["filter"] ?? ""} placeholder="error=ValueError and group=indexer" spellCheck={false} onChange={(event) => change({ filter: event.target.value })} />
      </label>
    </div>
  );
}

function Total({ summary }: { summary: Summary | null }): ReactElement | null {
  if (summary === null) return null;
  return (
    <p className="faint total">
      {summary.total_incomplete ? "At least " : ""}
      {counted(summary.total, "dead letter")}.
      {summary.catching_up.length > 0 ? ` The index still reads ${summary.catching_up.join(", ")}.` : ""}
    </p>
  );
}

function nothing(part: Part): ReactElement {
  return (
    <Nothing part={part}>
      <Empty title="The inbox is empty." command="braid get deadletters">
        Records that a group gives up come here, with the reason.
      </Empty>
    </Nothing>
  );
}

function Kinds({ live, now_ms }: { live: LiveState; now_ms: number }): ReactElement {
  const kinds = table<LetterKind>(live, "kinds");
  const columns: CellColumn<LetterKind>[] = [
    {
      id: "error",
      label: "Error",
      text: (row) => row.error_class,
      cell: (row) => (
        <Link to="/dead-letters" search={{ show: "letters", stream: row.stream, filter: kindFilter(row) } as never} className="row-link mono">
          {row.error_class || "no error class"}
        </Link>
      ),
    },
    { id: "group", label: "Group", text: (row) => row.group, width: 130, cell: (row) => <GroupLink name={row.group} />, leave: "phone" },
    { id: "stream", label: "Stream / lane", text: (row) => `${row.stream}/${row.lane}`, width: 130, cell: (row) => <StreamLink name={row.stream} lane={row.lane} />, leave: "tablet" },
    {
      id: "parked",
      label: "Waiting",
      text: (row) => count(row.parked),
      order: (row) => row.parked,
      align: "right",
      width: 84,
      cell: (row) => (
        <span className={row.parked > 0 ? "tone-bad" : ""}>
          {row.parked > 0 ? <Shape tone="bad" /> : null} {count(row.parked)}
        </span>
      ),
    },
    { id: "count", label: "All", text: (row) => count(row.count), order: (row) => row.count, align: "right", width: 64, leave: "phone" },
    { id: "first", label: "First", text: (row) => age(row.first_failure_ms, now_ms), order: (row) => -row.first_failure_ms, align: "right", width: 80, cell: (row) => <Age ms={row.first_failure_ms} now_ms={now_ms} />, leave: "tablet" },
    { id: "last", label: "Last", text: (row) => age(row.last_failure_ms, now_ms), order: (row) => -row.last_failure_ms, align: "right", width: 80, cell: (row) => <Age ms={row.last_failure_ms} now_ms={now_ms} /> },
    {
      id: "actions",
      label: "",
      text: () => "",
      align: "right",
      width: 170,
      leave: "phone",
      cell: (row) => (
        <span className="buttons-tight">
          <Link to="/dead-letters/$" params={{ _splat: row.example }} className="small button" aria-label={`Newest letter with ${row.error_class}`}>
            Newest
          </Link>
          <ActionButton verb="replay" given={{ stream: row.stream, filter: kindFilter(row) }} label="Replay" small what={`letters with ${row.error_class} of ${row.group}`} />
        </span>
      ),
    },
  ];
  return (
    <>
      <Staleness part={kinds} now_ms={now_ms} />
      <Table name="kinds of dead letters" rows={kinds.rows} columns={columns} sort="-parked" greyed={() => kinds.stale && kinds.as_of_ms > 0} empty={nothing(kinds)} />
    </>
  );
}

function letterColumns(now_ms: number): CellColumn<DeadLetter>[] {
  return [
    {
      id: "letter",
      label: "Letter",
      text: (row) => row.name,
      width: 150,
      cell: (row) => (
        <Link to="/dead-letters/$" params={{ _splat: row.name }} className="row-link mono">
          {row.name}
        </Link>
      ),
    },
    { id: "state", label: "State", text: (row) => row.state.replaceAll("_", " "), width: 130, cell: (row) => <State state={row.state} />, leave: "phone" },
    { id: "error", label: "Error", text: (row) => `${row.error_class}: ${row.error_message}`, cell: (row) => <span className="mono">{row.quarantine || `${row.error_class}: ${row.error_message}`.slice(0, 300)}</span> },
    { id: "group", label: "Group", text: (row) => row.group, width: 140, cell: (row) => <GroupLink name={row.group} />, leave: "tablet" },
    { id: "attempts", label: "Attempts", text: (row) => count(row.attempts), order: (row) => row.attempts, align: "right", width: 90, leave: "tablet" },
    { id: "size", label: "Size", text: (row) => bytes(row.value_bytes), order: (row) => row.value_bytes, align: "right", width: 90, leave: "tablet" },
    { id: "last", label: "Failed", text: (row) => age(row.last_failure_ms, now_ms), order: (row) => -row.last_failure_ms, align: "right", width: 90, cell: (row) => <Age ms={row.last_failure_ms} now_ms={now_ms} />, leave: "phone" },
  ];
}

function Letters({ live, now_ms }: { live: LiveState; now_ms: number }): ReactElement {
  const letters = table<DeadLetter>(live, "letters");
  const columns = useMemo(() => letterColumns(now_ms), [Math.floor(now_ms / 5_000)]);
  return (
    <>
      <Staleness part={letters} now_ms={now_ms} />
      <Table name="dead letters" rows={letters.rows} columns={columns} sort="last" more={letters.more} greyed={() => letters.stale && letters.as_of_ms > 0} empty={nothing(letters)} />
    </>
  );
}
