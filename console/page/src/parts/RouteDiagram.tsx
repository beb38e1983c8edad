// A stream over its clusters: where each lane's traffic goes now, and what still drains. It moves when the route does.
import { useNavigate } from "@tanstack/react-router";
import type { CSSProperties, ReactElement } from "react";
import type { Channel } from "../api/documents";
import { counted, percent } from "../format/numbers";
import { age } from "../format/times";
import { SIZES, type Diagram, type Placed } from "./route";
import { Shape, toneOf } from "./State";

export function stateOf(channel: Channel): string {
  return channel.stranded ? "stranded" : channel.state;
}

/** What a draining channel waits for, in words. */
export function drainText(channel: Channel): string {
  const holders = channel.drain_holders.length === 0 ? "" : `: ${channel.drain_holders.slice(0, 2).join(", ")}${channel.drain_holders.length > 2 ? ` and ${channel.drain_holders.length - 2} more` : ""}`;
  return `waits for ${channel.drain_step.replaceAll("_", " ") || "its turn"}${holders}`;
}

function words(diagram: Diagram): string {
  return diagram.chips
    .filter((chip) => chip.share > 0 || chip.channel.state === "draining")
    .map((chip) => `lane ${chip.channel.lane} ${stateOf(chip.channel)} on ${chip.channel.cluster}${chip.share > 0 ? ` with ${percent(chip.share)}` : ""}`)
    .join("; ");
}

export function RouteDiagram({ diagram, now_ms }: { diagram: Diagram; now_ms: number }): ReactElement {
  const { width, height, stacked } = diagram;
  const around = stacked ? {} : { tabIndex: 0, role: "region", "aria-label": "Diagram of lanes over clusters" };
  const size = stacked ? {} : { width, height };
  return (
    <div className={`route-scroll${stacked ? " stacked" : ""}`} {...around}>
      <svg className="route" {...size} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Route: ${words(diagram)}`}>
        {diagram.columns.map((column) => (
          <Column key={column.name} column={column} />
        ))}
        {diagram.lanes.map((lane) => (
          <g key={lane.name}>
            <rect className="route-lane" x={lane.x} y={lane.y} width={lane.width} height={lane.height} rx={6} />
            <text className="route-lane-name" x={12} y={lane.y + lane.height / 2 + 4}>
              {fitted(lane.name, lane.width - 24)}
              <title>{lane.name}</title>
            </text>
          </g>
        ))}
        {diagram.flows.map((flow) => (
          <path key={flow.key} className="route-flow" d={flow.path} style={{ d: `path("${flow.path}")`, strokeWidth: 2 + 8 * flow.share } as CSSProperties} />
        ))}
        {diagram.chips.map((chip) => (
          <Chip key={chip.channel.name} chip={chip} named={stacked} now_ms={now_ms} />
        ))}
      </svg>
    </div>
  );
}

/** The beginning of a text that fits into a width in pixels. Letters of this size are at most seven pixels wide on average. */
function fitted(text: string, pixels: number): string {
  const most = Math.max(4, Math.floor(pixels / 6.6));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function Column({ column }: { column: Diagram["columns"][number] }): ReactElement {
  const navigate = useNavigate();
  const health = column.cluster?.status.health ?? "unknown";
  const tone = column.cluster ? toneOf(health) : "idle";
  const cordoned = column.cluster?.status.cordoned ? ", cordoned" : "";
  const state = `${health.replaceAll("_", " ")}${cordoned}${column.cluster?.spec.zone ? `, zone ${column.cluster.spec.zone}` : ""}`;
  return (
    <g className={`route-column tone-${tone}`} onClick={() => void navigate({ to: "/clusters/$name", params: { name: column.name } })}>
      <title>{`${column.name}: ${state}`}</title>
      <rect className="route-cluster" x={column.x} y={column.y} width={column.width} height={column.height} rx={8} />
      <text className="route-cluster-name" x={column.x + 12} y={column.y + 20}>
        {fitted(column.name, column.width - 24)}
      </text>
      <svg x={column.x + 12} y={column.y + 28} width={11} height={11} className="tone-mark">
        <Shape tone={tone} />
      </svg>
      <text className="route-cluster-state" x={column.x + 28} y={column.y + 38}>
        {fitted(state, column.width - 32)}
      </text>
    </g>
  );
}

/** `named`: it says on which cluster it is, which no column shows. */
function Chip({ chip, named, now_ms }: { chip: Placed; named: boolean; now_ms: number }): ReactElement {
  const { channel } = chip;
  const state = stateOf(channel);
  const tone = toneOf(state);
  const since = `gen ${channel.generation} · ${age(channel.state_since_ms, now_ms)}`;
  const second =
    channel.state === "draining"
      ? drainText(channel)
      : channel.state === "active"
        ? `${percent(chip.share)} of the lane, ${counted(channel.partitions, "partition")}`
        : counted(channel.partitions, "partition");
  return (
    <g className={`chip tone-${tone}`} style={{ transform: `translate(${chip.x}px, ${chip.y}px)` }}>
      <title>{`${channel.name} on ${channel.cluster}, topic ${channel.topic}: ${state}, ${second}`}</title>
      <rect className="chip-box" width={chip.width} height={SIZES.chip} rx={6} />
      <rect className="chip-edge" width={4} height={SIZES.chip} rx={2} />
      <svg x={14} y={12} width={11} height={11} className="tone-mark">
        <Shape tone={tone} />
      </svg>
      <text className="chip-state" x={30} y={22}>
        {named ? fitted(`${state} on ${channel.cluster}`, chip.width - 46 - 7 * since.length) : state}
      </text>
      <text className="chip-age" x={chip.width - 10} y={22} textAnchor="end">
        {since}
      </text>
      <text className="chip-more" x={14} y={43}>
        {fitted(second, chip.width + 10)}
      </text>
    </g>
  );
}
