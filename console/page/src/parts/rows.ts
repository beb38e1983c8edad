// Filtering and sorting of a table's rows. Pure, and quick enough for 45,000 rows a second.

export interface Column<R> {
  readonly id: string;
  readonly label: string;
  /** As text: what filters, exports and copies see. */
  readonly text: (row: R) => string;
  /** By what rows are sorted, where it is not the text. */
  readonly order?: (row: R) => number | string;
  readonly align?: "right";
  /** In pixels; the columns without share what is left. */
  readonly width?: number;
  /** Left out on narrower screens: `tablet` below 900 pixels, `phone` below 600. */
  readonly leave?: "tablet" | "phone";
}

export interface Sorting {
  readonly id: string;
  readonly down: boolean;
}

/** Reads `lag` or `-lag`, as it stands in the address. */
export function sortingOf(text: string): Sorting {
  return text.startsWith("-") ? { id: text.slice(1), down: true } : { id: text, down: false };
}

export function sortingText(sorting: Sorting): string {
  return `${sorting.down ? "-" : ""}${sorting.id}`;
}

/** Keeps rows in which every word of the filter occurs in some column, whatever its case. */
export function filtered<R>(rows: readonly R[], columns: readonly Column<R>[], filter: string): readonly R[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = columns.map((column) => column.text(row)).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function compare(one: number | string, other: number | string): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  const [left, right] = [String(one), String(other)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Sorts by a column; rows that are equal in it are sorted by their key, so that nothing jumps at an update. */
export function sorted<R extends { key: string }>(rows: readonly R[], columns: readonly Column<R>[], sorting: Sorting): readonly R[] {
  const column = columns.find((each) => each.id === sorting.id);
  const order = column ? (column.order ?? column.text) : (row: R) => row.key;
  const sign = sorting.down ? -1 : 1;
  return rows
    .map((row) => ({ row, by: order(row) }))
    .sort((one, other) => sign * compare(one.by, other.by) || compare(one.row.key, other.row.key))
    .map((each) => each.row);
}
