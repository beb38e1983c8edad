// The layout of a stream's diagram: lanes as rows, clusters as columns, channels in the cells. Pure.
import type { Channel, Cluster } from "../api/documents";

export const SIZES = { lane: 110, column: 216, gap: 40, chip: 58, chipGap: 8, top: 56, pad: 16 };

export interface Placed {
  channel: Channel;
  x: number;
  y: number;
  width: number;
  /** Its share of the lane's traffic, from 0 to 1. */
  share: number;
}

export interface Flow {
  key: string;
  path: string;
  share: number;
}

export interface Diagram {
  width: number;
  height: number;
  lanes: { name: string; y: number; height: number }[];
  columns: { name: string; x: number; cluster: Cluster | undefined }[];
  chips: Placed[];
  flows: Flow[];
}

/** Channels whose topic is gone are left out; so are drained ones, unless asked for. */
export function shownChannels(channels: readonly Channel[], drained: boolean): Channel[] {
  return channels.filter((channel) => channel.state !== "retired" && (drained || channel.state !== "drained"));
}

function lanesInOrder(channels: readonly Channel[], declared: readonly string[]): string[] {
  const names = new Set([...declared, ...channels.map((channel) => channel.lane)]);
  return [...names].sort((one, other) => Number(one === "dlq") - Number(other === "dlq") || one.localeCompare(other));
}

export function layOut(channels: readonly Channel[], declared: readonly string[], clusters: readonly Cluster[], preferred: readonly string[]): Diagram {
  const names = [...new Set([...preferred, ...clusters.map((cluster) => cluster.name).sort(), ...channels.map((channel) => channel.cluster)])];
  const columns = names.map((name, place) => ({
    name,
    x: SIZES.lane + SIZES.gap + place * (SIZES.column + SIZES.gap),
    cluster: clusters.find((cluster) => cluster.name === name),
  }));
  const diagram: Diagram = { width: 0, height: 0, lanes: [], columns, chips: [], flows: [] };
  let y = SIZES.top;
  for (const lane of lanesInOrder(channels, declared)) {
    const placed = columns.flatMap((column) => chipsOf(channels, lane, column, y));
    const depth = Math.max(1, ...columns.map((column) => placed.filter((chip) => chip.channel.cluster === column.name).length));
    const height = depth * (SIZES.chip + SIZES.chipGap) - SIZES.chipGap + 2 * SIZES.pad;
    diagram.lanes.push({ name: lane, y, height });
    diagram.chips.push(...placed);
    diagram.flows.push(...flowsOf(lane, placed, y + height / 2, y + 6));
    y += height + SIZES.pad;
  }
  diagram.width = SIZES.lane + SIZES.gap + columns.length * (SIZES.column + SIZES.gap);
  diagram.height = y;
  return diagram;
}

function chipsOf(channels: readonly Channel[], lane: string, column: Diagram["columns"][number], top: number): Placed[] {
  const total = channels.filter((channel) => channel.lane === lane && channel.state === "active").reduce((sum, channel) => sum + channel.weight, 0);
  return channels
    .filter((channel) => channel.lane === lane && channel.cluster === column.name)
    .sort((one, other) => other.generation - one.generation)
    .map((channel, place) => ({
      channel,
      x: column.x + 6,
      y: top + SIZES.pad + place * (SIZES.chip + SIZES.chipGap),
      width: SIZES.column - 12,
      share: channel.state === "active" && total > 0 ? channel.weight / total : 0,
    }));
}

/** A flow keeps its key while the lane's traffic goes elsewhere, so its line bends over instead of jumping. */
function flowsOf(lane: string, placed: readonly Placed[], from: number, above: number): Flow[] {
  const active = placed.filter((chip) => chip.share > 0).sort((one, other) => other.share - one.share);
  return active.map((chip, place) => {
    const to = chip.y + SIZES.chip / 2;
    const begin = SIZES.lane;
    // Over the chips of the columns before; straight to the first column.
    const near = chip.x - begin < 2 * SIZES.gap;
    const out = near ? (begin + chip.x) / 2 : begin + SIZES.gap;
    const end = near ? out : chip.x - SIZES.gap;
    const over = near ? (from + to) / 2 : above + place * 3;
    const [half, last] = [(begin + out) / 2, (end + chip.x) / 2];
    return { key: `${lane} ${place}`, share: chip.share, path: `M${begin} ${from} C${half} ${from} ${half} ${over} ${out} ${over} L${end} ${over} C${last} ${over} ${last} ${to} ${chip.x} ${to}` };
  });
}
