// A table for any number of rows: filter and sorting in the address, export, and only the rows in sight in the document.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, type ReactElement, type ReactNode } from "react";
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
const ROW_PIXELS = { compact: 30, roomy: 40 };

export interface CellColumn<R> extends Column<R> {
  readonly cell?: (row: R) => ReactNode;
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
}

export function Table<R extends Row>(props: TableProps<R>): ReactElement {
  const { name, rows, columns, prefix = "", bare = false } = props;
  const [address, change] = useAddress();
  const filter = address[`${prefix}q`] ?? "";
  const sorting = sortingOf(address[`${prefix}sort`] ?? props.sort);
  const shown = useMemo(
    () => sorted(filtered(rows, columns, filter), columns, sorting),
    [rows, columns, filter, sorting.id, sorting.down],
  );
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
            {shown.length === rows.length ? count(rows.length) : `${count(shown.length)} of ${count(rows.length)}`}
            {props.more ? ", more on the server: narrow the view" : ""}
          </span>
          <Exports name={name} rows={shown} columns={columns} />
        </div>
      )}
      {rows.length === 0 ? props.empty : <Grid {...props} rows={shown} sorting={sorting} sortBy={sortBy} />}
      {rows.length > 0 && shown.length === 0 ? <p className="note">Nothing matches “{filter}”.</p> : null}
    </div>
  );
}

function Exports<R extends Row>({ name, rows, columns }: { name: string; rows: readonly R[]; columns: readonly Column<R>[] }): ReactElement {
  const file = name.replaceAll(/\W+/g, "-");
  return (
    <span className="exports">
      <button type="button" className="small" aria-label={`Export ${name} as CSV`} onClick={() => download(`${file}.csv`, "text/csv", csv(columns, rows))}>
        CSV
      </button>
      <button type="button" className="small" aria-label={`Export ${name} as JSON`} onClick={() => download(`${file}.json`, "application/json", JSON.stringify(rows, null, 2))}>
        JSON
      </button>
    </span>
  );
}

interface GridProps<R extends Row> extends TableProps<R> {
  sorting: Sorting;
  sortBy: (id: string) => void;
}

function Grid<R extends Row>({ name, rows, columns, sorting, sortBy, greyed, staleColumns = [] }: GridProps<R>): ReactElement {
  const scroll = useRef<HTMLDivElement>(null);
  const height = ROW_PIXELS[usePreferences().density];
  const printing = usePrinting();
  const whole = printing || rows.length <= WHOLE_ROWS_MAX;
  const virtual = useVirtualizer({
    count: whole ? 0 : rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => height,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const seen = whole ? rows.slice(0, PRINTED_ROWS_MAX) : rows.slice(first, (items.at(-1)?.index ?? -1) + 1);
  const above = items[0]?.start ?? 0;
  const below = whole ? 0 : virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div className={`table-scroll${whole ? "" : " long"}`} ref={scroll} tabIndex={0} role="region" aria-label={`${name} table`}>
      <table aria-rowcount={rows.length + 1} aria-label={name}>
        <Widths columns={columns} />
        <Head columns={columns} sorting={sorting} sortBy={sortBy} />
        <tbody>
          <Spacer pixels={above} />
          {seen.map((row, place) => (
            <tr key={row.key} aria-rowindex={first + place + 2} className={greyed?.(row) ? "stale" : ""}>
              {columns.map((column) => (
                <td key={column.id} className={`${classes(column)}${staleColumns.includes(column.id) ? " stale" : ""}`} title={column.text(row).slice(0, 300)}>
                  {column.cell ? column.cell(row) : column.text(row)}
                </td>
              ))}
            </tr>
          ))}
          <Spacer pixels={below} />
        </tbody>
      </table>
      {whole && rows.length > seen.length ? <p className="note">{count(rows.length - seen.length)} more rows: export the table.</p> : null}
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

/** One cell: one that spans columns would bring those back that a narrow screen leaves out. */
function Spacer({ pixels }: { pixels: number }): ReactElement | null {
  if (pixels <= 0) return null;
  return (
    <tr aria-hidden="true" className="spacer">
      <td style={{ height: pixels }} />
    </tr>
  );
}
