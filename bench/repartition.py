"""The cost of changing the number of partitions of a live stream: `python -m bench.repartition` (`--units` times).

A mesh of two real clusters under a load of 20,000 records a second; the stream grows from 4 partitions to 16 and
shrinks to 4 again, on the cluster where it is. Wall time: until the new channel carries all of it, until the old one is
drained, and the longest time between two acknowledgements of any one producer meanwhile; beside it, in as long, without
a change. Nothing may be lost, nothing lie twice, no application see an error.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench.harness.arguments import Asked, asked
from bench.harness.loaded_stream import LOAD, Fate, LoadedStream, Resized, gap_ms, taken_over_ms, two_clusters
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN, percentile
from testbed.patience import Deadline

TIMES: Final = 5  # to and fro each
SIZES: Final = (4, 16)
AROUND_SECONDS: Final = 2.0  # from the order on, at least
WARM_SECONDS: Final = 5.0
CALM: Final = "no change, longest pause in 2 s"


class Change(NamedTuple):
    """One change: between which numbers of partitions, and what it took.

    Attributes:
        calm: An instant from which on nothing happened for `AROUND_SECONDS`.
        drained_ms: From the order until the old channel was drained.
        ended: An instant by which all of that had happened.
    """

    name: str
    calm: float
    resized: Resized
    drained_ms: float
    ended: float


def carries(name: str) -> str:
    """The row until the new channel carries all."""
    return f"{name}, the new channel carries all"


def drained(name: str) -> str:
    """The row until the old channel is drained."""
    return f"{name}, the old channel is drained"


def pause(name: str) -> str:
    """The row of the longest pause."""
    return f"{name}, longest pause of a producer"


async def change(stream: LoadedStream, size: int, before: int) -> Change:
    """Gives a stream so many partitions, once it rests."""
    await stream.at_rest()
    calm = time.monotonic()
    await asyncio.sleep(AROUND_SECONDS)
    resized = await stream.resize(size)
    await asyncio.sleep(AROUND_SECONDS)
    took = await stream.drained_ms(resized)
    return Change(f"{before} to {size}", calm, resized, took, time.monotonic())


async def play(times: int) -> tuple[dict[str, list[float]], Fate]:
    """Changes a stream to and fro, the first time for nothing. Returns milliseconds by row, and what became of all."""
    changes: list[Change] = []
    async with two_clusters() as (local, mesh, directory):
        stream = LoadedStream(local, mesh, "bench", directory, SIZES[0])
        async with stream.running():
            await asyncio.sleep(WARM_SECONDS)
            for number in range(times + 1):
                for before, size in (SIZES, SIZES[::-1]):
                    changes.append(await change(stream, size, before))
                    told = f"{changes[-1].name}, drained after {changes[-1].drained_ms:.0f} ms"
                    print(f"{told}: {number} of {times} are played", file=sys.stderr, flush=True)
            await stream.at_rest()
    print(*stream.troubles[:5], sep="\n", file=sys.stderr)
    return measured(stream, changes[len(SIZES) :]), stream.fate()


def measured(stream: LoadedStream, changes: Sequence[Change]) -> dict[str, list[float]]:
    """Milliseconds by row."""
    found: dict[str, list[float]] = {}
    for each in changes:
        at = each.resized.at
        for name, ms in (
            (carries(each.name), taken_over_ms(stream.ledgers, each.resized.generation, at)),
            (drained(each.name), each.drained_ms),
            (pause(each.name), gap_ms(stream.ledgers, at, each.ended)),
            (CALM, gap_ms(stream.ledgers, each.calm, each.calm + AROUND_SECONDS)),
        ):
            found.setdefault(name, []).append(ms)
    return found


def table(found: Mapping[str, Sequence[float]], fate: Fate, share: float) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    samples = {name: [Sample(1, 0.0, max(ms, 0.1) / 1e3) for ms in taken] for name, taken in found.items()}
    told = {
        name: f"p50 {percentile(taken, 0.5):.0f} ms, worst {max(taken):.0f} ms of {len(taken)}"
        for name, taken in found.items()
    }
    facts = {
        "work": f"two clusters, {SIZES[0]} and {SIZES[1]} partitions, {LOAD}; the machine gave {share:.0%} of its time",
        "aim": "seconds, 0 lost, 0 repeated",
        "fate": str(fate),
        **told,
    }
    void = "" if share >= SHARE_MIN else f"void: the machine gave {share:.0%} of its time"
    if fate.lost or fate.repeated or fate.troubles:
        void = f"void: {fate}"
    return Table("repartition", "change", "wall", void, facts, rows(samples, "", "wall", samples), made_with())


def main() -> int:
    """Runs the benchmark on a mesh of its own; 1 when the table is void."""
    how: Asked = asked(__doc__, units=TIMES, quick_units=1)
    deadline = Deadline(1.0)
    made = table(*asyncio.run(play(how.units)), deadline.share)
    made.publish(how.directory)
    return int(bool(made.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
