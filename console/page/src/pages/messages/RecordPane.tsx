// One record in full beside the table: where it lies, its headers, its key and its value in several forms.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type ReactElement } from "react";
import { ask, CallError } from "../../api/calls";
import { recordAddress, type MessageHeader, type MessageInFull, type ShownBytes } from "../../api/messages";
import { bytes, count } from "../../format/numbers";
import { ClusterLink } from "../../parts/cells";
import { Command, Copy } from "../../parts/Copy";
import { Facts } from "../../parts/Facts";
import { Moment } from "../../parts/moments";
import { Problem, Section } from "../../parts/Notes";
import { Tabs } from "../../parts/Tabs";
import { hexDump, pretty, visible } from "../letter_text";
import { traceAddress } from "./asked";
import { formWords } from "./MessageTable";

interface PaneProps {
  record: string;
  form: string;
  onClose: () => void;
}

export function RecordPane({ record, form, onClose }: PaneProps): ReactElement {
  const asked = useQuery({ queryKey: ["record", record, form], queryFn: () => ask<MessageInFull>(recordAddress("record", record, form)), staleTime: Infinity, gcTime: 60_000 });
  const pane = useRef<HTMLElement>(null);
  useEffect(() => pane.current?.focus({ preventScroll: true }), []);
  return (
    <section
      ref={pane}
      className={`record-pane${asked.isFetching && !asked.data ? " reading" : ""}`}
      aria-label="Message"
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <header className="section-head">
        <h2 className="mono">{record}</h2>
        <div className="section-actions">
          <Copy text={window.location.href} label="Copy link" />
          <button type="button" className="small" onClick={onClose}>
            Close
          </button>
        </div>
      </header>
      {asked.error instanceof CallError ? <Problem fault={asked.error.fault} /> : null}
      {asked.data ? <Whole record={asked.data} /> : asked.isFetching ? <p className="note">Reading…</p> : null}
    </section>
  );
}

function Whole({ record }: { record: MessageInFull }): ReactElement {
  return (
    <>
      <RecordFacts record={record} />
      <Section title={`Value${record.value_bytes < 0 ? "" : `, ${bytes(record.value_bytes)}`}`} actions={<Download record={record} />}>
        <Bytes what="value" shown={record.value_shown} hex={record.value_hex} />
      </Section>
      <Section title={`Key${record.key_bytes < 0 ? "" : `, ${bytes(record.key_bytes)}`}`}>
        <Bytes what="key" shown={record.key_shown} hex={record.key_hex} />
      </Section>
      <Section title={`Headers, ${count(record.header_count)}`}>
        <Headers headers={record.headers} total={record.header_count} />
      </Section>
      <Command text={record.cli} />
    </>
  );
}

function RecordFacts({ record }: { record: MessageInFull }): ReactElement {
  const trace = traceAddress(record.trace_link, record.trace_id);
  return (
    <Facts
      facts={[
        [`Time (${record.timestamp_type})`, <Moment key="time" ms={record.timestamp_ms} full />],
        ["Sent", <Moment key="sent" ms={record.ingested_at_ms} full />],
        ["Cluster", <ClusterLink key="cluster" name={record.cluster} />],
        ["Topic", <span key="topic" className="mono">{`${record.topic}/${record.partition} @ ${record.offset}`}</span>],
        ["Record id", record.id ? <span key="id" className="mono">{visible(record.id)}</span> : ""],
        ["Trace", <Trace key="trace" id={record.trace_id} address={trace} />],
      ]}
    />
  );
}

function Trace({ id, address }: { id: string; address: string }): ReactElement {
  if (id === "") return <span className="faint">none</span>;
  if (address === "") {
    return (
      <span className="mono" title="BRAID_CONSOLE_TRACE_LINK names where traces are shown">
        {id}
      </span>
    );
  }
  return (
    <a href={address} target="_blank" rel="noopener noreferrer" className="mono">
      {id}
    </a>
  );
}

function Download({ record }: { record: MessageInFull }): ReactElement | null {
  if (record.value_bytes <= 0) return null;
  return (
    <a className="button small" href={recordAddress("download", record.key)} download>
      Download
    </a>
  );
}

const FORMS = [["shown", "As it reads"], ["raw", "Raw"], ["hex", "Hex"]] as const;

function Bytes({ what, shown, hex }: { what: "key" | "value"; shown: ShownBytes; hex: string }): ReactElement {
  const [form, setForm] = useState<"shown" | "raw" | "hex">(shown.form === "hex" ? "hex" : "shown");
  if (shown.form === "none") return <p className="calm">It has no {what}.</p>;
  const text = form === "hex" ? hexDump(hex) : form === "raw" ? visible(shown.text) : pretty(shown.text);
  return (
    <>
      <div className="table-tools">
        {formWords(shown) ? <span className="faint">{formWords(shown)}</span> : null}
        {shown.form === "hex" ? null : <Tabs label={`Form of the ${what}`} choices={FORMS} chosen={form} onChoose={setForm} />}
        <Copy text={form === "hex" ? hex : shown.text} what={what} />
        {shown.cut ? <span className="tone-warn">Cut: download it to have the whole.</span> : null}
        {shown.reason ? <span className="tone-warn">{shown.reason}</span> : null}
      </div>
      <pre tabIndex={0} aria-label={what === "key" ? "Key" : "Value"} className="payload" dir="ltr">
        {text || " "}
      </pre>
    </>
  );
}

function Headers({ headers, total }: { headers: readonly MessageHeader[]; total: number }): ReactElement {
  if (headers.length === 0) return <p className="calm">It has no headers.</p>;
  return (
    <>
      <dl className="headers">
        {headers.map((header, place) => (
          <div key={`${header.name} ${place}`}>
            <dt className="mono">{visible(header.name)}</dt>
            <dd className="mono">
              {header.form === "hex" ? `0x${header.text}` : visible(header.text)}
              {header.cut ? "…" : ""}
            </dd>
          </div>
        ))}
      </dl>
      {total > headers.length ? <p className="note">{count(total - headers.length)} more headers are not shown.</p> : null}
    </>
  );
}
