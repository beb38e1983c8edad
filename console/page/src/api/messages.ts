// Records of streams as the console's server sends them, and where they are asked for.
import { query } from "./calls";
import type { Row } from "./documents";

export interface ShownBytes {
  form: "none" | "text" | "json" | "hex" | "avro" | "protobuf";
  text: string;
  cut: boolean;
  reason: string;
  schema: string;
}

export interface MessageRow extends Row {
  channel: string;
  lane: string;
  cluster: string;
  partition: number;
  offset: number;
  timestamp_ms: number;
  ingested_at_ms: number;
  id: string;
  trace_id: string;
  key_bytes: number;
  value_bytes: number;
  header_count: number;
  key_shown: ShownBytes;
  value_shown: ShownBytes;
}

export interface MessageHeader extends ShownBytes {
  name: string;
  bytes: number;
}

export interface MessageInFull extends MessageRow {
  topic: string;
  timestamp_type: string;
  headers: MessageHeader[];
  key_hex: string;
  value_hex: string;
  shown_bytes: number;
  cli: string;
  trace_link: string;
}

export interface Absent {
  cluster: string;
  partition?: string;
  reason: string;
  remedy: string;
}

export interface Damaged {
  partition: string;
  cluster: string;
  first_offset: number;
  last_offset: number;
  reason: string;
}

export interface MessagesAnswer {
  rows: MessageRow[];
  now_ms: number;
  partitions: number;
  looked_at: { records: number; bytes: number; ms: number };
  ended_by: "rows" | "end" | "bytes" | "records" | "time";
  positions: Record<string, number>;
  more: boolean;
  absent: Absent[];
  damaged: Damaged[];
  cli: string;
  trace_link: string;
}

/** The address of one record, in full or as a download; `key` is a row's. */
export function recordAddress(what: "record" | "download", key: string, form = ""): string {
  const [place = "", offset = ""] = key.split("@");
  const parts = place.split("/");
  const partition = parts.pop() ?? "";
  const params = query({ channel: parts.join("/"), partition, offset, form });
  return `/api/messages/${encodeURIComponent(parts[0] ?? "")}/${what}${params}`;
}
