"""The fetcher against a scripted wire: what happens between one request and the next."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from aiokafka.protocol.fetch import FetchRequest

from braid.kafka.fetching.chunk import Chunk
from braid.kafka.fetching.fetcher import AioFetcher
from braid.kafka.protocol.wire import ClusterMetadata, TopicMetadata, Wire
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.kafka import INFLATED_INLINE_BYTES_MAX
from braid.kernel.ports import FetchedRecords, Isolation, TopicPartition
from testbed.batches import batch, packed, raw_batch, record_bytes

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class ScriptedWire(Wire):
    """One broker that leads both partitions and has nothing in them; it tells what was asked for."""

    def __init__(self) -> None:
        self.asked: list[set[TopicPartition]] = []
        self.between: Callable[[], None] = lambda: None
        self.answered = asyncio.Event()

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """Answers any request for metadata; `between` runs before any task that is created next."""
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


async def test_an_assignment_change_before_a_request_keeps_fetching() -> None:
    wire = ScriptedWire()
    fetcher = AioFetcher(wire, wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    wire.between = lambda: fetcher.assign({FIRST: 0})
    fetcher.assign({FIRST: 0, SECOND: 0})
    async with asyncio.timeout(5):
        while {FIRST} not in wire.asked:
            wire.answered.clear()
            await wire.answered.wait()
    await fetcher.close()


class ServingWire(ScriptedWire):
    """One broker with bytes for the first partition."""

    def __init__(self, *answers: bytes, end: int) -> None:
        super().__init__()
        self._answers = list(answers)
        self._end = end

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """The next of the answers; then nothing, after a while."""
        answer = await super().ask(broker, request)
        if self._answers:
            answer.topics = [("t", [(0, 0, self._end, self._end, 0, [], -1, self._answers.pop(0))])]
        return answer


async def fetch_all(wire: Wire, end: int, rack: str = "") -> list[FetchedRecords]:
    """Everything of the first partition up to an offset."""
    fetcher = AioFetcher(wire, wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack=rack)
    await fetcher.start()
    fetcher.assign({FIRST: 0})
    fetched: list[FetchedRecords] = []
    try:
        async with asyncio.timeout(20):
            while not fetched or fetched[-1].next_offset < end:
                fetched += await fetcher.fetch(100, 1.0)
    finally:
        await fetcher.close()
    return fetched


async def test_damage_in_transit_is_refetched_and_in_the_log_reported() -> None:
    bad = bytearray(batch(2, 3))
    bad[-1] ^= 1
    for second, damaged in ((batch(2, 3), 0), (bytes(bad), 1)):
        wire = ServingWire(batch(0, 2) + bytes(bad) + batch(5, 1), second + batch(5, 1), end=6)
        fetched = await fetch_all(wire, 6)
        assert sum(len(one.records) for one in fetched) == (6 - 3 * damaged)
        assert [each[:2] for one in fetched for each in one.damaged] == [(2, 4)] * damaged
        assert len(wire.asked) >= 2


async def test_large_batches_open_beside_the_loop_one_by_one_in_order() -> None:
    large = packed(4, record_bytes(0, bytes(INFLATED_INLINE_BYTES_MAX)))
    data = b"".join(raw_batch(at, 1, large, 4) for at in range(3))
    fetched = await fetch_all(ServingWire(data + batch(3, 1), end=4), 4)
    assert [record.offset for one in fetched for record in one.records] == [0, 1, 2, 3]


async def test_closing_does_not_wait_for_a_batch_that_is_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, open_large = asyncio.Event(), Chunk.open_large

    def noted(chunk: Chunk) -> None:
        loop.call_soon_threadsafe(begun.set)
        open_large(chunk)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(Chunk, "open_large", noted)
    large = raw_batch(0, 1, packed(4, record_bytes(0, bytes(INFLATED_INLINE_BYTES_MAX))), 4)
    wire = ServingWire(large, end=1)
    fetcher = AioFetcher(wire, wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    fetcher.assign({FIRST: 0})
    async with asyncio.timeout(5):
        while not begun.is_set():
            await fetcher.fetch(10, 0.001)
    await fetcher.close()


async def test_what_is_no_batch_twice_is_told_and_asked_for_again() -> None:
    wire = ServingWire(b"\xff" * 100, b"\xff" * 100, batch(0, 1), end=1)
    with pytest.raises(ClusterUnavailable) as told:
        await fetch_all(wire, 1)
    assert told.value.metadata == {"topic": "t", "partition": "0", "offset": "0"}


class FollowedWire(ScriptedWire):
    """The leader sends readers to a follower, which lags behind what they have read; then the leader serves them."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers: list[int] = []

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """Answers as a follower (2) that has less than is requested, and a leader (1) that serves a second request."""
        answer = await super().ask(broker, request)
        self.brokers.append(broker)
        if broker == 2:
            answer.topics = [("t", [(0, 1, -1, -1, -1, [], -1, b"")])]
        elif len(self.brokers) == 1:
            answer.topics = [("t", [(0, 0, 0, 0, 0, [], 2, b"")])]
        elif len(self.brokers) == 3:
            answer.topics = [("t", [(0, 0, 2, 2, 0, [], -1, batch(0, 2))])]
        return answer


async def test_a_lagging_follower_says_nothing_about_the_log() -> None:
    """Only the leader knows where a log ends (KIP-392)."""
    wire = FollowedWire()
    fetched = await fetch_all(wire, 2)
    assert [record.offset for one in fetched for record in one.records] == [0, 1]
    assert wire.brokers[:3] == [1, 2, 1]


class DeadFollowerWire(ScriptedWire):
    """The leader sends readers in a rack to a follower that is dead; it serves those that do not say where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers: list[int] = []

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """The follower (2) refuses connections."""
        answer = await super().ask(broker, request)
        self.brokers.append(broker)
        if broker == 2:
            raise ClusterUnavailable("refused")
        if cast("FetchRequest", request)._rack_id:
            answer.topics = [("t", [(0, 0, 0, 0, 0, [], 2, b"")])]
        else:
            answer.topics = [("t", [(0, 0, 1, 1, 0, [], -1, batch(0, 1))])]
        return answer


async def test_the_leader_serves_while_a_nearer_replica_is_dead() -> None:
    """Leaders name it until its session has ended."""
    wire = DeadFollowerWire()
    fetched = await fetch_all(wire, 1, rack="a")
    assert [record.offset for one in fetched for record in one.records] == [0]
    assert wire.brokers[:3] == [1, 2, 1]


class HoldingWire(ScriptedWire):
    """A broker that has nothing, and holds what it is asked until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = asyncio.Event()

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """An empty answer, at last."""
        answer = await super().ask(broker, request)
        await self.let_go.wait()
        return answer


async def test_a_new_partition_does_not_wait_for_a_held_request() -> None:
    held, beside = HoldingWire(), ServingWire(batch(0, 1), end=1)
    fetcher = AioFetcher(held, beside, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    fetcher.assign({SECOND: 0})
    async with asyncio.timeout(5):
        await held.answered.wait()
        fetcher.assign({SECOND: 0, FIRST: 0})
        (found,) = await fetcher.fetch(10, 5.0)
        assert (found.partition, len(found.records)) == (FIRST, 1)
        assert held.asked == [{SECOND}]
        assert beside.asked[0] == {FIRST}
        held.let_go.set()  # what is asked beside it is not asked for twice: then all are asked together again
        while {FIRST, SECOND} not in held.asked:
            held.answered.clear()
            await held.answered.wait()
        assert all(asked == {FIRST} for asked in beside.asked)
    await fetcher.close()
