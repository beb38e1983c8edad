"""`python -m tests.e2e.chaos --minutes 60 [--seed 7]`: deck after deck of faults until the time is over.

`--slice 1a2b3c4d` plays the part of the catalogue that `make test` plays at the commit of that hash. Prints what it
does, writes `build/chaos/`, and exits with 1 when an invariant did not hold.
"""

import argparse
import asyncio
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.chaos.catalogue import FAULTS
from tests.e2e.chaos.commit import seed_from
from tests.e2e.chaos.plan import GROUNDS, Ground, deck, slice_of
from tests.e2e.chaos.run import play
from tests.e2e.chaos.timeline import write_report

BUILD = Path(__file__).resolve().parents[3] / "build" / "chaos"


def decks(seed: int, minutes: float, ground: Ground) -> Iterator[Sequence[str]]:
    """At least one deck, then more while there is time."""
    end = time.monotonic() + minutes * 60
    while True:
        yield deck(seed, ground)
        seed += 1
        if time.monotonic() > end:
            return


def chosen(arguments: argparse.Namespace) -> tuple[int, Ground, Iterator[Sequence[str]]]:
    """The seed, the mesh and the decks that the command line asks for."""
    if arguments.slice:
        seed = seed_from(arguments.slice)
        ground, faults = slice_of(seed)
        return seed, ground, iter([faults])
    (ground,) = (each for each in GROUNDS if each.name == arguments.ground)
    if arguments.fault:
        return arguments.seed, ground, iter([arguments.fault])
    return arguments.seed, ground, decks(arguments.seed, arguments.minutes, ground)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    grounds = [each.name for each in GROUNDS]
    parser.add_argument("--ground", default=grounds[0], choices=grounds, help="the mesh to play on")
    parser.add_argument("--fault", action="append", default=[], choices=FAULTS, help="play only these, in this order")
    parser.add_argument("--slice", default="", help="play the slice of a commit's hash, given with 8 digits or more")
    seed, ground, played = chosen(parser.parse_args())
    say = functools.partial(print, flush=True)
    report = asyncio.run(play(BUILD / "run", seed, played, say, ground=ground))
    print(report.to_json())
    print(write_report(report, BUILD))
    for name, why in report.not_played.items():
        print(f"NOT PLAYED {name}: {why}")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
