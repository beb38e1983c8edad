// Tables and events as files and as Markdown. A spreadsheet must not run what a record's sender wrote.
import type { MeshEvent } from "../api/documents";
import { typeWords } from "../pages/event_words";
import { dateTime, type Zone } from "./times";

export interface ExportColumn<R> {
  readonly label: string;
  readonly text: (row: R) => string;
}

const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^-?[\d.,]+$/;

function cell(text: string): string {
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** RFC 4180, with a leading quote before anything that a spreadsheet would take for a formula. */
export function csv<R>(columns: readonly ExportColumn<R>[], rows: readonly R[]): string {
  const lines = rows.map((row) => columns.map((column) => cell(column.text(row))).join(","));
  return [columns.map((column) => cell(column.label)).join(","), ...lines].join("\r\n") + "\r\n";
}

/** Text of others in Markdown: on one line, and no markup. */
export function escaped(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>|]/g, "\\$&").replaceAll(/[\r\n]+/g, " ");
}

/** An incident's events as a Markdown list, oldest first. */
export function incidentTimeline(events: readonly MeshEvent[], zone: Zone): string {
  const sorted = [...events].sort((one, other) => one.time_ms - other.time_ms || one.sequence - other.sequence);
  const lines = sorted.map(
    (event) => `- **${dateTime(event.time_ms, zone)}** ${escaped(`${typeWords(event.type)} ${event.text}`.trim())} (${escaped(event.actor || event.service)})`,
  );
  return ["## Timeline", "", ...lines, ""].join("\n");
}

export function download(name: string, type: string, content: string): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(address), 1000);
}
