// Records as rows. What a sender wrote is text, with marks that nobody sees shown by their code point.
import { useMemo, type ReactElement } from "react";
import type { MessageRow, ShownBytes } from "../../api/messages";
import { bytes, count } from "../../format/numbers";
import { dateTime } from "../../format/times";
import { Moment } from "../../parts/moments";
import { Table, type CellColumn } from "../../parts/Table";
import { visible } from "../letter_text";

interface Ranked extends MessageRow {
  rank: number;
}

interface TableProps {
  rows: readonly MessageRow[];
  chosen: string;
  onChoose: (key: string) => void;
  empty: ReactElement;
}

export function MessageTable({ rows, chosen, onChoose, empty }: TableProps): ReactElement {
  const found = useMemo<Ranked[]>(() => rows.map((row, rank) => ({ ...row, rank })), [rows]);
  // The arrow says what people see: newer records come first, or last.
  const down = (rows[0]?.timestamp_ms ?? 0) >= (rows.at(-1)?.timestamp_ms ?? 0);
  return <Table name="messages" rows={found} columns={columns(chosen, onChoose, down)} sort={down ? "-found" : "found"} empty={empty} />;
}

/** One line of a key or value. */
export function shownText(shown: ShownBytes): string {
  if (shown.form === "none") return "";
  const text = shown.form === "hex" && shown.text !== "" ? `0x${shown.text}` : visible(shown.text.replaceAll(/\s+/g, " "));
  return shown.cut ? `${text}…` : text;
}

const NAMES: Partial<Record<ShownBytes["form"], string>> = { avro: "Avro", protobuf: "Protobuf", json: "JSON", hex: "Hexadecimal" };

/** What a value was read as: the form and the schema that it names. Empty for what anybody can see. */
export function formWords(shown: ShownBytes): string {
  if (shown.schema !== "") return `${NAMES[shown.form] ?? shown.form}, schema ${shown.schema}`;
  return shown.form === "hex" && shown.reason === "" ? "No text in UTF-8" : "";
}

export function placeText(row: MessageRow): string {
  return `${row.channel}/${row.partition}@${row.offset}`;
}

function columns(chosen: string, onChoose: (key: string) => void, down: boolean): CellColumn<Ranked>[] {
  return [
    { id: "found", label: "Time", text: (row) => dateTime(row.timestamp_ms, "utc"), order: (row) => (down ? -row.rank : row.rank), width: 118, cell: (row) => <Moment ms={row.timestamp_ms} /> },
    { id: "lane", label: "Lane", text: (row) => row.lane, width: 80, leave: "tablet" },
    { id: "place", label: "Partition", text: (row) => `${row.partition}`, order: (row) => row.partition, width: 90, align: "right", leave: "phone" },
    { id: "offset", label: "Offset", text: (row) => `${row.offset}`, order: (row) => row.offset, width: 100, align: "right", leave: "phone", cell: (row) => count(row.offset) },
    { id: "key", label: "Key", text: (row) => shownText(row.key_shown), width: 130, leave: "phone", cell: (row) => <Text shown={row.key_shown} bytes={row.key_bytes} /> },
    {
      id: "value",
      label: "Value",
      text: (row) => shownText(row.value_shown),
      cell: (row) => (
        <button type="button" className={`link${row.key === chosen ? " chosen" : ""}`} aria-expanded={row.key === chosen} onClick={() => onChoose(row.key)}>
          <span className="visually-hidden">{placeText(row)}: </span>
          <Text shown={row.value_shown} bytes={row.value_bytes} />
        </button>
      ),
    },
    { id: "size", label: "Size", text: (row) => (row.value_bytes < 0 ? "" : bytes(row.value_bytes)), order: (row) => row.value_bytes, align: "right", width: 84, leave: "tablet" },
    { id: "cluster", label: "Cluster", text: (row) => row.cluster, width: 90, leave: "tablet" },
  ];
}

function Text({ shown, bytes: size }: { shown: ShownBytes; bytes: number }): ReactElement {
  if (shown.form === "none") return <span className="faint">none</span>;
  if (size === 0) return <span className="faint">empty</span>;
  const why = [formWords(shown), shown.reason].filter(Boolean).join(": ");
  return (
    <bdi dir="ltr" className="mono" title={why || undefined}>
      {shownText(shown)}
    </bdi>
  );
}
