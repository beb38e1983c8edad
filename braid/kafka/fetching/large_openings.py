"""Opens large batches in threads, beside the event loop."""

import asyncio
from collections.abc import Callable, Collection

from braid.kafka.fetching.chunk import Chunk
from braid.kernel.ports import TopicPartition


class LargeOpenings:
    """The threads of one fetcher that open large batches: one at a time, so that one bomb at a time takes memory."""

    def __init__(self, opened: Callable[[], None]) -> None:
        """`opened` is called whenever one ends."""
        self._opened = opened
        self._turn = asyncio.Lock()
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> Collection[asyncio.Task[None]]:
        """Tasks that were begun and whose end was not noted yet."""
        return list(self._tasks.values())

    def begin(self, partition: TopicPartition, chunk: Chunk) -> None:
        """Starts to check and inflate the batch that a partition's chunk calls large."""
        self._tasks[partition] = asyncio.create_task(self._open(chunk), name="kafka-open-large")

    def is_under_way(self, partition: TopicPartition) -> bool:
        """Whether a thread works on the partition's chunk, or on that of an earlier assignment.

        An unexpected error in the thread is raised here, once.
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
