"""The cost of a planned move for producers: `python -m bench.moves` (`--units` moves).

A mesh of two real clusters under a load of 20,000 records a second; its stream is moved to and fro. Wall time: the
longest time between two acknowledgements of any one producer around a move, and, to compare, in as long without one.
Nothing may be lost, nothing lie twice, no application see an error. The applications have frozen what they loaded, as
one that minds pauses does: else full garbage collections are what is measured, with a move as without one.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench.harness.arguments import Asked, asked
from bench.harness.loaded_stream import WORK, Fate, LoadedStream, gap_ms, two_clusters
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN, percentile
from testbed.patience import Deadline

MOVES: Final = 30
AROUND_SECONDS: Final = 2.0  # from the order on
WARM_SECONDS: Final = 5.0
AIM_MS: Final = 100.0
MOVED: Final = "planned move, longest pause"
CALM: Final = "no move, longest pause in as long"


async def play(moves: int) -> tuple[dict[str, list[float]], Fate]:
    """Moves a stream so often, the first time for nothing. Returns milliseconds by name, and what became of it all."""
    began: dict[str, list[float]] = {MOVED: [], CALM: []}
    async with two_clusters() as (local, mesh, directory):
        stream = LoadedStream(local, mesh, "bench", directory)
        async with stream.running():
            await asyncio.sleep(WARM_SECONDS)
            for number in range(moves + 1):
                await stream.at_rest()
                calm = time.monotonic()
                await asyncio.sleep(AROUND_SECONDS)
                source = stream.carrier()
                moved = await stream.move()
                await asyncio.sleep(AROUND_SECONDS)
                await stream.left(source)
                if number:
                    began[CALM].append(calm)
                    began[MOVED].append(moved)
                    print(f"move {number} of {moves} is played", file=sys.stderr, flush=True)
            await stream.at_rest()
    found = {
        name: [gap_ms(stream.ledgers, each, each + AROUND_SECONDS) for each in instants]
        for name, instants in began.items()
    }
    print(*stream.troubles[:5], sep="\n", file=sys.stderr)
    return found, stream.fate()


def table(found: Mapping[str, Sequence[float]], fate: Fate, share: float) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    samples = {name: [Sample(1, 0.0, max(ms, 0.1) / 1e3) for ms in taken] for name, taken in found.items()}
    told = {
        name: f"p50 {percentile(taken, 0.5):.0f} ms, p99 {percentile(taken, 0.99):.0f} ms of {len(taken)}"
        for name, taken in found.items()
    }
    facts = {
        "work": f"{WORK}; the machine gave {share:.0%} of its time",
        "aim": f"p99 <= {AIM_MS:g} ms, 0 lost, 0 repeated",
        "fate": str(fate),
        **told,
    }
    void = "" if share >= SHARE_MIN else f"void: the machine gave {share:.0%} of its time"
    if fate.lost or fate.repeated or fate.troubles:
        void = f"void: {fate}"
    return Table("moves", "move", "wall", void, facts, rows(samples, MOVED, "wall", samples), made_with())


def main() -> int:
    """Runs the benchmark on a mesh of its own; 1 when the table is void."""
    how: Asked = asked(__doc__, units=MOVES, quick_units=2)
    deadline = Deadline(1.0)
    made = table(*asyncio.run(play(how.units)), deadline.share)
    made.publish(how.directory)
    return int(bool(made.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
