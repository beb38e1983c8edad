"""A registry whose cluster comes back with a log cut short: what it tells of the loss, and what a drain waits for."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.route_pb2 import ChannelLeft, WatchRoutesRequest
from braid.api.registry.v1.stream_pb2 import Channel, OffsetRange
from braid.kernel.ports import HistoryId, TopicPartition
from services.registry.model.stream_events import RecordsLost
from tests.support.virtual_time import run_virtual
from tests.unit.registry.kafka.resumed_logs import CHANNEL, TOPIC, resumed
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, Mesh, Producer, open_producer, two_clusters

FIRST = TopicPartition(TOPIC, 0)


def play(scene: Callable[[Mesh], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


def named(ranges: Sequence[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.last) for each in ranges]


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


def test_limit_an_idle_producer_does_not_reveal_a_cut() -> None:
    """The producer never sees that its offsets were assigned again, and the log is no shorter than its receipts."""

    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: len(producer.routes) > 1, 5, "no new route")
        await producer.call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 10})))
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.commit("east", "indexer", TOPIC, 12, 0)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 60)
        assert await losses(mesh) == []

    play(scene)


def test_claims_unclear_beside_a_loss_come_once_the_log_grows() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await cut_and_written_on(mesh)
        await tell(producer, (0, 2, 10, 5), (0, 15, 20, 6))
        channel = await mesh.until_channel(CHANNEL, is_lost, 5)
        assert named(channel.lost) == [(0, 4, 9)]
        await mesh.append("east", TOPIC, 0, 10)
        await mesh.until_channel(CHANNEL, lambda channel: named(channel.lost) == [(0, 4, 19)], 10)

    play(scene)


def test_its_drain_awaits_a_person_though_its_end_lacks_nothing() -> None:
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


def test_its_drain_goes_on_if_not_rewritten_to_its_former_end() -> None:
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


def test_the_next_leader_is_told_again_and_awaits_the_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await cut_and_written_on(mesh)
        mesh.kafka.named("east").kill()
        await mesh.start_registry("registry-1")
        mesh.kill("registry-0")
        await mesh.leader()
        await open_producer(mesh, "p1", revision=1, resumed=[resumed((0, 2, 10, 5))])
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINING, 15)
        mesh.kafka.named("east").start()
        channel = await mesh.until_channel(CHANNEL, is_lost, 40)
        assert named(channel.overwritten) == [(0, 4, 9)]

    play(scene)


def test_a_restart_without_loss_reports_none() -> None:
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
