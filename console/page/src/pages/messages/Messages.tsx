// Records of a stream over all clusters that carry it: found, filtered, opened, followed.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useMemo, useState, type ReactElement } from "react";
import { CallError, send } from "../../api/calls";
import type { Stream } from "../../api/documents";
import type { Absent, Damaged, MessageRow, MessagesAnswer } from "../../api/messages";
import { bytes, count } from "../../format/numbers";
import { Command } from "../../parts/Copy";
import { Empty, Problem, Staleness } from "../../parts/Notes";
import { Shape } from "../../parts/State";
import { Tabs } from "../../parts/Tabs";
import { useAddress, type Search } from "../../state/search";
import { nowOf, useView, value } from "../../state/view";
import { Title } from "../Title";
import { askedOf, bodyOf, endWords, type Asked } from "./asked";
import { LiveTail } from "./LiveTail";
import { lanesOf, MessageFilters } from "./MessageFilters";
import { MessageTable } from "./MessageTable";
import { ProduceDialog } from "./ProduceDialog";
import { RecordPane } from "./RecordPane";

const SHOWN = [["", "Kept"], ["tail", "Live tail"]] as const;

export function MessagesPage(): ReactElement {
  const { name } = useParams({ strict: false }) as { name: string };
  const [address, change] = useAddress();
  const live = useView("stream", { name });
  const stream = value<Stream>(live, "stream");
  const following = address["show"] === "tail";
  const chosen = address["record"] ?? "";
  const [producing, setProducing] = useState(false);
  return (
    <>
      <Title name={`Messages of ${name}`} parent={[`/streams/${name}`, name]}>
        <Tabs label="Which messages" choices={SHOWN} chosen={following ? "tail" : ""} onChoose={(show) => change({ show, record: "" }, false)} />
        <button type="button" aria-haspopup="dialog" onClick={() => setProducing(true)}>
          Produce
        </button>
      </Title>
      <Staleness part={stream} now_ms={nowOf(live)} />
      <MessageFilters stream={stream.value} address={address} change={change} following={following} />
      {producing ? (
        <ProduceDialog
          name={name}
          lanes={lanesOf(stream.value)}
          onClose={() => setProducing(false)}
          onOpen={(record) => {
            setProducing(false);
            change({ record });
          }}
        />
      ) : null}
      {following ? (
        <LiveTail name={name} asked={askedOf(address)} chosen={chosen} onChoose={(key) => change({ record: key === chosen ? "" : key })} />
      ) : (
        <Found name={name} address={address} change={change} />
      )}
    </>
  );
}

function useMessages(name: string, asked: Asked) {
  return useInfiniteQuery({
    queryKey: ["messages", name, asked],
    queryFn: ({ pageParam }) => send<MessagesAnswer>(`/api/messages/${encodeURIComponent(name)}`, bodyOf(asked, pageParam)),
    initialPageParam: {} as Record<string, number>,
    getNextPageParam: (page) => (page.more ? page.positions : undefined),
    staleTime: Infinity, // it costs brokers something: only who asks gets an answer
    gcTime: 60_000,
    maxPages: 20,
  });
}

interface FoundProps {
  name: string;
  address: Search;
  change: (change: Search, replace?: boolean) => void;
}

function Found({ name, address, change }: FoundProps): ReactElement {
  const asked = askedOf(address);
  const found = useMessages(name, asked);
  const pages = found.data?.pages ?? [];
  const rows = useMemo(() => ranked(pages), [pages]);
  const last = pages.at(-1);
  const chosen = address["record"] ?? "";
  // Nothing is drawn that the first answer would push down.
  if (last === undefined && found.isPending) return <p className="note">Reading…</p>;
  return (
    <>
      {found.error instanceof CallError ? <Refused error={found.error} /> : null}
      {last ? <Missing absent={last.absent} damaged={pages.flatMap((page) => page.damaged)} /> : null}
      <div className={chosen ? "messages split" : "messages"}>
        <MessageTable rows={rows} chosen={chosen} onChoose={(key) => change({ record: key === chosen ? "" : key })} empty={<Nothing name={name} waiting={found.isFetching} asked={asked} last={last} />} />
        {chosen ? <RecordPane key={chosen} record={chosen} form={asked.form} onClose={() => change({ record: "" })} /> : null}
      </div>
      <div className="buttons">
        <button type="button" disabled={found.isFetching || !found.hasNextPage} onClick={() => void found.fetchNextPage()}>
          {found.isFetching ? "Reading…" : asked.from === "" ? "Older messages" : "Messages that follow"}
        </button>
        <button type="button" disabled={found.isFetching} onClick={() => void found.refetch()}>
          Ask again
        </button>
        <span className="faint" role="status">
          {last ? summary(pages) : ""}
        </span>
      </div>
      {last ? <Command text={last.cli} /> : null}
    </>
  );
}

/** Rows in the order in which they were found. */
function ranked(pages: readonly MessagesAnswer[]): MessageRow[] {
  const seen = new Map(pages.flatMap((page) => page.rows).map((row) => [row.key, row]));
  return [...seen.values()];
}

function summary(pages: readonly MessagesAnswer[]): string {
  const sum = (part: "records" | "bytes" | "ms"): number => pages.reduce((total, page) => total + page.looked_at[part], 0);
  const seconds = (sum("ms") / 1_000).toFixed(1);
  return `Looked at ${count(sum("records"))} records, ${bytes(sum("bytes"))}, in ${count(pages.at(-1)?.partitions ?? 0)} partitions and ${seconds} s. ${endWords(pages.at(-1)?.ended_by ?? "")}`;
}

function Refused({ error }: { error: CallError }): ReactElement {
  return (
    <>
      <Problem fault={error.fault} />
      {error.cli ? <Command text={error.cli} /> : null}
    </>
  );
}

function Missing({ absent, damaged }: { absent: readonly Absent[]; damaged: readonly Damaged[] }): ReactElement | null {
  if (absent.length === 0 && damaged.length === 0) return null;
  return (
    <div className="note tone-warn">
      <Shape tone="warn" />
      <ul className="note-text plain-list">
        {absent.map((each) => (
          <li key={`${each.cluster} ${each.partition ?? ""}`}>
            Not shown: what lies on <Link to="/clusters/$name" params={{ name: each.cluster }}>{each.cluster}</Link>
            {each.partition ? ` in ${each.partition}` : ""}, because {each.reason}. {each.remedy ? `Try: ${each.remedy}` : ""}
          </li>
        ))}
        {damaged.map((each) => (
          <li key={`${each.partition} ${each.first_offset}`}>
            Offsets {count(each.first_offset)} to {count(each.last_offset)} of {each.partition} cannot be read: {each.reason}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Nothing({ name, waiting, asked, last }: { name: string; waiting: boolean; asked: Asked; last: MessagesAnswer | undefined }): ReactElement {
  if (waiting) return <p className="note">Reading…</p>;
  if (last === undefined) return <p className="note">Nothing was read.</p>;
  if (last.more && last.ended_by !== "end") return <Empty title="Nothing matched so far." command={last.cli}>Ask on, and it looks further.</Empty>;
  if (asked.filter || asked.from) return <Empty title="No message fits." command={last.cli}>Remove a filter, or begin elsewhere.</Empty>;
  return <Empty title="The stream holds no message." command={`echo hello | braid produce ${name}`} />;
}
