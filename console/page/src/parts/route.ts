// The layout of a stream's diagram. Pure.
//
// On a wide screen lanes are rows, clusters are columns, and channels are in the cells. On a narrow one clusters stand above, and
// each lane has its channels below it.
import type { Channel, Cluster } from "../api/documents";

export const SIZES = { lane: 110, laneBox: 36, column: 216, gap: 40, chip: 58, chipGap: 8, top: 56, pad: 16 };
/** Of the narrow diagram, whose drawing is scaled to the screen. */
const STACKED = { width: 344, lane: 32, cluster: 46, gap: 8, indent: 36, first: 10, next: 7, bend: 12 };

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

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Diagram {
  width: number;
  height: number;
  /** Whether channels are in no column, and have to name their cluster. */
  stacked: boolean;
  lanes: (Box & { name: string })[];
  columns: (Box & { name: string; cluster: Cluster | undefined })[];
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

export function layOut(channels: readonly Channel[], declared: readonly string[], clusters: readonly Cluster[], preferred: readonly string[], narrow = false): Diagram {
  const names = [...new Set([...preferred, ...clusters.map((cluster) => cluster.name).sort(), ...channels.map((channel) => channel.cluster)])];
  const found = names.map((name) => ({ name, cluster: clusters.find((cluster) => cluster.name === name) }));
  const lanes = lanesInOrder(channels, declared);
  return narrow ? stacked(channels, lanes, found) : across(channels, lanes, found);
}

type Found = readonly { name: string; cluster: Cluster | undefined }[];

/** The share of each channel of a lane in its traffic. */
function sharesOf(channels: readonly Channel[]): (channel: Channel) => number {
  const total = channels.filter((channel) => channel.state === "active").reduce((sum, channel) => sum + channel.weight, 0);
  return (channel) => (channel.state === "active" && total > 0 ? channel.weight / total : 0);
}

function newestFirst(channels: readonly Channel[], lane: string, cluster: string): Channel[] {
  return channels.filter((channel) => channel.lane === lane && channel.cluster === cluster).sort((one, other) => other.generation - one.generation);
}

function byShare(placed: readonly Placed[]): Placed[] {
  return placed.filter((chip) => chip.share > 0).sort((one, other) => other.share - one.share);
}

function across(channels: readonly Channel[], lanes: readonly string[], clusters: Found): Diagram {
  const columns = clusters.map((each, place) => ({ ...each, x: SIZES.lane + SIZES.gap + place * (SIZES.column + SIZES.gap), y: 0, width: SIZES.column, height: 0 }));
  const diagram: Diagram = { width: 0, height: 0, stacked: false, lanes: [], columns, chips: [], flows: [] };
  let y = SIZES.top;
  for (const name of lanes) {
    const share = sharesOf(channels.filter((channel) => channel.lane === name));
    const cells = columns.map((column) =>
      newestFirst(channels, name, column.name).map((channel, place) => ({
        channel,
        x: column.x + 6,
        y: y + SIZES.pad + place * (SIZES.chip + SIZES.chipGap),
        width: SIZES.column - 12,
        share: share(channel),
      })),
    );
    const depth = Math.max(1, ...cells.map((chips) => chips.length));
    const height = depth * (SIZES.chip + SIZES.chipGap) - SIZES.chipGap + 2 * SIZES.pad;
    diagram.lanes.push({ name, x: 0, y: y + (height - SIZES.laneBox) / 2, width: SIZES.lane, height: SIZES.laneBox });
    diagram.chips.push(...cells.flat());
    diagram.flows.push(...flowsAcross(name, cells.flat(), y + height / 2, y + 6));
    y += height + SIZES.pad;
  }
  diagram.width = SIZES.lane + SIZES.gap + columns.length * (SIZES.column + SIZES.gap);
  diagram.height = y;
  for (const column of columns) column.height = y;
  return diagram;
}

/** A flow keeps its key while the lane's traffic goes elsewhere, so its line bends over instead of jumping. */
function flowsAcross(lane: string, placed: readonly Placed[], from: number, above: number): Flow[] {
  return byShare(placed).map((chip, place) => {
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

function stacked(channels: readonly Channel[], lanes: readonly string[], clusters: Found): Diagram {
  const half = (STACKED.width - STACKED.gap) / 2;
  const columns = clusters.map((each, place) => ({
    ...each,
    x: (place % 2) * (half + STACKED.gap),
    y: Math.floor(place / 2) * (STACKED.cluster + STACKED.gap),
    width: half,
    height: STACKED.cluster,
  }));
  const diagram: Diagram = { width: STACKED.width, height: 0, stacked: true, lanes: [], columns, chips: [], flows: [] };
  let y = Math.ceil(columns.length / 2) * (STACKED.cluster + STACKED.gap) + STACKED.gap;
  for (const name of lanes) {
    const share = sharesOf(channels.filter((channel) => channel.lane === name));
    const below = y + STACKED.lane + SIZES.chipGap;
    const chips = clusters
      .flatMap((cluster) => newestFirst(channels, name, cluster.name))
      .map((channel, place) => ({
        channel,
        x: STACKED.indent,
        y: below + place * (SIZES.chip + SIZES.chipGap),
        width: STACKED.width - STACKED.indent,
        share: share(channel),
      }));
    diagram.lanes.push({ name, x: 0, y, width: STACKED.width, height: STACKED.lane });
    diagram.chips.push(...chips);
    diagram.flows.push(...flowsDown(name, chips, y + STACKED.lane));
    y = below + chips.length * (SIZES.chip + SIZES.chipGap) + SIZES.chipGap;
  }
  diagram.height = y;
  return diagram;
}

/** From a lane down its left side, and round a corner into the channel. */
function flowsDown(lane: string, placed: readonly Placed[], from: number): Flow[] {
  return byShare(placed).map((chip, place) => {
    const x = STACKED.first + Math.min(place, 2) * STACKED.next;
    const to = chip.y + SIZES.chip / 2;
    return { key: `${lane} ${place}`, share: chip.share, path: `M${x} ${from} L${x} ${to - STACKED.bend} Q${x} ${to} ${x + STACKED.bend} ${to} L${chip.x} ${to}` };
  });
}
