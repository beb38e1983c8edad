"""A cluster returns without its records: the loss is told by range, nothing ends in silence, a person can close."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, cast

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.route_pb2 import ChannelLeft, WatchRoutesRequest
from braid.api.registry.v1.stream_pb2 import (
    CHANNEL_STATE_RETIRED,
    DRAIN_STEP_GROUPS,
    DRAIN_STEP_SEAL,
    FAILOVER_MODE_AUTOMATIC,
    FAILOVER_MODE_OFF,
    Channel,
    FailoverMode,
    OffsetRange,
)
from braid.kafka.memory import MemoryCluster
from braid.kernel.errors import BraidError, ClusterUnavailable, Refused
from braid.kernel.limits.registry.resources import LOSS_SEEN_SECONDS
from braid.kernel.offset_ranges import OPEN, OffsetRanges
from braid.kernel.ports import HistoryId, KafkaAdmin, TopicPartition
from services.registry.domain import channel_steps
from services.registry.kafka import drain, surveys
from services.registry.model import channels
from services.registry.model.stream_events import ChannelClosed, ChannelDrained, RecordsLost, StreamEvent
from services.registry.policy import channel_work
from services.registry.policy.world import World
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, STANDBY, Mesh, Producer, open_producer, two_clusters

TOPIC, CHANNEL = "braid.logs.live.1", "logs/live/1"
FIRST = TopicPartition(TOPIC, 0)
RETIRED = CHANNEL_STATE_RETIRED
Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


def named(ranges: Sequence[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.last) for each in ranges]


async def events(mesh: Mesh) -> list[StreamEvent]:
    """The stream's history."""
    replica = await mesh.leader()
    return [
        cast("StreamEvent", record.event)
        for record in await replica.aggregates.events(HistoryId("registry", "stream", "logs"))
    ]


async def lost(mesh: Mesh) -> list[OffsetRanges]:
    """Every loss that was told of the channel, in order."""
    found = [event for event in await events(mesh) if isinstance(event, RecordsLost)]
    return [event.ranges for event in found if event.ref == ("live", 1)]


async def filled(mesh: Mesh, failover: FailoverMode.ValueType = FAILOVER_MODE_AUTOMATIC) -> Producer:
    """Ten records on east, of which a group has done four; their producer has receipts for all."""
    await two_clusters(mesh, failover=failover)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    await mesh.commit("east", "indexer", TOPIC, 4, 0)
    producer = await open_producer(mesh)
    await mesh.until(lambda: bool(producer.routes), 2, "no route")
    await producer.acknowledge(producer.routes[-1].revision)
    return producer


async def leave(mesh: Mesh, producer: Producer, next_offset: int = 10) -> None:
    """The producer follows the new route, and tells how far its receipts go."""
    await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
    left = ChannelLeft(channel=CHANNEL, next_offsets={0: next_offset})
    await producer.call.send(WatchRoutesRequest(channel_left=left))
    await producer.acknowledge(producer.routes[-1].revision)


async def failed_over(mesh: Mesh) -> None:
    """East died, traffic is on west, the producer has left."""
    producer = await filled(mesh)
    mesh.kafka.named("east").kill()
    await leave(mesh, producer)
    await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 5)


async def close(mesh: Mesh, *accepted: tuple[int, int, int], dry_run: bool = False) -> api.CloseChannelResponse:
    ranges = [OffsetRange(partition=partition, first=first, last=last) for partition, first, last in accepted]
    request = api.CloseChannelRequest(channel=CHANNEL, accept_loss=ranges, reason="disk is dust", dry_run=dry_run)
    return await mesh.client.unary("CloseChannel", request, api.CloseChannelResponse)


async def refusal(mesh: Mesh, *accepted: tuple[int, int, int]) -> BraidError:
    with pytest.raises(Refused) as caught:
        await close(mesh, *accepted)
    return caught.value


def is_lost(channel: Channel) -> bool:
    return bool(channel.lost)


def at_its_groups(channel: Channel) -> bool:
    return channel.drain_step == DRAIN_STEP_GROUPS


def test_receipts_of_producers_that_left_are_kept_across_leaders() -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over(mesh)
        assert list((await mesh.channel(CHANNEL)).acknowledged) == [10, 0]
        await mesh.start_registry("registry-1")
        mesh.kill("registry-0")
        await mesh.leader()
        assert list((await mesh.channel(CHANNEL)).acknowledged) == [10, 0]

    play(scene)


def test_receipts_of_a_broken_channel_precede_its_route_change() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await filled(mesh)
        broke = ChannelLeft(channel=CHANNEL, next_offsets={0: 10})
        await producer.call.send(WatchRoutesRequest(channel_left=broke))
        await asyncio.sleep(1)
        mesh.kafka.named("east").kill()
        await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
        await producer.acknowledge(producer.routes[-1].revision)
        channel = await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 5)
        assert list(channel.acknowledged) == [10, 0]

    play(scene)


def test_a_producer_that_says_hello_again_tells_the_next_leader() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await filled(mesh)
        await mesh.start_registry("registry-1")
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: len(producer.routes) > 1, 5, "no new route")
        mesh.kill("registry-0")
        await mesh.leader()
        left = [ChannelLeft(channel=CHANNEL, next_offsets={0: 10, 7: 3}), ChannelLeft(channel="other/live/1")]
        await open_producer(mesh, "p2", revision=producer.routes[-1].revision, left=left)
        channel = await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 40)
        assert list(channel.acknowledged) == [10, 0]

    play(scene)


@pytest.mark.parametrize("replaced", [True, False], ids=["another cluster", "the same, empty"])
def test_an_empty_returned_cluster_is_known_by_its_receipts(replaced: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over(mesh)
        east = mesh.kafka.named("east")
        east.empty(replaced=replaced)
        east.start()
        channel = await mesh.until_channel(CHANNEL, is_lost, 40)
        assert named(channel.lost) == [(0, 0, 9)] and channel.lost_evidence
        await asyncio.sleep(60)
        assert (await mesh.channel(CHANNEL)).state == DRAINING
        assert await lost(mesh) == [((0, 0, 9),)], "told once"

    play(scene)


def test_receipts_reveal_a_truncated_cluster_and_the_rest_drains() -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over(mesh)
        east = mesh.kafka.named("east")
        east.truncate(FIRST, 7)
        east.start()
        channel = await mesh.until_channel(CHANNEL, is_lost, 40)
        assert named(channel.lost) == [(0, 7, 9)]
        assert "a producer saw" in channel.lost_evidence
        await mesh.until_channel(CHANNEL, at_its_groups, 5)
        assert named((await close(mesh, dry_run=True)).given_up) == [(0, 4, 9)]
        await mesh.commit("east", "indexer", TOPIC, 7, 0)
        await asyncio.sleep(5)
        assert (await mesh.channel(CHANNEL)).state == DRAINING, "never in silence"
        assert "0:7-9" in (await refusal(mesh)).message
        assert "names something else" in (await refusal(mesh, (0, 7, 8))).message
        closed = await close(mesh, (0, 7, 9))
        assert closed.channel.state == DRAINED and closed.channel.closed
        [event] = [event for event in await events(mesh) if isinstance(event, ChannelClosed)]
        assert event == ChannelClosed(event.ref, event.given_up, "disk is dust") and event.given_up == ((0, 7, 9),)
        assert named((await close(mesh)).given_up) == [], "told twice"

    play(scene)


def test_a_canary_taken_at_a_lost_records_offset_hides_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that learns late of the seal takes the canary, at the offset of the first record that is gone."""
    real, unsettled = MemoryCluster.alter_topic_config, [True]

    def settle(self: MemoryCluster, topic: str, changes: Mapping[str, str | None]) -> None:
        if topic == TOPIC and unsettled and "max.message.bytes" in changes:
            unsettled.clear()
        else:
            real(self, topic, changes)

    async def scene(mesh: Mesh) -> None:
        await failed_over(mesh)
        east = mesh.kafka.named("east")
        east.truncate(FIRST, 7)
        monkeypatch.setattr(MemoryCluster, "alter_topic_config", settle)
        east.start()
        await mesh.until_channel(CHANNEL, at_its_groups, 60)
        assert not unsettled
        assert east.log(FIRST).end == 8, "the canary lies at offset 7"
        await mesh.commit("east", "indexer", TOPIC, 8, 1)
        await asyncio.sleep(LOSS_SEEN_SECONDS + 5)
        assert named((await mesh.channel(CHANNEL)).lost) == [(0, 7, 9)]
        assert named((await close(mesh, (0, 7, 9))).given_up) == [(0, 7, 9)]

    play(scene)


def test_a_spare_whose_topic_is_gone_takes_no_traffic() -> None:
    """A cluster may come back empty under its own id while only spares lie there; or somebody deletes a topic."""

    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        west = mesh.kafka.named("west")
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        west.empty(replaced=False)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == RETIRED, 30)
        await mesh.until_channel("logs/live/3", lambda channel: channel.state == STANDBY, 5)
        mesh.kafka.named("east").kill()
        await mesh.until_channel("logs/live/3", lambda channel: channel.state == ACTIVE, 15)

    play(scene)


def test_traffic_leaves_a_lost_topic_and_a_person_may_close_it() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await filled(mesh)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        mesh.kafka.named("east").empty(replaced=False)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINING, 30)
        channel = await mesh.until_channel(CHANNEL, is_lost, 30)
        assert named(channel.lost) == [(0, 0, -1), (1, 0, -1)], "nobody has left, so nobody told how far it went"
        await leave(mesh, producer)
        await mesh.until_channel(CHANNEL, lambda channel: named(channel.lost) == [(0, 0, 9)], 30)
        closed = await close(mesh, (0, 0, 9))
        assert closed.channel.state == DRAINED and closed.channel.closed

    play(scene)


def test_keeping_a_lost_topic_first_would_never_end_its_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control: a drain that waits for a deleted topic before it asks whether producers left waits for ever."""

    def keep_first(world: World, channel: channels.Channel) -> bool:
        draining = channel.state is channels.ChannelState.DRAINING
        return draining and not channel.retention_lifted and not world.lost(channel)

    monkeypatch.setattr(channel_work, "_to_be_kept", keep_first)
    with pytest.raises(AssertionError, match="still name"):
        test_traffic_leaves_a_lost_topic_and_a_person_may_close_it()


def test_a_log_whose_end_shows_late_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over(mesh)
        east = mesh.kafka.named("east")
        real, late = surveys.read_ends, True

        async def ends(
            admin: KafkaAdmin, channel: channels.Channel, leaderless: Collection[TopicPartition] = ()
        ) -> Mapping[TopicPartition, int]:
            found = dict(await real(admin, channel, leaderless))
            return {**found, FIRST: 7} if late and FIRST in found else found

        monkeypatch.setattr(surveys, "read_ends", ends)
        east.start()
        await mesh.until_channel(CHANNEL, lambda channel: any("lost?" in each for each in channel.drain_holders), 40)
        await asyncio.sleep(LOSS_SEEN_SECONDS / 2)
        late = False
        await mesh.commit("east", "indexer", TOPIC, 10, 0)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 10)
        assert await lost(mesh) == []

    play(scene)


def test_closing_a_stranded_channel_needs_its_unknowns_named() -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over(mesh)
        assert (await mesh.channel(CHANNEL)).stranded
        assert "0:0-,1:0-" in (await refusal(mesh)).message
        await close(mesh, (0, 0, -1), (1, 0, -1))
        channel = await mesh.channel(CHANNEL)
        assert (channel.state, channel.stranded, channel.closed) == (DRAINED, False, True)
        east = mesh.kafka.named("east")
        east.start()
        await mesh.until(lambda: east.topic_config(TOPIC)["max.message.bytes"] == "0", 20, "it is not sealed")
        await mesh.until(lambda: east.topic_config(TOPIC)["retention.ms"] != "-1", 20, "it is kept for ever")

    play(scene)


async def told_late(mesh: Mesh, *, done: bool) -> list[OffsetRanges]:
    """Losses of a truncated log that are told when its producer, which nobody waited for any more, is back."""
    await filled(mesh)
    east = mesh.kafka.named("east")
    east.kill()
    await mesh.until_channel(CHANNEL, lambda channel: channel.drain_step == DRAIN_STEP_SEAL, 60)
    east.truncate(FIRST, 7)
    east.start()
    await mesh.until_channel(CHANNEL, at_its_groups, 30)
    if done:
        await mesh.commit("east", "indexer", TOPIC, 7, 0)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 10)
    assert await lost(mesh) == []
    await open_producer(mesh, left=[ChannelLeft(channel=CHANNEL, next_offsets={0: 10})])
    await asyncio.sleep(LOSS_SEEN_SECONDS + 5)
    await open_producer(mesh, left=[ChannelLeft(channel=CHANNEL, next_offsets={0: 10})])
    await asyncio.sleep(5)
    return await lost(mesh)


@pytest.mark.parametrize("done", [False, True], ids=["drains", "drained"])
def test_what_a_producer_tells_that_was_not_waited_for_counts(done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        assert await told_late(mesh, done=done) == [((0, 7, 9),)], "told once"
        channel = await mesh.channel(CHANNEL)
        assert channel.state == (DRAINED if done else DRAINING)
        assert named(channel.lost) == [(0, 7, 9)] and list(channel.acknowledged) == [10, 0]

    async def unheard(mesh: Mesh) -> None:
        assert await told_late(mesh, done=done) == [], "the control: nobody misses them"

    play(scene)
    monkeypatch.setattr(channel_steps, "late_receipts", lambda channel, command: [])
    play(unheard)


@pytest.mark.parametrize("replaced", [True, False], ids=["another cluster", "the same, empty"])
def test_a_cluster_that_returns_empty_reports_a_loss(replaced: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await filled(mesh, failover=FAILOVER_MODE_OFF)
        east = mesh.kafka.named("east")
        east.kill()
        await mesh.until_channel(CHANNEL, lambda channel: channel.stranded, 10)
        east.empty(replaced=replaced)
        east.start()
        channel = await mesh.until_channel(CHANNEL, is_lost, 40)
        assert channel.state == ACTIVE and named(channel.lost) == [(0, 0, -1), (1, 0, -1)]
        await mesh.move(to_cluster="west")
        await leave(mesh, producer)
        await mesh.until_channel(CHANNEL, lambda channel: named(channel.lost) == [(0, 0, 9)], 30)
        assert (await close(mesh, (0, 0, 9))).channel.state == DRAINED

    play(scene)


def test_a_loss_of_a_channel_in_use_that_was_none_is_taken_back() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh, failover=FAILOVER_MODE_OFF)
        east = mesh.kafka.named("east")
        east.kill()
        await mesh.until_channel(CHANNEL, lambda channel: channel.stranded, 10)
        topics, east._topics = east._topics, {}
        east.start()
        await mesh.until_channel(CHANNEL, is_lost, 40)
        east._topics = topics  # a disk that was mounted late
        await mesh.until_channel(CHANNEL, lambda channel: not channel.lost, 5)
        await asyncio.sleep(60)
        assert await lost(mesh) == [((0, 0, OPEN), (1, 0, OPEN)), ()]

    play(scene)


async def half_dead(mesh: Mesh) -> Producer:
    """Ten records on one of two brokers of east, of which a group has done four, and three on the other, all done."""
    await mesh.start_registry("registry-0")
    await mesh.start_assigner()
    await mesh.create_cluster("east", brokers=2)
    await mesh.create_cluster("west")
    await mesh.create_stream(clusters=["east", "west"], replication_factor=1)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    await mesh.append("east", TOPIC, 1, 3)
    await mesh.commit("east", "indexer", TOPIC, 4, 3)
    producer = await open_producer(mesh)
    await mesh.until(lambda: bool(producer.routes), 2, "no route")
    await producer.acknowledge(producer.routes[-1].revision)
    return producer


def test_a_leaderless_channel_closes_as_if_its_cluster_were_away() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await half_dead(mesh)
        mesh.kafka.named("east").stop_broker(2)  # and its disk is gone
        await leave(mesh, producer)
        await mesh.until_channel(CHANNEL, lambda channel: channel.drain_step == DRAIN_STEP_SEAL, 30)
        await asyncio.sleep(5)
        assert "0:0-,1:0-" in (await refusal(mesh)).message
        assert (await close(mesh, (0, 0, -1), (1, 0, -1))).channel.state == DRAINED

    play(scene)


@pytest.mark.parametrize("broker", [1, 2], ids=["not done", "done"])
def test_a_sealed_channel_without_leaders_is_named_as_it_ended(broker: int) -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await half_dead(mesh)
        await mesh.move(to_cluster="west")
        await leave(mesh, producer)
        await mesh.until_channel(CHANNEL, at_its_groups, 10)
        mesh.kafka.named("east").stop_broker(broker)
        await asyncio.sleep(5)
        assert named((await close(mesh, dry_run=True)).given_up) == [(0, 4, 9)]
        assert (await close(mesh, (0, 4, 9))).channel.state == DRAINED

    play(scene)


def test_a_read_only_cluster_s_channel_closes_as_if_it_were_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its controllers are gone for good: brokers serve what they have, and configure no topic."""
    real = MemoryCluster.alter_topic_config

    def refuse(self: MemoryCluster, topic: str, changes: Mapping[str, str]) -> None:
        if topic == TOPIC:
            raise ClusterUnavailable("no controller answers")
        real(self, topic, changes)

    async def scene(mesh: Mesh) -> None:
        producer = await filled(mesh)
        monkeypatch.setattr(MemoryCluster, "alter_topic_config", refuse)
        await mesh.move(to_cluster="west")
        await leave(mesh, producer)
        channel = await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 10)
        assert list(channel.drain_holders) == ["no controller answers"]
        assert "0:0-,1:0-" in (await refusal(mesh)).message
        assert (await close(mesh, (0, 0, -1), (1, 0, -1))).channel.state == DRAINED

    play(scene)


def test_a_channel_whose_drain_needs_no_help_is_not_closed() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await filled(mesh)
        assert "is ACTIVE" in (await refusal(mesh)).message
        await mesh.move(to_cluster="west")
        assert "goes on by itself" in (await refusal(mesh)).message
        await leave(mesh, producer)
        await mesh.until_channel(CHANNEL, lambda channel: bool(channel.end_offsets), 10)
        assert named((await close(mesh, dry_run=True)).given_up) == [(0, 4, 9)], "what its group has not done"
        await mesh.commit("east", "indexer", TOPIC, 10, 0)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 10)
        assert not [event for event in await events(mesh) if isinstance(event, ChannelClosed)]

    play(scene)


async def drained_without_its_end(mesh: Mesh) -> bool:
    """Whether the drain of a truncated log ended although records with receipts are gone, and nothing was told."""
    await failed_over(mesh)
    east = mesh.kafka.named("east")
    east.truncate(FIRST, 7)
    east.start()
    await mesh.until_channel(CHANNEL, lambda channel: bool(channel.end_offsets), 40)
    await mesh.commit("east", "indexer", TOPIC, 7, 0)
    await asyncio.sleep(30)
    told = await events(mesh)
    drained = [event for event in told if isinstance(event, ChannelDrained) and event.ref == ("live", 1)]
    return bool(drained) and not await lost(mesh)


def test_a_registry_that_forgets_a_receipt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ends_in_silence() -> bool:
        return await drained_without_its_end(Mesh())

    assert not run_virtual(ends_in_silence())
    monkeypatch.setattr(drain, "missing", lambda known, ends: ())
    monkeypatch.setattr(surveys, "missing", lambda known, ends: ())
    monkeypatch.setattr(surveys, "losses", lambda known, ends: [])
    assert run_virtual(ends_in_silence())
