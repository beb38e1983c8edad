"""The command-line arguments that every benchmark accepts."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.harness.rounds import ROUNDS_MIN
from bench.harness.tables import DIRECTORY


class Asked(NamedTuple):
    """The requested way to run a benchmark.

    Attributes:
        quick: Only show that it runs: few units, two rounds, nothing to quote.
        rounds: That count, after the discarded first.
        units: Records or requests a contestant does in a round.
        directory: Where tables go.
    """

    quick: bool
    rounds: int
    units: int
    directory: Path


def asked(doc: str | None, units: int, quick_units: int, arguments: Sequence[str] | None = None) -> Asked:
    """Reads the command line.

    Args:
        doc: What the benchmark does.
        units: A round, unless something else is asked for.
        quick_units: With `--quick`.
        arguments: None for the process's own.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only show that it runs; the numbers mean nothing")
    parser.add_argument("--rounds", type=int, help=f"after a discarded first (default: {ROUNDS_MIN}; quick: 1)")
    parser.add_argument("--units", type=int, help=f"a round (default: {units:,}; quick: {quick_units:,})")
    parser.add_argument("--into", type=Path, help=f"directory of the tables (default: {DIRECTORY}; quick: …/quick)")
    told = parser.parse_args(arguments)
    return Asked(
        told.quick,
        told.rounds or (1 if told.quick else ROUNDS_MIN),
        told.units or (quick_units if told.quick else units),
        told.into or (DIRECTORY / "quick" if told.quick else DIRECTORY),
    )
