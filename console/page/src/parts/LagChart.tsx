// Lag over time, a line for each lane. The chart library is loaded when the first chart is shown.
import { useEffect, useRef, useState, type ReactElement } from "react";
import type uPlot from "uplot";
import type { LagHistory, LagStep } from "../api/documents";
import { duration, zoneName, type Zone } from "../format/times";
import { usePreferences } from "../state/preferences";
import { usePrinting } from "../state/printing";

const HEIGHT = 220;

export type Measure = "lag_seconds" | "lag_records" | "rates";

interface Line {
  label: string;
  points: Map<number, number>;
}

function pointsOf(steps: readonly LagStep[], read: (step: LagStep) => number | undefined): Map<number, number> {
  const points = new Map<number, number>();
  for (const step of steps) {
    const found = read(step);
    if (found !== undefined) points.set(step.time_ms / 1000, found);
  }
  return points;
}

export function linesOf(histories: readonly LagHistory[], measure: Measure): Line[] {
  return histories.flatMap((history) => {
    const name = `${history.stream}/${history.lane}`;
    if (measure === "rates") {
      return [
        { label: `${name} produced`, points: pointsOf(history.steps, (step) => step.produced_per_s) },
        { label: `${name} done`, points: pointsOf(history.steps, (step) => step.done_per_s) },
      ];
    }
    return [{ label: name, points: pointsOf(history.steps, (step) => (measure === "lag_seconds" ? (step.max_lag_seconds ?? step.lag_seconds) : step.lag_records)) }];
  });
}

/** Returns columns as the chart takes them. A time without a step stays absent: nothing is interpolated. */
export function columnsOf(lines: readonly Line[]): [number[], ...(number | null)[][]] {
  const times = [...new Set(lines.flatMap((line) => [...line.points.keys()]))].sort((one, other) => one - other);
  const step = times.reduce((least, time, place) => (place === 0 ? least : Math.min(least, time - (times[place - 1] ?? 0))), Infinity);
  const filled: number[] = [];
  for (const time of times) {
    const before = filled.at(-1);
    if (before !== undefined && time - before > step * 1.5) filled.push(before + step);
    filled.push(time);
  }
  return [filled, ...lines.map((line) => filled.map((time) => line.points.get(time) ?? null))];
}

function shown(value: number, measure: Measure): string {
  if (measure === "lag_seconds") return duration(value);
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value) + (measure === "rates" ? "/s" : "");
}

/** What the chart shows, in words. */
export function summary(lines: readonly Line[], measure: Measure): string {
  const parts = lines.map((line) => {
    const values = [...line.points.values()];
    const last = values.at(-1);
    return last === undefined ? `${line.label}: nothing known` : `${line.label}: now ${shown(last, measure)}, most ${shown(Math.max(...values), measure)}`;
  });
  return parts.join("; ");
}

/** What the legend says: the value under the pointer, or else the last that is known. */
function legend(plot: uPlot, value: number | null, series: number, measure: Measure): string {
  const pointed = plot.cursor.idx !== null && plot.cursor.idx !== undefined;
  const known = plot.data[series] as (number | null | undefined)[] | undefined;
  const told = pointed ? value : known?.findLast((each) => each !== null && each !== undefined);
  return told === null || told === undefined ? "unknown" : shown(told, measure);
}

function colours(element: HTMLElement): { line: string; grid: string; text: string; series: string[] } {
  const style = getComputedStyle(element);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    line: read("--line"),
    grid: read("--grid"),
    text: read("--muted"),
    series: [1, 2, 3, 4, 5, 6].map((number) => read(`--series-${number}`)),
  };
}

/** Round distances between the ticks of a duration. */
const SECONDS = [0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400, 172_800, 604_800];

const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

function optionsOf(element: HTMLElement, lines: readonly Line[], measure: Measure, zone: Zone, library: typeof uPlot): uPlot.Options {
  const { grid, text, series } = colours(element);
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui" };
  const many = series.length;
  const dateOf = (seconds: number): Date => (zone === "utc" ? library.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000));
  return {
    width: Math.max(280, element.clientWidth),
    height: HEIGHT,
    tzDate: dateOf,
    cursor: { points: { size: 6 }, drag: { x: true, y: false } },
    legend: { live: true },
    axes: [
      { ...axis, values: (_plot, splits, _axis, _space, step) => splits.map((at) => library.fmtDate(step < 60 ? "{HH}:{mm}:{ss}" : "{HH}:{mm}")(dateOf(at))) },
      { ...axis, size: 64, ...(measure === "lag_seconds" ? { incrs: SECONDS } : {}), values: (_plot, values) => values.map((value) => shown(value, measure)) },
    ],
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)] } },
    series: [
      { label: zoneName(Date.now(), zone), value: (_plot, seconds: number | null) => (seconds === null ? "latest" : library.fmtDate("{HH}:{mm}:{ss}")(dateOf(seconds))) },
      ...lines.map((line, place) => ({
        label: line.label,
        stroke: series[place % many] ?? text,
        width: 1.5,
        dash: DASHES[Math.floor(place / many) % DASHES.length] ?? [],
        points: { show: false },
        value: (plot: uPlot, value: number | null, at: number) => legend(plot, value, at, measure),
      })),
    ],
  };
}

function useTheme(): string {
  const { theme } = usePreferences();
  const [dark, setDark] = useState(() => window.matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    const changed = (): void => setDark(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  const printing = usePrinting();
  if (printing) return "paper";
  return theme === "system" ? (dark ? "dark" : "light") : theme;
}

export function LagChart({ histories, measure }: { histories: readonly LagHistory[]; measure: Measure }): ReactElement {
  const frame = useRef<HTMLDivElement>(null);
  const [library, setLibrary] = useState<typeof uPlot | null>(null);
  const { zone } = usePreferences();
  const theme = useTheme();
  const lines = linesOf(histories, measure);
  const latest = useRef(lines);
  latest.current = lines;
  const plot = useRef<uPlot | null>(null);
  const shape = lines.map((line) => line.label).join("\n");
  useEffect(() => {
    void import("./uplot").then((module) => setLibrary(() => module.default));
  }, []);
  useEffect(() => {
    const element = frame.current;
    if (element === null || library === null) return undefined;
    const made = new library(optionsOf(element, latest.current, measure, zone, library), columnsOf(latest.current), element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: Math.max(280, element.clientWidth), height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current = null;
      made.destroy();
    };
  }, [library, shape, measure, zone, theme]);
  useEffect(() => plot.current?.setData(columnsOf(latest.current)), [histories]);
  return <div ref={frame} className="chart" role="img" aria-label={`Chart. ${summary(lines, measure)}`} />;
}
