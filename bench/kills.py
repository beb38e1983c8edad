"""What kills cost: failover, takeover beside a classic Kafka group, a planned move. `python -m bench.kills`.

One mesh, one load, rounds in rotated order, the first round discarded. Figures are wall time in milliseconds: here
waiting is the cost. The peer runs at the shortest session its broker allows by default.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.classic_takeover import classic_takeover
from bench.rounds import SELF_CHECK_TOLERANCE
from tests.e2e.chaos.faults import FAULTS
from tests.e2e.chaos.run import Report, play

PEER: Final = "classic group, member killed"
AGAIN: Final = "classic group, member killed again"
CLUSTER_KILLS_MAX: Final = 4  # a stream fails over by itself only so often in ten minutes
ROUND: Final = ("kill member", PEER, AGAIN, "move")
NAMES: Final = {
    "kill member": "member_killed_to_first_record_ms",
    PEER: "classic_ms",
    AGAIN: "classic_again_ms",
    "move": "planned_move_stall_ms",
    "kill cluster": "cluster_killed_to_first_ack_elsewhere_ms",
}


class Row(NamedTuple):
    """Medians over the rounds; `ratio` is the peer's time over its own, where there is a peer."""

    name: str
    median_ms: float
    low_ms: float
    high_ms: float
    rounds: int
    ratio: float | None


def decks(rounds: int) -> Iterator[Sequence[str]]:
    """The discarded round, then the rounds that count, turned back every other time."""
    for number in range(rounds + 1):
        deck = list(ROUND if number % 2 else reversed(ROUND))
        yield [*deck, "kill cluster"] if number < CLUSTER_KILLS_MAX else deck


def rows(report: Report) -> list[Row]:
    """The table of a run."""
    kept = {name: report.figures[figure][1:] for name, figure in NAMES.items()}
    return [_row(name, values, kept[PEER] if name in (PEER, AGAIN, "kill member") else None) for name, values in
            kept.items()]  # fmt: skip


def _row(name: str, values: Sequence[float], peer: Sequence[float] | None) -> Row:
    ratio = None
    if peer is not None:
        ratio = statistics.median(theirs / max(own, 1.0) for own, theirs in zip(values, peer, strict=True))
    return Row(name, statistics.median(values), min(values), max(values), len(values), ratio)


def show(found: Sequence[Row], report: Report, path: Path) -> bool:
    """Prints and writes the table; returns whether the run counts."""
    again = next(row.ratio for row in found if row.name == AGAIN)
    sound = not report.violations and again is not None and abs(again - 1) <= SELF_CHECK_TOLERANCE
    print(f"{'':36}{'median ms':>10}{'low':>8}{'high':>8}{'rounds':>8}{'ratio':>8}")
    for row in found:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        print(f"{row.name:36}{row.median_ms:10.0f}{row.low_ms:8.0f}{row.high_ms:8.0f}{row.rounds:8}{ratio:>8}")
    print("self-check", "passed" if sound else "FAILED: the run is void")
    machine = f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {"sound": sound, "machine": machine, "rows": [row._asdict() for row in found]}
    path.write_text(json.dumps(table, indent=1) + "\n")
    return sound


def main() -> int:
    """Runs the benchmark on a mesh of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    table = {**FAULTS, PEER: classic_takeover(NAMES[PEER]), AGAIN: classic_takeover(NAMES[AGAIN])}
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        report = asyncio.run(play(Path(directory) / "run", 1, decks(rounds), table=table))
    for violation in report.violations:
        print(violation)
    return 0 if show(rows(report), report, Path("build/bench/kills.json")) else 1


if __name__ == "__main__":
    sys.exit(main())
