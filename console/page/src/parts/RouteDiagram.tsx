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
  const { width, height } = diagram;
  return (
    <div className="route-scroll" tabIndex={0} role="region" aria-label="Diagram of lanes over clusters">
      <svg className="route" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Route: ${words(diagram)}`}>
        {diagram.columns.map((column) => (
          <Column key={column.name} column={column} height={height} />
        ))}
        {diagram.lanes.map((lane) => (
          <g key={lane.name}>
            <rect className="route-lane" x={0} y={lane.y + lane.height / 2 - 18} width={SIZES.lane} height={36} rx={6} />
            <text className="route-lane-name" x={12} y={lane.y + lane.height / 2 + 4}>
              {lane.name.length > 13 ? `${lane.name.slice(0, 12)}…` : lane.name}
              <title>{lane.name}</title>
            </text>
          </g>
        ))}
        {diagram.flows.map((flow) => (
          <path key={flow.key} className="route-flow" d={flow.path} style={{ d: `path("${flow.path}")`, strokeWidth: 2 + 8 * flow.share } as CSSProperties} />
        ))}
        {diagram.chips.map((chip) => (
          <Chip key={chip.channel.name} chip={chip} now_ms={now_ms} />
        ))}
      </svg>
    </div>
  );
}

function Column({ column, height }: { column: Diagram["columns"][number]; height: number }): ReactElement {
  const navigate = useNavigate();
  const health = column.cluster?.status.health ?? "unknown";
  const tone = column.cluster ? toneOf(health) : "idle";
  const cordoned = column.cluster?.status.cordoned ? ", cordoned" : "";
  return (
    <g className={`route-column tone-${tone}`} onClick={() => void navigate({ to: "/clusters/$name", params: { name: column.name } })}>
      <rect className="route-cluster" x={column.x} y={0} width={SIZES.column} height={height} rx={8} />
      <text className="route-cluster-name" x={column.x + 12} y={20}>
        {column.name}
      </text>
      <svg x={column.x + 12} y={28} width={11} height={11} className="tone-mark">
        <Shape tone={tone} />
      </svg>
      <text className="route-cluster-state" x={column.x + 28} y={38}>
        {health.replaceAll("_", " ")}
        {cordoned}
        {column.cluster?.spec.zone ? `, zone ${column.cluster.spec.zone}` : ""}
      </text>
    </g>
  );
}

function Chip({ chip, now_ms }: { chip: Placed; now_ms: number }): ReactElement {
  const { channel } = chip;
  const state = stateOf(channel);
  const tone = toneOf(state);
  const second =
    channel.state === "draining"
      ? drainText(channel)
      : channel.state === "active"
        ? `${percent(chip.share)} of the lane, ${counted(channel.partitions, "partition")}`
        : counted(channel.partitions, "partition");
  const short = second.length > 32 ? `${second.slice(0, 31)}…` : second;
  return (
    <g className={`chip tone-${tone}`} style={{ transform: `translate(${chip.x}px, ${chip.y}px)` }}>
      <title>{`${channel.name} on ${channel.cluster}, topic ${channel.topic}: ${state}, ${second}`}</title>
      <rect className="chip-box" width={chip.width} height={SIZES.chip} rx={6} />
      <rect className="chip-edge" width={4} height={SIZES.chip} rx={2} />
      <svg x={14} y={12} width={11} height={11} className="tone-mark">
        <Shape tone={tone} />
      </svg>
      <text className="chip-state" x={30} y={22}>
        {state}
      </text>
      <text className="chip-age" x={chip.width - 10} y={22} textAnchor="end">
        gen {channel.generation} · {age(channel.state_since_ms, now_ms)}
      </text>
      <text className="chip-more" x={14} y={43}>
        {short}
      </text>
    </g>
  );
}
