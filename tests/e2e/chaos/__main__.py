"""`python -m tests.e2e.chaos --minutes 60 [--seed 7]`: deck after deck of faults until the time is over.

Prints what it does, writes `build/chaos/`, and exits with 1 when an invariant did not hold.
"""

import argparse
import asyncio
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.chaos.catalogue import FAULTS
from tests.e2e.chaos.plan import deck
from tests.e2e.chaos.run import play
from tests.e2e.chaos.timeline import write_report

BUILD = Path(__file__).resolve().parents[3] / "build" / "chaos"


def decks(seed: int, minutes: float, brokers: int = 1) -> Iterator[Sequence[str]]:
    """At least one deck, then more while there is time."""
    end = time.monotonic() + minutes * 60
    while True:
        yield deck(seed, brokers=brokers)
        seed += 1
        if time.monotonic() > end:
            return


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3), help="of two of the three clusters")
    parser.add_argument("--fault", action="append", default=[], choices=FAULTS, help="play only these, in this order")
    parser.add_argument("--smoke", action="store_true", help="play the deck of this seed that `make test` plays")
    arguments = parser.parse_args()
    seed = arguments.seed
    if arguments.fault or arguments.smoke:
        played = iter([arguments.fault or deck(seed, whole=False, brokers=arguments.brokers)])
    else:
        played = decks(seed, arguments.minutes, arguments.brokers)
    say = functools.partial(print, flush=True)
    report = asyncio.run(play(BUILD / "run", seed, played, say, brokers=arguments.brokers))
    print(report.to_json())
    print(write_report(report, BUILD))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
