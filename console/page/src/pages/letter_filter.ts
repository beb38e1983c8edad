// The filter that finds the dead letters of one error and handler. Pure.
import type { LetterKind } from "../api/documents";

const PLAIN = /^[\w.-]+$/;

/** A value that the filter's grammar cannot take bare is quoted. */
export function quoted(text: string): string {
  return PLAIN.test(text) ? text : `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

export function kindFilter(kind: Pick<LetterKind, "error_class" | "group" | "lane">): string {
  const parts = [
    kind.error_class ? `error=${quoted(kind.error_class)}` : "",
    kind.group ? `group=${quoted(kind.group)}` : "",
    kind.lane ? `lane=${quoted(kind.lane)}` : "",
  ];
  return parts.filter(Boolean).join(" and ");
}
