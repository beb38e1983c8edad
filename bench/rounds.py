"""How contestants are measured beside each other: rotated rounds, CPU seconds, ratios with their spread."""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

SELF_CHECK_TOLERANCE: Final = 0.05

Contestant = Callable[[], Awaitable[int]]


class Row(NamedTuple):
    """One contestant's result: medians over the rounds; `ratio` is the peer's CPU per record over its own."""

    name: str
    records_per_cpu_second: float
    micros_per_record: float
    wall_seconds: float
    ratio: float
    low: float
    high: float


async def play(contestants: Mapping[str, Contestant], peer: str, rounds: int) -> list[Row]:
    """Runs every contestant once a round, in an order that turns back every other round; the first is discarded."""
    micros: dict[str, list[float]] = {name: [] for name in contestants}
    walls: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds + 1):
        for name in names if number % 2 else reversed(names):
            cpu, wall = time.process_time(), time.perf_counter()
            records = await contestants[name]()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if number:
                micros[name].append(cpu / records * 1e6)
                walls[name].append(wall)
            await asyncio.sleep(0.05)
    return [_row(name, micros[name], micros[peer], walls[name]) for name in names]


def _row(name: str, own: Sequence[float], peer: Sequence[float], walls: Sequence[float]) -> Row:
    ratios = sorted(theirs / ours for ours, theirs in zip(own, peer, strict=True))
    median = statistics.median(own)
    return Row(name, 1e6 / median, median, statistics.median(walls), statistics.median(ratios), ratios[0], ratios[-1])


def report(rows: Sequence[Row], self_check: str, facts: Mapping[str, object], path: Path) -> bool:
    """Prints the table and writes it as JSON; returns whether the self-check row is within its tolerance."""
    sound = abs(next(row for row in rows if row.name == self_check).ratio - 1) <= SELF_CHECK_TOLERANCE
    print(*(f"{name}: {value}" for name, value in facts.items()), sep="\n")
    print(f"{'':34}{'records/CPU-s':>14}{'µs/record':>11}{'wall s':>8}{'ratio':>7}  spread")
    for row in rows:
        print(
            f"{row.name:34}{row.records_per_cpu_second:14,.0f}{row.micros_per_record:11.2f}{row.wall_seconds:8.2f}"
            f"{row.ratio:7.2f}  {row.low:.2f} to {row.high:.2f}"
        )
    print("self-check", "passed" if sound else "FAILED: the run is void")
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {"sound": sound, "facts": dict(facts), "rows": [row._asdict() for row in rows]}
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return sound
