"""A cluster returns without its records: the loss is told by range, nothing ends in silence, a person can close."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from braid.api.registry.v1.route_pb2 import ChannelLeft, WatchRoutesRequest
from braid.api.registry.v1.stream_pb2 import (
    DRAIN_STEP_SEAL,
    FAILOVER_MODE_OFF,
)
from braid.kafka.memory import MemoryCluster
from braid.kernel.limits.registry.resources import LOSS_SEEN_SECONDS
from braid.kernel.offset_ranges import OPEN, OffsetRanges
from braid.kernel.ports import KafkaAdmin, TopicPartition
from services.registry.domain import channel_steps
from services.registry.kafka import drain, surveys
from services.registry.model import channels
from services.registry.model.stream_events import ChannelClosed, ChannelDrained
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, STANDBY, Mesh, open_producer
from tests.unit.registry.scenarios.returning_without import (
    CHANNEL,
    FIRST,
    RETIRED,
    TOPIC,
    at_its_groups,
    close,
    events,
    failed_over,
    filled,
    is_lost,
    leave,
    lost,
    named,
    play,
    refusal,
)


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
