"""A real member process that tells of its commits: `python -m tests.support.fenced_member ENDPOINT STREAM GROUP LOG`.

A JSON line in LOG for every commit: with which generation, and what became of it. On SIGUSR1 it commits what it holds
with what it was lent, at once, as any code of a process that was frozen may when it goes on.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import braid
from braid.kafka.groups.offsets import AioOffsets
from braid.kernel.errors import Fenced
from braid.kernel.ports import Committed, Generation, TopicPartition
from tests.support.consumer_parts import lease_works

_commit = AioOffsets.commit


def telling(tell: Callable[[str], object]) -> Callable[..., object]:
    """`AioOffsets.commit`, with a line told of each."""

    async def commit(
        self: AioOffsets, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        number, outcome = generation.generation if generation else -1, "failed"
        try:
            await _commit(self, group, offsets, generation)
            outcome = "taken"
        except Fenced:
            outcome = "fenced"
            raise
        finally:
            tell(json.dumps({"generation": number, "outcome": outcome}) + "\n")

    return commit


async def main(endpoint: str, stream: str, group: str) -> None:
    """Is a member until killed."""
    async with braid.connect(endpoint) as mesh, mesh.consumer([stream], group=group) as consumer:
        insisting: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()

        async def insist(
            offsets: AioOffsets, held: Mapping[TopicPartition, Committed], generation: Generation | None
        ) -> None:
            with contextlib.suppress(Fenced):
                await offsets.commit(group, held, generation)

        def begin(*held: Any) -> None:
            insisting.append(loop.create_task(insist(*held)))

        def wake(number: int, frame: FrameType | None) -> None:
            for cluster in list(lease_works(consumer).clusters.values()):
                works = cluster.committer.works
                nothing_done = {work.lease.topic_partition: Committed(0, "") for work in works}
                loop.call_soon_threadsafe(begin, cluster.offsets, nothing_done, cluster.committer.generation)

        # Python's own handler: it runs before any timer of the loop, which may find the leases run out and drop them.
        signal.signal(signal.SIGUSR1, wake)

        async def handle(record: braid.Record) -> None:
            """Nothing to do; done is done."""

        await consumer.run(handle)


if __name__ == "__main__":
    with Path(sys.argv[4]).open("a", buffering=1) as file, patch.object(AioOffsets, "commit", telling(file.write)):
        asyncio.run(main(*sys.argv[1:4]))
