"""Calls every RPC of the four services with what a hostile caller may send: `python -m tests.simulation.fuzzing`.

Prints the coverage of each method and the seed of each round; `--seed N --rounds 1` repeats one. It ends with a code
other than 0 when a call broke a promise. Broken promises are an answer that a program failed, a logged error, no
answer, a history that is another one when it is read again, and memory that grows.
"""

import argparse
import sys
import time
from typing import Final

from tests.simulation.fuzzing.coverage import Coverage
from tests.simulation.fuzzing.play import play

CALLS: Final = 600
SHOWN_MAX: Final = 20


def main() -> int:
    """Plays rounds until the time is over; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=sys.maxsize)
    parser.add_argument("--calls", type=int, default=CALLS, help="of one round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one has the next")
    asked = parser.parse_args()
    coverage, faults, until = Coverage(), 0, time.monotonic() + asked.minutes * 60
    for seed in range(asked.seed, asked.seed + min(asked.rounds, sys.maxsize - asked.seed)):
        if time.monotonic() >= until:
            break
        played = play(seed, asked.calls, coverage)
        seconds, method, _ = played.slowest
        grown = f"memory {played.grown_bytes / (1 << 20):+.0f} MiB"
        print(f"seed {seed}: {len(played.faults)} faults; {grown}; slowest {method}, {seconds:.3f} s of processor time")
        for fault in played.faults[: max(0, SHOWN_MAX - faults)]:
            print(fault)
        faults += len(played.faults)
    print(coverage.table())
    for name, fields in coverage.unvisited().items():
        print(f"never set: {name}: {', '.join(sorted(fields))}")
    print(f"{coverage.calls} calls, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
