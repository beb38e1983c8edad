"""`make bench AGAINST=COMMIT`: what is ours plays beside itself as it was at another commit, in turns.

Machines are slower in one minute than in the next, by more than a change of ours makes: tables of two runs cannot be
compared. Here both checkouts play within the same seconds, in processes of their own on one core, a broker on the
other; a ratio is the older cost over the newer in the same round. Contestants that one of the two has not are left out.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from bench import commit, consume, produce
from bench.harness.broker import broker, cores
from bench.harness.contest import tell_round
from bench.harness.rounds import ROUNDS_MIN, Sample, order, rows
from bench.harness.tables import DIRECTORY, Table, made_with

ROOT: Final = Path(__file__).parents[1]
CHECKOUTS: Final = ROOT / "build" / "against"
CHILD: Final = Path(__file__).parent / "harness" / "against_child.py"
NOW: Final = "now"


class Plan(NamedTuple):
    """How a benchmark is played here.

    Attributes:
        unit: What cost is per.
        arguments: Of its `Contest`, behind the broker's address where there is one.
        prepare: Fills a broker; None where none is needed.
    """

    unit: str
    arguments: Sequence[int]
    prepare: Callable[[str], Awaitable[None]] | None = None


PLANS: Final[Mapping[str, Plan]] = {
    "consume": Plan("record", (600_000,), lambda bootstrap: consume.prepare(bootstrap, 600_000)),
    "produce": Plan("record", (60_000,), produce.prepare),
    "commit": Plan("request", (64, 300), commit.prepare),
    "envelope": Plan("commit", (20, 1_000_000)),
    "lag_decode": Plan("commit", (200_000,)),
    "lag_scale": Plan("row", (5_000,)),
    "lag_looks": Plan("row", (5_000,)),
    "acks": Plan("ack", (300_000,)),
    "placement": Plan("partition", (10_000,)),
}


class Side:
    """One checkout that plays a benchmark, in a process of its own. A context."""

    def __init__(self, root: Path, python: Path, name: str, arguments: Sequence[object]) -> None:
        """`python` is the interpreter with that checkout's packages."""
        command = [str(python), str(CHILD), name, json.dumps(arguments)]
        self._process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.contestants: Sequence[str] = json.loads(self._line())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._process:
            self._process.terminate()

    def play(self, contestant: str) -> Sample:
        """One round of one contestant."""
        assert self._process.stdin is not None, "a pipe"
        print(json.dumps(contestant), file=self._process.stdin, flush=True)
        return Sample(*json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None, "a pipe"
        line = self._process.stdout.readline()
        if not line:
            with self._process:
                ended = self._process.wait()
            raise SystemExit(f"a benchmark's process ended with {ended}; what it said is above")
        return line


def play(sides: Mapping[str, Side], rounds: int) -> dict[str, list[Sample]]:
    """Every contestant that all sides have plays once a round on each; the first round is discarded.

    Returns:
        Samples by `<contestant>, <side>`; empty if no contestant is known on every side.
    """
    first, *others = (side.contestants for side in sides.values())
    known = [each for each in first if all(each in other for other in others)]
    samples: dict[str, list[Sample]] = {f"{name}, {side}": [] for name in known for side in sides}
    if not known:
        return {}
    for number in range(rounds + 1):
        for at, name in enumerate(known):
            for side in order(list(sides), number + at):
                sample = sides[side].play(name)
                if number:
                    samples[f"{name}, {side}"].append(sample)
        tell_round(number, rounds)
    return samples


def table(name: str, unit: str, then: str, samples: Mapping[str, Sequence[Sample]]) -> Table:
    """Each contestant of `play`, as it was and as it is."""
    found = []
    for key in samples:
        if key.endswith(f", {NOW}"):
            before = f"{key.removesuffix(NOW)}{then}"
            found += rows({before: samples[before], key: samples[key]}, before, "cpu")
    facts = {"work": f"both checkouts in turns; {cores()}", "peer": f"Braid at {then}"}
    return Table(f"{name}-against-{then}", unit, "cpu", "", facts, found, made_with())


@contextlib.contextmanager
def _ground(plan: Plan) -> Iterator[Sequence[object]]:
    """Where a benchmark plays; gives the arguments of its `Contest`."""
    if plan.prepare is None:
        available = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(available)})
        try:
            yield plan.arguments
        finally:
            os.sched_setaffinity(0, available)
        return
    with broker() as serving:
        asyncio.run(_awaited(plan.prepare(serving.bootstrap)))
        yield (serving.bootstrap, *plan.arguments)


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _checkout(name: str) -> tuple[str, Path]:
    """The short name of a commit, and a checkout of it that is set up; made once.

    Raises:
        SystemExit: there is no such commit, or it cannot be set up.
    """
    asked = ["git", "rev-parse", "--short", "--verify", "--quiet", f"{name}^{{commit}}"]
    short = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    if not short:
        raise SystemExit(f"{name!r} is no commit; name one that `git log` shows")
    directory = CHECKOUTS / short
    if not directory.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, directory], check=True)
        subprocess.run(["git", "checkout", "--quiet", short], cwd=directory, check=True)
    if subprocess.run(["make", "setup"], cwd=directory, check=False).returncode:
        raise SystemExit(f"{directory} cannot be set up; what `make setup` said is above")
    return short, directory


def main(arguments: list[str] | None = None) -> int:
    """Plays, and publishes a table a benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what is compared with, as git names it")
    parser.add_argument("--only", action="append", choices=PLANS, help="play this one; may be given again")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN, help="after a discarded first (default: %(default)s)")
    told = parser.parse_args(arguments)
    then, directory = _checkout(told.commit)
    roots = {then: directory, NOW: ROOT}
    for name in told.only or PLANS:
        plan = PLANS[name]
        with _ground(plan) as given, contextlib.ExitStack() as stack:
            sides = {
                side: stack.enter_context(Side(root, root / ".venv" / "bin" / "python", name, given))
                for side, root in roots.items()
            }
            if samples := play(sides, told.rounds):
                table(name, plan.unit, then, samples).publish(DIRECTORY)
            else:
                print(f"{name}: {then} and {NOW} have no contestant in common", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
