"""Lanes take turns in being decoded and asked for; partitions only within their lane."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final

import pytest
from aiokafka.protocol.fetch import FetchRequest
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.fetching.fetcher import AioFetcher
from braid.kafka.fetching.lane_turns import FetchTurns
from braid.kafka.protocol.wire import ClusterMetadata, TopicMetadata
from braid.kernel.limits.kafka import FETCH_TURN_RECORDS
from braid.kernel.ports import FetchLane, Isolation, TopicPartition
from testbed.batches import packed, raw_batch, record_bytes
from tests.unit.kafka.fetching.test_fetcher import ScriptedWire

SHARES: Final = {"live": 3, "bulk": 1}
BULK: Final = 100
PLACES: Final = [*(TopicPartition("bulk", number) for number in range(BULK)), TopicPartition("live", 0)]
LANES: Final = {at: FetchLane(at.topic, SHARES[at.topic]) for at in PLACES}


def played(turns: FetchTurns, there: dict[TopicPartition, int], rounds: int, most: int = 2_000) -> Counter[str]:
    """Records fetched per lane in this many fetches, if partitions have this many records at each."""
    got: Counter[str] = Counter()
    for _ in range(rounds):
        left, waiting = most, dict(there)
        turns.offer([at for at in there if there[at]])
        while left > 0 and (turn := turns.next(left)) is not None:
            partition, limit = turn
            taken = min(limit, waiting[partition])
            waiting[partition] -= taken
            left -= taken
            got[partition.topic] += taken
            turns.took(taken, more=taken == limit and waiting[partition] > 0)
    return got


def turns_of(lanes: Mapping[TopicPartition, FetchLane]) -> FetchTurns:
    turns = FetchTurns()
    turns.assign(lanes)
    return turns


@given(sizes=st.lists(st.integers(0, 3_000), min_size=5, max_size=5), live=st.integers(2_000, 5_000))
def test_a_lane_brings_its_share_whatever_partitions_others_have(sizes: list[int], live: int) -> None:
    there = {TopicPartition("bulk", number): size for number, size in enumerate(sizes)} | {PLACES[-1]: live}
    got = played(turns_of(LANES), there, 60)
    due = 60 * 2_000 * SHARES["live"] // 4
    assert got["live"] >= due - SHARES["live"] * FETCH_TURN_RECORDS
    assert got.total() == 60 * min(2_000, sum(there.values()))


@given(sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=20), most=st.integers(1, 4_000))
def test_who_is_alone_brings_all_of_it(sizes: list[int], most: int) -> None:
    there = {TopicPartition("bulk", number): size for number, size in enumerate(sizes)}
    assert played(turns_of(LANES), there, 3, most).total() == 3 * min(most, sum(sizes))


def test_partitions_of_a_lane_take_turns() -> None:
    there = {at: 10_000 for at in PLACES[:4] + PLACES[-1:]}
    turns, seen = turns_of(LANES), []
    turns.offer(there)
    for _ in range(16):
        turn = turns.next(2_000)
        assert turn is not None
        seen.append(turn[0])
        turns.took(turn[1], more=True)
    assert Counter(at for at in seen if at.topic == "bulk") == dict.fromkeys(PLACES[:4], 2)


def test_without_lanes_all_partitions_are_of_one() -> None:
    assert played(turns_of({}), dict.fromkeys(PLACES, 10), 1).total() == 10 * len(PLACES)


def test_the_lane_that_had_least_is_asked_for_first() -> None:
    turns = turns_of(LANES)
    bulk, live = PLACES[:2], PLACES[-1]
    assert turns.in_order([*bulk, live]) == [*bulk, live]
    turns.received(bulk[0], 1_000_000)
    assert turns.in_order([*bulk, live]) == [live, *bulk]
    turns.received(live, 1_000_000)
    assert turns.in_order([*bulk, live]) == [live, *bulk], "its share is three times as large"
    turns.received(live, 3_000_000)
    assert turns.in_order([live, *bulk]) == [*bulk, live]


def test_a_lane_that_had_nothing_for_long_saves_nothing_up() -> None:
    turns = turns_of(LANES)
    bulk, live = PLACES[0], PLACES[-1]
    for _ in range(1_000):
        turns.received(bulk, 1_000_000)
    for _ in range(4):
        assert turns.in_order([bulk, live])[0] == live or turns._starts["live"] > turns._starts["bulk"]
        turns.received(live, 1_000_000)
    assert turns.in_order([bulk, live])[0] == bulk


# --- in the fetcher


class FullWire(ScriptedWire):
    """One broker that has a batch for every partition that is asked for, however often."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[list[str]] = []
        plain = b"".join(record_bytes(at, b"v") for at in range(500))
        self.data = packed(4, plain)

    async def metadata(self, topics: object) -> ClusterMetadata:
        """The broker leads all."""
        told = {
            topic: TopicMetadata(0, b"", {at.partition: 1 for at in PLACES if at.topic == topic}) for topic in SHARES
        }
        return ClusterMetadata("k", 1, {1: ("h", 1)}, told)

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """The batch that begins with what is asked for."""
        assert isinstance(request, FetchRequest)
        named = request._topics
        self.asked.append({TopicPartition(topic, each[0]) for topic, parts in named for each in parts})
        self.orders.append([topic for topic, _ in named])
        self.answered.set()
        await asyncio.sleep(0)
        topics: list[tuple[str, list[tuple[object, ...]]]] = [
            (
                topic,
                [(each[0], 0, 1 << 40, 1 << 40, 0, [], -1, raw_batch(each[1], 500, self.data, 4)) for each in parts],
            )
            for topic, parts in named
        ]
        return SimpleNamespace(topics=topics)


async def fetched_of(wire: FullWire, fetches: int, lanes: Mapping[TopicPartition, FetchLane] = LANES) -> Counter[str]:
    """How many records of each lane so many fetches bring, once all partitions have something."""
    fetcher = AioFetcher(wire, wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    fetcher.assign(dict.fromkeys(PLACES, 0), lanes)
    got: Counter[str] = Counter()
    async with asyncio.timeout(20):
        for _ in range(fetches):
            for found in await fetcher.fetch_columns(400, 5.0, []):
                got[found.partition.topic] += found.size
            for _ in range(5):
                await asyncio.sleep(0)  # what was used up is asked for again
    await fetcher.close()
    return got


async def test_one_live_partition_is_not_behind_a_hundred_of_bulk() -> None:
    got = await fetched_of(FullWire(), 200)
    assert got["live"] >= got.total() / 2


async def test_plain_rotation_would_be_seen() -> None:
    got = await fetched_of(FullWire(), 200, {})
    assert got["live"] < got.total() / 10


async def test_live_is_asked_for_before_bulk_once_that_had_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for had, order in (("live", ["bulk", "live"]), ("bulk", ["live", "bulk"])):
        monkeypatch.setattr(FetchTurns, "_start", lambda self, name, had=had: float(name == had))
        wire = FullWire()
        await fetched_of(wire, 1)
        assert wire.orders[0] == order


async def test_no_more_of_a_lane_is_fetched_ahead_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one answer may exceed the bound: here that of ten partitions. Another lane does not pay for it."""
    monkeypatch.setattr("braid.kafka.fetching.fetcher.FETCH_AHEAD_BYTES", 1)
    wire = FullWire()
    fetcher = AioFetcher(wire, wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    fetcher.assign(dict.fromkeys(PLACES[:10], 0), LANES)
    async with asyncio.timeout(20):
        await fetcher.fetch_columns(1, 5.0, [])
        fetcher.assign(dict.fromkeys(PLACES, 0), LANES)
        while not any(PLACES[-1] in asked for asked in wire.asked):
            wire.answered.clear()
            await wire.answered.wait()
        assert {at for asked in wire.asked for at in asked} == {*PLACES[:10], PLACES[-1]}
        while len({at for asked in wire.asked for at in asked}) < len(PLACES):
            await fetcher.fetch_columns(2_000, 5.0, [])
    await fetcher.close()
