"""A log is cut short while it carries traffic, and written on: its loss is told to the offset, and never taken back."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.route_pb2 import ChannelLeft, LogResumed, WatchRoutesRequest
from braid.api.registry.v1.route_pb2 import Resumption as ResumptionMessage
from braid.api.registry.v1.stream_pb2 import Channel, OffsetRange
from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.ports import HistoryId, TopicPartition
from services.registry.channels import Resumption, checked
from services.registry.cuts import _Log
from services.registry.events import RecordsLost
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, Mesh, Producer, open_producer, two_clusters

TOPIC, CHANNEL = "braid.logs.live.1", "logs/live/1"
FIRST = TopicPartition(TOPIC, 0)


def cut(epochs: Sequence[int], told: tuple[int, int, int], start: int = 0, holes: Sequence[int] = ()) -> int | None:
    """Where a log whose offsets bear these epochs was cut, by what a producer tells of it."""

    async def epoch_at(offset: int) -> int:
        assert start <= offset < len(epochs)
        if offset in holes:
            raise OffsetOutOfRange("compacted")
        return epochs[offset]

    return asyncio.run(_Log(start, len(epochs), epoch_at).cut(Resumption(0, *told)))


def test_a_log_was_cut_where_the_epoch_of_the_older_records_ends() -> None:
    assert cut([1] * 4 + [2] * 8, (0, 7, 5)) == 4
    assert cut([1] * 4 + [2] * 8, (2, 7, 9)) == 4, "also where the producer's own offsets rise"
    assert cut([1] * 4 + [2, 2, 3, 3, 3], (2, 7, 8)) == 4, "whatever leaders came later"
    assert cut([0] * 3 + [1] + [2] * 8, (3, 7, 8)) == 4, "or before"


def test_a_log_of_which_nothing_was_lost_was_not_cut() -> None:
    assert cut([1] * 7 + [2] * 3, (2, 7, 8)) == 7
    assert cut([1] * 9 + [2] * 3, (2, 7, 10)) == 7, "others wrote more"
    assert cut([1] * 10, (2, 7, 8)) == 7, "a connection ended, and nothing else"
    assert cut([1] * 10, (2, 7, 8), start=8) == 7, "retention deleted it"
    assert cut([1] * 6 + [2] * 4, (2, 7, 8), start=4) == 6, "retention deleted a part"


def test_where_all_of_a_connection_was_lost_the_other_epoch_tells_where_it_begins() -> None:
    assert cut([1] * 4 + [2] * 8, (5, 7, 6)) == 4


def test_of_a_log_that_is_shorter_than_it_was_nothing_is_said_yet() -> None:
    assert cut([1] * 4, (2, 7, 5)) is None
    assert cut([1] * 4, (5, 7, 6)) is None


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(OffsetOutOfRange):
        cut([1] * 4 + [2] * 8, (2, 7, 5), holes=[3])


@given(st.data())
def test_whatever_the_epochs_a_cut_is_found_to_the_offset(data: st.DataObject) -> None:
    before = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    epochs = [epoch for epoch, count in enumerate(before) for _ in range(count)]
    first = data.draw(st.integers(len(epochs) - before[-1], len(epochs) - 1))
    after = data.draw(st.integers(first + 1, len(epochs)))  # of the run something is left
    kept = epochs[:after] + [len(before)] * data.draw(st.integers(len(epochs) - after + 1, 90))
    resumed = data.draw(st.integers(after, len(kept) - 1))
    assert cut(kept, (first, len(epochs), resumed)) == after


def test_a_client_may_tell_anything() -> None:
    nonsense = [(-1, 0, 1, 1), (2, 0, 1, 1), (0, -1, 1, 1), (0, 3, 3, 1), (0, 0, 1 << 62, 1), (0, 0, 1, -1)]
    assert checked([Resumption(*each) for each in nonsense], 2) == []
    assert checked([Resumption(1, 0, 1, 1)], 2) == [Resumption(1, 0, 1, 1)]


# --- in a mesh


def play(scene: Callable[[Mesh], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


def named(ranges: Sequence[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.last) for each in ranges]


def resumed(*told: tuple[int, int, int, int]) -> LogResumed:
    resumptions = [
        ResumptionMessage(partition=partition, first_offset=first, next_offset=next, resumed_offset=resumed)
        for partition, first, next, resumed in told
    ]
    return LogResumed(channel=CHANNEL, resumptions=resumptions)


async def tell(producer: Producer, *told: tuple[int, int, int, int]) -> None:
    await producer.call.send(WatchRoutesRequest(log_resumed=resumed(*told)))


async def cut_and_written_on(mesh: Mesh) -> Producer:
    """East ended at offset 10, came back at once with four records, and has twelve now."""
    await two_clusters(mesh)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    producer = await open_producer(mesh)
    await mesh.until(lambda: bool(producer.routes), 2, "no route")
    await producer.acknowledge(producer.routes[-1].revision)
    east = mesh.kafka.named("east")
    east.kill()
    east.truncate(FIRST, 4)
    east.start()
    await mesh.append("east", TOPIC, 0, 8)
    return producer


def is_lost(channel: Channel) -> bool:
    return bool(channel.lost)


async def losses(mesh: Mesh) -> list[RecordsLost]:
    replica = await mesh.leader()
    records = await replica.aggregates.events(HistoryId("registry", "stream", "logs"))
    return [each.event for each in records if isinstance(each.event, RecordsLost)]


def test_what_was_lost_is_told_while_the_channel_carries_traffic() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await tell(producer, (0, 2, 10, 5), (1, 0, 3, 3))
        channel = await mesh.until_channel(CHANNEL, is_lost, 5)
        assert channel.state == ACTIVE
        assert named(channel.lost) == named(channel.overwritten) == [(0, 4, 9)]
        assert "got offset 5" in channel.lost_evidence
        await tell(producer, (0, 2, 10, 5), (0, 0, 9, 6))
        await asyncio.sleep(20)
        assert len(await losses(mesh)) == 1, "told once"

    play(scene)


def test_what_cannot_be_said_beside_a_loss_yet_is_said_once_the_log_has_grown() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await tell(producer, (0, 2, 10, 5), (0, 15, 20, 6))
        channel = await mesh.until_channel(CHANNEL, is_lost, 5)
        assert named(channel.lost) == [(0, 4, 9)]
        await mesh.append("east", TOPIC, 0, 10)
        await mesh.until_channel(CHANNEL, lambda channel: named(channel.lost) == [(0, 4, 19)], 10)

    play(scene)


def test_its_drain_waits_for_a_person_although_nothing_is_missing_at_its_end() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await tell(producer, (0, 2, 10, 5))
        await mesh.until_channel(CHANNEL, is_lost, 5)
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
        await producer.call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 12})))
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.until_channel(CHANNEL, lambda channel: bool(channel.end_offsets), 30)
        await mesh.commit("east", "indexer", TOPIC, 12, 0)
        await asyncio.sleep(40)
        channel = await mesh.channel(CHANNEL)
        assert channel.state == DRAINING and named(channel.lost) == [(0, 4, 9)]
        assert any("other records lie there" in each for each in channel.drain_holders)
        accepted = [OffsetRange(partition=0, first=4, last=9)]
        request = api.CloseChannelRequest(channel=CHANNEL, accept_loss=accepted, reason="a disk forgot")
        closed = await mesh.client.unary("CloseChannel", request, api.CloseChannelResponse)
        assert closed.channel.state == DRAINED
        assert len(await losses(mesh)) == 1, "never taken back"

    play(scene)


def test_its_drain_goes_on_where_it_was_not_written_on_as_far_as_it_went_before() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await tell(producer, (0, 2, 20, 5))
        await mesh.until_channel(CHANNEL, lambda channel: named(channel.lost) == [(0, 4, 19)], 5)
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
        await producer.call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 20})))
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.until_channel(CHANNEL, lambda channel: bool(channel.end_offsets), 60)

    play(scene)


def test_a_log_that_is_found_shorter_still_adds_to_it() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await tell(producer, (0, 2, 10, 5))
        await mesh.until_channel(CHANNEL, is_lost, 5)
        east = mesh.kafka.named("east")
        east.kill()
        await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
        await producer.call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 12})))
        await producer.acknowledge(producer.routes[-1].revision)
        east.truncate(FIRST, 11)
        east.start()
        channel = await mesh.until_channel(CHANNEL, lambda channel: named(channel.lost) == [(0, 4, 9), (0, 11, 11)], 60)
        assert named(channel.overwritten) == [(0, 4, 9)]

    play(scene)


def test_the_next_leader_is_told_again_and_may_look_only_when_the_cluster_is_back() -> None:
    async def scene(mesh: Mesh) -> None:
        await cut_and_written_on(mesh)
        mesh.kafka.named("east").kill()
        await mesh.start_registry("registry-1")
        mesh.kill("registry-0")
        await mesh.leader()
        await open_producer(mesh, "p1", resumed=[resumed((0, 2, 10, 5))])
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINING, 15)
        mesh.kafka.named("east").start()
        channel = await mesh.until_channel(CHANNEL, is_lost, 40)
        assert named(channel.overwritten) == [(0, 4, 9)]

    play(scene)


def test_a_restart_that_lost_nothing_is_no_loss_and_a_topic_that_is_gone_is_not_looked_at() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.append("east", TOPIC, 0, 10)
        producer = await open_producer(mesh)
        east = mesh.kafka.named("east")
        east.kill()
        east.start()
        await mesh.append("east", TOPIC, 0, 5)
        await tell(producer, (0, 2, 10, 12))
        await asyncio.sleep(20)
        assert not await losses(mesh)
        east.empty(replaced=False)
        await tell(producer, (0, 12, 15, 1))
        channel = await mesh.until_channel(CHANNEL, is_lost, 60)
        assert not channel.overwritten

    play(scene)
