"""Acknowledging, in the progress tracker alone: `python -m bench.acks`.

Vectorised acknowledgements are those of batches of 5,000: all of them, or a random half and then the other. One by one
they are those of offsets, in the order of delivery and in any other, and those of records with all that a consumer does
about one. The peer is a plain set of offsets under which a low-water mark rises, as one would write it first. Nothing
is committed, and nothing is fetched.
"""

import asyncio
import random
import sys
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.commit import Settling
from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import CHANNEL, CLUSTER, TOPIC
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.producing.routes import cluster_address
from braid.client.records.delivery import OwnedLease
from braid.client.records.record import Record, Row
from braid.kernel.ids import LeaseId
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.tracker import Progress

PEER: Final = "a set of offsets"
AGAIN: Final = "a set of offsets again"
BATCH: Final = 5_000
WINDOW: Final = 10_000  # delivered and not done, at most


class Contest:
    """A contest over a number of acknowledgements."""

    def __init__(self, acks: int) -> None:
        self._acks = acks
        self._half = np.random.default_rng(7).random(BATCH) < 0.5
        self._shuffled = random.Random(7).sample(range(WINDOW), WINDOW)

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: self.by_set,
            AGAIN: self.by_set,
            "tracker, one by one, in order": lambda: self.by_offset(range(WINDOW)),
            "tracker, one by one, in any order": lambda: self.by_offset(self._shuffled),
            "records, made and acknowledged": self.by_record,
            "batches, all of each": lambda: self.batches([np.ones(BATCH, np.bool_)], repeated=100),
            "batches, a random half, then the other": lambda: self.batches([self._half, ~self._half], repeated=100),
            "batches, all of each, beyond a record that is retried": self.beyond,
        }

    async def by_set(self) -> int:
        """Keeps the done offsets above a base in a set."""
        done: set[int] = set()
        base = 0
        for first in range(0, self._acks, WINDOW):
            for offset in range(first, first + WINDOW):
                done.add(offset)
                while base in done:
                    done.remove(base)
                    base += 1
        return base

    async def by_offset(self, order: range | list[int]) -> int:
        """`Progress.done`."""
        progress, count = Progress(0), 0
        while count < self._acks:
            progress.deliver_many(np.arange(count, count + WINDOW), np.zeros(WINDOW, np.int64))
            for at in order:
                progress.done(count + at)
            count += WINDOW
            assert progress.base == count
        return count

    async def by_record(self) -> int:
        """`Record.ack`."""
        cursor, count = _cursor(), 0
        while count < self._acks:
            cursor.progress.deliver_many(np.arange(count, count + WINDOW), np.zeros(WINDOW, np.int64))
            cursor.hand_out(WINDOW)
            for at in range(count, count + WINDOW):
                Record(Row(at, 0, 0, None, None, b"\x00", 0, 0), cursor).ack()
            count += WINDOW
            cursor.note_acked()
            assert cursor.progress.base == count
        return count

    async def beyond(self) -> int:
        """One record is never done, and tried again."""
        progress = Progress(-1)
        progress.deliver(-1, 0)
        progress.attempt(-1)
        return await self.batches([np.ones(BATCH, np.bool_)], repeated=100, progress=progress)

    async def batches(self, masks: list[NDArray[np.bool_]], *, repeated: int, progress: Progress | None = None) -> int:
        """Many more than the others do: they take so little."""
        progress = progress or Progress(0)
        times = np.zeros(BATCH, np.int64)
        stuck, count = progress.in_flight, 0
        while count < self._acks * repeated:
            offsets = np.arange(count, count + BATCH)
            progress.deliver_many(offsets, times)
            for mask in masks:
                progress.done_many(offsets, mask)
            count += BATCH
            assert progress.base == (-1 if stuck else count)
        return count


def _cursor() -> Cursor:
    place = TopicPartition(TOPIC, 0)
    held = OwnedLease(LeaseId(CHANNEL, 0), 1, cluster_address(CLUSTER, "nowhere:1"), place)
    memory = MemoryBound(1 << 30, {}).lane("live")
    work = LeaseWork(held, group="bench", ready=ReadyQueue({}), settling=Settling(), memory=memory, may_start=None)
    work.begin(Progress(0), bytes(16))
    return work.head


async def contest(how: Asked) -> Table:
    """Plays the rounds."""
    found = rows(await play(Contest(how.units).contestants(), how.rounds), PEER, "cpu")
    facts = {
        "work": f"{how.units:,} acknowledgements, a window of {WINDOW:,}; batches of {BATCH:,}, 100 times as many",
        "peer": "a Python set and a base; delivering and making records is counted with Braid's",
    }
    return Table("acks", "ack", "cpu", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=500_000, quick_units=20_000)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
