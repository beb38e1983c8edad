// A table for any number of rows: filter and sorting in the address, export, and only the rows in sight in the document.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, type ReactElement, type ReactNode } from "react";
import type { Row } from "../api/documents";
import { csv, download } from "../format/exports";
import { count } from "../format/numbers";
import { useAddress } from "../state/search";
import { usePreferences } from "../state/preferences";
import { usePrinting } from "../state/printing";
import { filtered, sorted, sortingOf, sortingText, type Column, type Sorting } from "./rows";

/** Tables with more rows than this scroll by themselves. */
const WHOLE_ROWS_MAX = 60;
/** Rows of a table on paper; a file of all of them says more than a hundred pages. */
const PRINTED_ROWS_MAX = 2_000;
/** Milliseconds without scrolling after which rows are read: rows that pass by are not. */
const RESTS_AFTER_MS = 120;
const ROW_PIXELS = { compact: 30, roomy: 40 };

export interface CellColumn<R> extends Column<R> {
  readonly cell?: (row: R) => ReactNode;
}

/** A table of which the server sorts and keeps most: `rows` are those from `first` on. */
export interface Remote<R> {
  readonly first: number;
  readonly matched: number;
  readonly total: number;
  /** Asks for rows around an index. */
  readonly want: (index: number) => void;
  /** All rows that match, for a file. */
  readonly whole: () => Promise<readonly R[]>;
}

interface TableProps<R extends Row> {
  name: string;
  rows: readonly R[];
  columns: readonly CellColumn<R>[];
  sort: string;
  empty: ReactElement;
  /** Names of the two parameters in the address, where a page has several tables. */
  prefix?: string;
  more?: boolean;
  greyed?: (row: R) => boolean;
  /** Columns whose values are the last known. */
  staleColumns?: readonly string[];
  tools?: ReactNode;
  bare?: boolean;
  remote?: Remote<R> | undefined;
}

export function Table<R extends Row>(props: TableProps<R>): ReactElement {
  const { name, rows, columns, prefix = "", bare = false, remote } = props;
  const [address, change] = useAddress();
  const filter = address[`${prefix}q`] ?? "";
  const sorting = sortingOf(address[`${prefix}sort`] ?? props.sort);
  const shown = useMemo(
    () => (remote ? rows : sorted(filtered(rows, columns, filter), columns, sorting)),
    [rows, columns, filter, sorting.id, sorting.down, remote === undefined],
  );
  const [matched, total] = remote ? [remote.matched, remote.total] : [shown.length, rows.length];
  const sortBy = (id: string): void => {
    const next: Sorting = sorting.id === id ? { id, down: !sorting.down } : { id, down: columns.find((each) => each.id === id)?.align === "right" };
    change({ [`${prefix}sort`]: sortingText(next) });
  };
  return (
    <div className="table-frame">
      {bare ? null : (
        <div className="table-tools">
          <input
            type="search"
            className="filter"
            placeholder={`Filter ${name}`}
            aria-label={`Filter ${name}`}
            value={filter}
            onChange={(event) => change({ [`${prefix}q`]: event.target.value })}
          />
          {props.tools}
          <span className="faint table-count" role="status">
            {matched === total ? count(total) : `${count(matched)} of ${count(total)}`}
            {props.more ? ", more on the server: narrow the view" : ""}
          </span>
          <Exports name={name} rows={remote ? remote.whole : () => Promise.resolve(shown)} columns={columns} />
        </div>
      )}
      {total === 0 ? props.empty : <Grid {...props} rows={shown} sorting={sorting} sortBy={sortBy} />}
      {total > 0 && matched === 0 ? <p className="note">Nothing matches “{filter}”.</p> : null}
    </div>
  );
}

function Exports<R extends Row>({ name, rows, columns }: { name: string; rows: () => Promise<readonly R[]>; columns: readonly Column<R>[] }): ReactElement {
  const file = name.replaceAll(/\W+/g, "-");
  const asCsv = async (): Promise<void> => download(`${file}.csv`, "text/csv", csv(columns, await rows()));
  const asJson = async (): Promise<void> => download(`${file}.json`, "application/json", JSON.stringify(await rows(), null, 2));
  return (
    <span className="exports">
      <button type="button" className="small" aria-label={`Export ${name} as CSV`} onClick={() => void asCsv()}>
        CSV
      </button>
      <button type="button" className="small" aria-label={`Export ${name} as JSON`} onClick={() => void asJson()}>
        JSON
      </button>
    </span>
  );
}

interface GridProps<R extends Row> extends TableProps<R> {
  sorting: Sorting;
  sortBy: (id: string) => void;
}

/** The row at an index of the whole table; none where the server has yet to send it. */
function rowAt<R>(rows: readonly R[], remote: Remote<R> | undefined, index: number): R | undefined {
  return rows[index - (remote?.first ?? 0)];
}

/** Asks for rows around what is in sight, once scrolling rests, where the server has yet to send some of them. */
function useWanted<R>(rows: readonly R[], remote: Remote<R> | undefined, first: number, last: number): void {
  const want = remote?.want;
  const missing = remote !== undefined && last >= first && (rowAt(rows, remote, first) === undefined || rowAt(rows, remote, last) === undefined);
  useEffect(() => {
    if (!missing || want === undefined) return;
    const timer = setTimeout(() => want(Math.floor((first + last) / 2)), RESTS_AFTER_MS);
    return () => clearTimeout(timer);
  }, [missing, first, last, want]);
}

function Grid<R extends Row>({ name, rows, columns, sorting, sortBy, greyed, staleColumns = [], remote }: GridProps<R>): ReactElement {
  const scroll = useRef<HTMLDivElement>(null);
  const height = ROW_PIXELS[usePreferences().density];
  const printing = usePrinting();
  const all = remote?.matched ?? rows.length;
  const whole = printing || all <= WHOLE_ROWS_MAX;
  const virtual = useVirtualizer({
    count: whole ? 0 : all,
    getScrollElement: () => scroll.current,
    estimateSize: () => height,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? -1;
  useWanted(rows, remote, first, last);
  const seen = whole ? rows.slice(0, PRINTED_ROWS_MAX) : Array.from({ length: last + 1 - first }, (_, place) => rowAt(rows, remote, first + place));
  const above = items[0]?.start ?? 0;
  const below = whole ? 0 : virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div className={`table-scroll${whole ? "" : " long"}`} ref={scroll} tabIndex={0} role="region" aria-label={`${name} table`}>
      <table aria-rowcount={all + 1} aria-label={name}>
        <Widths columns={columns} />
        <Head columns={columns} sorting={sorting} sortBy={sortBy} />
        <tbody>
          <Spacer pixels={above} />
          {seen.map((row, place) =>
            row === undefined ? (
              <Coming key={first + place} index={first + place} />
            ) : (
              <tr key={row.key} aria-rowindex={first + place + 2} className={greyed?.(row) ? "stale" : ""}>
                {columns.map((column) => (
                  <td key={column.id} className={`${classes(column)}${staleColumns.includes(column.id) ? " stale" : ""}`} title={column.text(row).slice(0, 300)}>
                    {column.cell ? column.cell(row) : column.text(row)}
                  </td>
                ))}
              </tr>
            ),
          )}
          <Spacer pixels={below} />
        </tbody>
      </table>
      {whole && all > seen.length ? <p className="note">{count(all - seen.length)} more rows: export the table.</p> : null}
    </div>
  );
}

function classes<R>(column: Column<R>): string {
  return [column.align ?? "", column.leave ? `leave-${column.leave}` : ""].join(" ").trim();
}

function Widths<R>({ columns }: { columns: readonly Column<R>[] }): ReactElement {
  return (
    <colgroup>
      {columns.map((column) => (
        <col key={column.id} className={classes(column)} style={column.width ? { width: column.width } : {}} />
      ))}
    </colgroup>
  );
}

function Head<R>({ columns, sorting, sortBy }: { columns: readonly Column<R>[]; sorting: Sorting; sortBy: (id: string) => void }): ReactElement {
  return (
    <thead>
      <tr aria-rowindex={1}>
        {columns.map((column) => {
          const here = sorting.id === column.id;
          return (
            <th key={column.id} scope="col" className={classes(column)} aria-sort={here ? (sorting.down ? "descending" : "ascending") : "none"}>
              {column.label === "" ? (
                <span className="visually-hidden">Actions</span>
              ) : (
                <button type="button" className="sorter" onClick={() => sortBy(column.id)}>
                  {column.label}
                  <span aria-hidden="true" className="sort-mark">
                    {here ? (sorting.down ? "▾" : "▴") : ""}
                  </span>
                </button>
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

/** A row that the server has yet to send; one cell, as a spacer has. */
function Coming({ index }: { index: number }): ReactElement {
  return (
    <tr aria-rowindex={index + 2} className="coming">
      <td className="faint">…</td>
    </tr>
  );
}

/** One cell: one that spans columns would bring those back that a narrow screen leaves out. */
function Spacer({ pixels }: { pixels: number }): ReactElement | null {
  if (pixels <= 0) return null;
  return (
    <tr aria-hidden="true" className="spacer">
      <td style={{ height: pixels }} />
    </tr>
  );
}
