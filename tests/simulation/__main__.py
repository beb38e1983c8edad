"""`python -m tests.simulation --seed n` repeats one run and prints it; `--seeds n` runs many, on two processes.

`--digests` prints a digest of each trace: a change that is to alter no behaviour leaves them as they were.
"""

import argparse
import gc
import hashlib
import os
import sys
import time
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context

from tests.simulation.losing_plans import PLANS
from tests.simulation.playing import play
from tests.simulation.run import Result

TAIL_LINES = 25
PROCESSES = 2
SECONDS_DEFAULT = 60.0
FAULTS = "faults: "  # begins the line that says how many of each kind were made


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # else sets would iterate otherwise in every process
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], environment)
    arguments = _arguments()
    if arguments.seed is not None:
        return _one(arguments.seed, arguments.seconds, arguments.plan)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    gc.freeze()  # modules stay: each collection would look at all of them
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("fork")) as pool:
        return (_digests if arguments.digests else _many)(pool, seeds, arguments.seconds, arguments.plan)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat this run and print its trace")
    parser.add_argument("--seeds", type=int, default=200, help="run so many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="on so many processes")
    parser.add_argument("--seconds", type=float, default=SECONDS_DEFAULT, help="simulated seconds with faults")
    parser.add_argument("--digests", action="store_true", help="print only a digest of each seed's trace, and its cost")
    parser.add_argument(
        "--plan", choices=sorted(PLANS), default="", help="a plan with a length of its own, not the usual"
    )
    return parser.parse_args()


def _one(seed: int, seconds: float, plan: str) -> int:
    result = play(seed, seconds, plan)
    print("\n".join(result.trace))
    print(_verdict(result))
    return 0 if result.green else 1


def _digests(pool: Executor, seeds: range, seconds: float, plan: str) -> int:
    for result in pool.map(play, seeds, repeat(seconds), repeat(plan)):
        told = "\n".join([*result.trace, _verdict(result)])
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        print(f"seed {result.seed}: {digest} in {result.cpu_seconds:.2f} s of CPU time", flush=True)
    return 0


def _many(pool: Executor, seeds: range, seconds: float, plan: str) -> int:
    red = 0
    simulated, computed, began, faults = 0.0, 0.0, time.monotonic(), Counter[str]()
    for result in pool.map(play, seeds, repeat(seconds), repeat(plan), repeat(TAIL_LINES)):
        simulated += result.simulated_seconds
        computed += result.cpu_seconds
        faults += Counter(result.faults)
        if not result.green:
            red += 1
            print("\n".join(result.trace[-TAIL_LINES:]))
            print(_verdict(result))
            length = f" --seconds {seconds:g}" if seconds != SECONDS_DEFAULT else ""
            length += f" --plan {plan}" if plan else ""
            chosen = f" PLAN={plan}" if plan else ""
            command = f"python -m tests.simulation --seed {result.seed}{length}"
            print(f"repeat: make sim SEED={result.seed}{chosen}  ({command})")
            sys.stdout.flush()
    wall = time.monotonic() - began
    print(f"{FAULTS}{', '.join(f'{kind} {count}' for kind, count in sorted(faults.items()))}")
    print(f"{len(seeds)} seeds, {red} red; {simulated:.0f} simulated seconds in {wall:.1f} s: {simulated / wall:.0f}x")
    print(f"{computed:.1f} s of CPU time, {computed / len(seeds):.2f} a seed: {simulated / computed:.0f}x on each core")
    return 1 if red else 0


def _verdict(result: Result) -> str:
    if result.green:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(result.counts.items()))
        return f"seed {result.seed}: green after {result.simulated_seconds:.3f} simulated seconds; {counts}"
    return f"seed {result.seed}: RED, {result.invariant}: {result.message}"


if __name__ == "__main__":
    sys.exit(main())
