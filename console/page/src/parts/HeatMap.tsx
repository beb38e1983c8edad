// Members by partitions. The table of leases below it says the same to a screen reader.
import type { ReactElement } from "react";
import { count, epochText } from "../format/numbers";
import { duration } from "../format/times";
import { BOUNDS, laneLabel, type Heat, type HeatCell, type HeatMatrix, type HeatRow } from "./heat";

const LABEL = 150;
const LOAD = 46;
const CELL = 16;
const TOP = 22;

export function heatText(value: number, heat: Heat): string {
  return heat === "records" ? count(value) : duration(value);
}

interface HeatMapProps {
  matrix: HeatMatrix;
  heat: Heat;
  chosen: string;
  onChoose: (lease: string) => void;
}

export function HeatMap({ matrix, heat, chosen, onChoose }: HeatMapProps): ReactElement {
  const width = LABEL + LOAD + matrix.columns * CELL + 8;
  const height = TOP + matrix.rows.length * CELL + 6;
  const hottest = Math.max(0, ...matrix.rows.flatMap((row) => row.cells.map((cell) => cell.value)));
  const label = `${matrix.rows.length} rows of members, ${matrix.columns} partitions, the most is ${heatText(hottest, heat)}`;
  return (
    <div className="heat-scroll" tabIndex={0} role="region" aria-label="Heat map of members and partitions">
      <svg className="heat" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        {matrix.lanes.map((lane, place) => (
          <text key={lane.at} className="heat-lane" x={LABEL + LOAD + lane.at * CELL} y={12}>
            <title>{lane.name}</title>
            {laneLabel(lane.name, ((matrix.lanes[place + 1]?.at ?? matrix.columns) - lane.at) * CELL)}
          </text>
        ))}
        {matrix.rows.map((row, place) => (
          <Line key={row.id} row={row} y={TOP + place * CELL} columns={matrix.columns} heat={heat} chosen={chosen} onChoose={onChoose} />
        ))}
      </svg>
    </div>
  );
}

function Line(props: { row: HeatRow; y: number; columns: number; heat: Heat; chosen: string; onChoose: (lease: string) => void }): ReactElement {
  const { row, y, columns, heat, chosen, onChoose } = props;
  const load = row.member?.relative_load;
  const bad = row.id === "" || row.member?.state === "awaited";
  return (
    <g>
      <text className={`heat-member${bad ? " tone-bad" : ""}`} x={LABEL - 8} y={y + CELL - 4} textAnchor="end">
        <title>{row.label}</title>
        {row.label.length > 22 ? `…${row.label.slice(-21)}` : row.label}
      </text>
      {load === undefined ? null : <Load load={load} y={y} />}
      <rect className="heat-track" x={LABEL + LOAD} y={y} width={columns * CELL} height={CELL - 1} />
      {row.cells.map((cell) => (
        <Cell key={cell.lease.name} cell={cell} y={y} heat={heat} chosen={cell.lease.name === chosen} onChoose={onChoose} />
      ))}
    </g>
  );
}

/** A member's load beside the mean of its group, which is the tick in the middle. */
function Load({ load, y }: { load: number; y: number }): ReactElement {
  const width = LOAD - 8;
  return (
    <g>
      <title>{`Load: ${load.toFixed(2)} times the mean`}</title>
      <rect className="lag-track" x={LABEL} y={y + 5} width={width} height={CELL - 11} rx={2} />
      <rect className={load > 1.25 ? "load-high" : "lag-fill"} x={LABEL} y={y + 5} width={Math.min(width, (width / 2) * load)} height={CELL - 11} rx={2} />
      <line className="load-mean" x1={LABEL + width / 2} x2={LABEL + width / 2} y1={y + 3} y2={y + CELL - 4} />
    </g>
  );
}

function Cell(props: { cell: HeatCell; y: number; heat: Heat; chosen: boolean; onChoose: (lease: string) => void }): ReactElement {
  const { cell, y, heat, chosen, onChoose } = props;
  const stale = cell.lag?.stale ?? false;
  const moving = cell.lease.state === "revoking";
  return (
    <g className={`heat-cell${stale ? " stale" : ""}${chosen ? " chosen" : ""}`} onClick={() => onChoose(cell.lease.name)}>
      <title>{`${cell.lease.name} on ${cell.lease.cluster}: ${heatText(cell.value, heat)}${stale ? ", stale" : ""}, epoch ${epochText(cell.lease.epoch)}, ${cell.lease.state}`}</title>
      <rect className={`heat-${cell.level}`} x={LABEL + LOAD + cell.column * CELL} y={y} width={CELL - 1} height={CELL - 1} rx={2} />
      {moving ? <path className="heat-moving" d={`M${LABEL + LOAD + cell.column * CELL + 3} ${y + CELL - 4}l8 -8`} /> : null}
    </g>
  );
}

export function HeatLegend({ heat }: { heat: Heat }): ReactElement {
  const bounds = BOUNDS[heat];
  return (
    <span className="heat-legend">
      {[0, 1, 2, 3, 4].map((level) => (
        <span key={level}>
          <svg width="12" height="12" aria-hidden="true">
            <rect className={`heat-${level}`} width="12" height="12" rx="2" />
          </svg>
          {level < 4 ? `≤ ${heatText(bounds[level] ?? 0, heat)}` : `> ${heatText(bounds[3] ?? 0, heat)}`}
        </span>
      ))}
    </span>
  );
}
