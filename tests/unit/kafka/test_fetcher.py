"""The fetcher against a scripted wire: what happens between one request and the next."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from aiokafka.protocol.fetch import FetchRequest

from braid.kafka.fetcher import AioFetcher
from braid.kafka.wire import ClusterMetadata, TopicMetadata, Wire
from braid.kernel.ports import Isolation, TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class ScriptedWire(Wire):
    """One broker that leads both partitions and has nothing in them; it tells what was asked for."""

    def __init__(self) -> None:
        self.asked: list[set[TopicPartition]] = []
        self.between: Callable[[], None] = lambda: None
        self.answered = asyncio.Event()

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """Whatever is asked; `between` runs before any task that is created next."""
        asyncio.get_running_loop().call_soon(self.between)
        return ClusterMetadata("k", 1, {1: ("h", 1)}, {"t": TopicMetadata(0, b"", {0: 1, 1: 1})})

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """An empty answer."""
        assert isinstance(request, FetchRequest)
        named = request._topics
        self.asked.append({TopicPartition(topic, each[0]) for topic, parts in named for each in parts})
        self.answered.set()
        await asyncio.sleep(0.01)
        return SimpleNamespace(topics=[])

    async def close(self) -> None:
        """Nothing to close."""


async def test_an_assignment_that_changes_just_before_a_request_does_not_end_fetching() -> None:
    wire = ScriptedWire()
    fetcher = AioFetcher(wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    wire.between = lambda: fetcher.assign({FIRST: 0})
    fetcher.assign({FIRST: 0, SECOND: 0})
    async with asyncio.timeout(5):
        while {FIRST} not in wire.asked:
            wire.answered.clear()
            await wire.answered.wait()
    await fetcher.close()
