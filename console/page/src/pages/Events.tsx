// Every decision with its cause and who asked for it: filter, follow, and go back through what is kept.
import { useInfiniteQuery } from "@tanstack/react-query";
import { createContext, useContext, useMemo, useState, type ReactElement } from "react";
import { ask, CallError, query } from "../api/calls";
import type { Gap, MeshEvent } from "../api/documents";
import { incidentTimeline } from "../format/exports";
import { dateTime } from "../format/times";
import { Copy } from "../parts/Copy";
import { Facts } from "../parts/Facts";
import { Moment } from "../parts/moments";
import { Empty, Nothing, Problem, Staleness } from "../parts/Notes";
import { Table, type CellColumn } from "../parts/Table";
import { Timeline } from "../parts/Timeline";
import { EventLog } from "../state/event_log";
import { useMoment } from "../state/moment";
import { usePreferences } from "../state/preferences";
import { useAddress, type Search } from "../state/search";
import { nowOf, table, useView } from "../state/view";
import type { TablePart } from "../api/parts";
import { TravelSlider } from "../shell/Travel";
import { EventFilters } from "./EventFilters";
import { aboutOf, typeWords } from "./event_words";
import { Title } from "./Title";

interface Older {
  events: MeshEvent[];
  gaps: Gap[];
  next_page_token: string;
}

const FILTERS = ["history", "service", "actor", "since_ms", "until_ms", "refused"] as const;

function filterOf(address: Search): Record<string, string> {
  return Object.fromEntries(FILTERS.flatMap((name) => (address[name] ? [[name, address[name]]] : [])));
}

/** The filter with no event after the moment that is shown. */
function before(filter: Record<string, string>, at_ms: number): Record<string, string> {
  const until = Number(filter["until_ms"] ?? 0);
  return at_ms > 0 && (until === 0 || until > at_ms) ? { ...filter, until_ms: String(at_ms) } : filter;
}

/** Events older than those of the view, a page at a time, as far as they are kept. `first` is the first page's token. */
function useOlder(filter: Record<string, string>, first: string) {
  return useInfiniteQuery({
    queryKey: ["events", filter],
    queryFn: ({ pageParam }) => ask<Older>(`/api/events${query({ ...filter, page_token: pageParam })}`),
    initialPageParam: first,
    getNextPageParam: (page) => page.next_page_token || undefined,
    enabled: false,
    structuralSharing: false, // events do not change: to compare all that were loaded with each further page would take longer and longer
  });
}

const NO_PAGES: readonly Older[] = [];

/** Where older events begin: at the oldest that is shown. With a filter the view looks through few events, and may show none. */
function firstToken(filtered: boolean, newest: TablePart<MeshEvent>): string {
  const oldest = Math.min(...newest.rows.map((event) => event.time_ms));
  return filtered || newest.rows.length === 0 ? "" : String(oldest);
}

/** All events that were shown or loaded since the filter was chosen, newest first; none while the server shows none. */
function useShown(filter: Record<string, string>, newest: TablePart<MeshEvent>, pages: readonly Older[]): readonly MeshEvent[] {
  const log = useMemo(() => new EventLog(), [query(filter)]);
  return useMemo(() => {
    if (newest.rows.length === 0 && newest.error !== null) return [];
    for (const page of pages) log.add(page.events);
    return log.add(newest.rows);
  }, [log, newest.rows, newest.error, pages]);
}

/** The event that is read in full, and how another is chosen: cells read it from here, so that columns stay the same. */
const Chosen = createContext<{ open: string; choose: (key: string) => void }>({ open: "", choose: () => undefined });

function What({ event }: { event: MeshEvent }): ReactElement {
  const { open, choose } = useContext(Chosen);
  const here = event.key === open;
  return (
    <button type="button" className={`link${here ? " chosen" : ""}`} aria-expanded={here} onClick={() => choose(here ? "" : event.key)}>
      <strong>{typeWords(event.type)}</strong> {event.text}
    </button>
  );
}

const COLUMNS: readonly CellColumn<MeshEvent>[] = [
  { id: "time", label: "Time", text: (row) => dateTime(row.time_ms, "utc"), order: (row) => row.time_ms, width: 128, cell: (row) => <Moment ms={row.time_ms} /> },
  { id: "history", label: "About", text: aboutOf, width: 150, leave: "phone" },
  { id: "text", label: "What happened", text: (row) => `${typeWords(row.type)} ${row.text} ${row.type}`, cell: (row) => <What event={row} /> },
  { id: "actor", label: "By", text: (row) => row.actor || row.service, width: 120, leave: "tablet", cell: (row) => <span title={row.actor}>{row.actor.split("/").at(-1) || row.service}</span> },
  { id: "cause", label: "Because", text: (row) => row.cause, width: 180, leave: "tablet" },
];

export function Events(): ReactElement {
  const [address, change] = useAddress();
  const { zone } = usePreferences();
  const at_ms = useMoment().ms;
  const filter = before(filterOf(address), at_ms);
  const live = useView("events", filter);
  const filtered = Object.values(filter).some(Boolean);
  const events = table<MeshEvent>(live, "events");
  const older = useOlder(filter, firstToken(filtered, events));
  const pages = older.data?.pages ?? NO_PAGES;
  const rows = useShown(filter, events, pages);
  const [open, setOpen] = useState(address["event"] ?? "");
  const choose = (key: string): void => {
    setOpen(key);
    change({ event: key });
  };
  const chosen = rows.find((event) => event.key === open);
  return (
    <>
      <Title name="Events">
        <Copy text={() => Promise.resolve(incidentTimeline(rows, zone))} label="Copy as incident timeline" />
      </Title>
      {at_ms > 0 ? null : <TravelSlider />}
      <EventFilters address={address} change={change} />
      <Staleness part={events} now_ms={nowOf(live)} />
      <Timeline events={rows} onRange={(since, until) => change({ since_ms: String(since), until_ms: String(until) })} />
      {chosen ? <Detail event={chosen} onClose={() => choose("")} /> : null}
      <Chosen.Provider value={{ open, choose }}>
        <Table
          name="events"
          rows={rows}
          columns={COLUMNS}
          sort="-time"
          empty={<Nothing part={events}><NoEvents filtered={filtered} more={pages.length > 0 ? older.hasNextPage : events.more} /></Nothing>}
        />
      </Chosen.Provider>
      <Gaps rows={[...table<Gap>(live, "gaps").rows, ...pages.flatMap((page) => page.gaps)]} />
      <LookedBack pages={pages} />
      {older.error instanceof CallError ? <Problem fault={older.error.fault} /> : null}
      <div className="buttons">
        <button type="button" disabled={older.isFetching || (older.data !== undefined && !older.hasNextPage)} onClick={() => void older.fetchNextPage()}>
          {older.isFetching ? "Loading…" : older.data !== undefined && !older.hasNextPage ? "Nothing older is kept" : "Load older events"}
        </button>
      </div>
    </>
  );
}

function NoEvents({ filtered, more }: { filtered: boolean; more: boolean }): ReactElement {
  if (!filtered) return <Empty title="Nothing has happened yet." command="braid create stream logs --lane live=4 --lane bulk=4" />;
  if (more) return <Empty title="None of the newest events fits.">Load older events to look further back.</Empty>;
  return <Empty title="No event fits." command="braid events">Widen the time, or remove a filter.</Empty>;
}

/** How far back events were looked through, where the last page found few that fit. */
function LookedBack({ pages }: { pages: readonly Older[] }): ReactElement | null {
  const { zone } = usePreferences();
  const until = Number(pages.at(-1)?.next_page_token ?? 0);
  if (until === 0) return null;
  return <p className="faint">Looked through all events since {dateTime(until + 1, zone)}.</p>;
}

function Detail({ event, onClose }: { event: MeshEvent; onClose: () => void }): ReactElement {
  const text = JSON.stringify(event.data, null, 2);
  return (
    <section className="why" aria-label="Event">
      <header className="section-head">
        <h2>{typeWords(event.type)}</h2>
        <div className="section-actions">
          <Copy text={text} label="Copy data" />
          <button type="button" className="small" onClick={onClose}>
            Close
          </button>
        </div>
      </header>
      <p>{event.text}</p>
      <Facts
        facts={[
          ["Time", <Moment key="time" ms={event.time_ms} full />],
          ["Event", <span key="key" className="mono">{event.key}</span>],
          ["By", event.actor],
          ["Because", event.cause],
          ["Request", event.request_id ? <span key="request" className="mono">{event.request_id}</span> : ""],
        ]}
      />
      <pre tabIndex={0} aria-label="Data of the event">
        {text}
      </pre>
    </section>
  );
}

function Gaps({ rows }: { rows: readonly Gap[] }): ReactElement | null {
  if (rows.length === 0) return null;
  return (
    <details className="note">
      <summary>Some events are not kept any more ({rows.length})</summary>
      <ul>
        {rows.map((gap) => (
          <li key={gap.key ?? `${gap.history}#${gap.first}`}>
            <span className="mono">
              {gap.history} {gap.first} to {gap.last}
            </span>
            : {gap.reason}
          </li>
        ))}
      </ul>
    </details>
  );
}
