"""Opens large batches in threads, beside the event loop."""

import asyncio
from collections.abc import Callable, Collection

from braid.kafka.fetching.chunk import Chunk
from braid.kernel.ports import TopicPartition


class LargeOpenings:
    """The openings of one fetcher: one at a time, so that one bomb at a time takes its memory."""

    def __init__(self, opened: Callable[[], None]) -> None:
        """`opened` is called whenever one ends."""
        self._opened = opened
        self._turn = asyncio.Lock()
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> Collection[asyncio.Task[None]]:
        """All that were begun and not seen to end."""
        return list(self._tasks.values())

    def begin(self, partition: TopicPartition, chunk: Chunk) -> None:
        """Checks and inflates the batch that a partition's chunk calls large."""
        self._tasks[partition] = asyncio.create_task(self._open(chunk), name="kafka-open-large")

    def is_under_way(self, partition: TopicPartition) -> bool:
        """Whether a thread works on the partition's chunk, or does on the one of an assignment before.

        A fault of ours is raised here, once.
        """
        opening = self._tasks.get(partition)
        if opening is None or not opening.done():
            return opening is not None
        del self._tasks[partition]
        opening.result()
        return False

    async def _open(self, chunk: Chunk) -> None:
        try:
            async with self._turn:
                await asyncio.to_thread(chunk.open_large)
        finally:
            self._opened()
