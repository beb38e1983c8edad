"""The peer of lost clusters: what its first cluster failed it sends anew on its second one, and nothing else twice."""

import asyncio
from typing import cast

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, RequestTimedOutError

from bench.harness.load_process import generation
from bench.peers.by_hand_process import ByHand, Pair, Place, places

TARGETS = [Place("east", "e:1", "t.0"), Place("west", "w:1", "t.1")]


class Cluster:
    """A producer of one cluster: what it was given, by id, to be settled by the test."""

    def __init__(self) -> None:
        self.given: dict[int, asyncio.Future[object]] = {}
        self.full = False

    async def send(self, topic: str, value: bytes, key: bytes) -> asyncio.Future[object]:
        if self.full:
            raise KafkaTimeoutError
        self.given[int(value)] = future = asyncio.get_running_loop().create_future()
        return future

    async def settle(self, identity: int, error: BaseException | None = None) -> None:
        future = self.given.pop(identity)
        future.set_result(None) if error is None else future.set_exception(error)
        await asyncio.sleep(0)


def pair_of(*clusters: Cluster) -> Pair:
    return Pair([cast(AIOKafkaProducer, each) for each in clusters])


async def test_records_that_failed_go_to_the_second_cluster_for_good() -> None:
    east, west, told = Cluster(), Cluster(), list[str]()
    by_hand, pair = ByHand(0, told.append), pair_of(east, west)
    pair.owed = [1, 2, 3]
    await by_hand.send(pair, TARGETS)
    await east.settle(1)
    await east.settle(2, RequestTimedOutError())
    await east.settle(3, RequestTimedOutError())
    assert (pair.owed, pair.in_flight, pair.used) == ([2, 3], 0, 1)
    pair.owed += [4]
    await by_hand.send(pair, TARGETS)
    for identity in (2, 3, 4):
        await west.settle(identity)
    assert told == ["elsewhere east", "elsewhere west"]
    assert (pair.owed, pair.in_flight, east.given) == ([], 0, {})


async def test_what_a_full_buffer_refused_is_owed_with_all_behind_it() -> None:
    east, west, told = Cluster(), Cluster(), list[str]()
    by_hand, pair = ByHand(0, told.append), pair_of(east, west)
    east.full, pair.owed = True, [1, 2]
    await by_hand.send(pair, TARGETS)
    assert (pair.owed, pair.used, told) == ([1, 2], 1, [])


async def test_what_the_second_cluster_fails_is_told() -> None:
    east, west, told = Cluster(), Cluster(), list[str]()
    by_hand, pair = ByHand(0, told.append), pair_of(east, west)
    pair.used, pair.owed = 1, [1]
    await by_hand.send(pair, TARGETS)
    await west.settle(1, RequestTimedOutError())
    assert [each.partition(" ")[0] for each in told] == ["trouble"]
    assert (pair.owed, pair.in_flight) == ([], 0)


def test_a_peer_goes_to_its_second_cluster_once_and_for_good() -> None:
    assert not pair_of().failed(0), "nowhere to go"
    pair = pair_of(Cluster(), Cluster())
    assert (pair.failed(0), pair.used) == (True, 1)
    assert (pair.failed(0), pair.used) == (True, 1), "others that were under way"
    assert (pair.failed(1), pair.used) == (False, 1)


def test_a_peer_reads_its_places_from_the_command_line() -> None:
    found = places("east=127.0.0.1:1 west=127.0.0.1:2", "by-hand-0")
    assert [tuple(each) for each in found] == [
        ("east", "127.0.0.1:1", "by-hand-0.0"),
        ("west", "127.0.0.1:2", "by-hand-0.1"),
    ]
    assert [generation(each.topic) for each in found] == [0, 1], "places on two clusters are never the same"
