// Headers as people type them: one a line, `name: value`. Pure.

/** Pairs of names and values; a line without a colon is a name without a value. */
export function headersOf(text: string): [string, string][] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const colon = line.indexOf(":");
      return colon < 0 ? [line.trim(), ""] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    });
}
