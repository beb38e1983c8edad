"""A person closes a channel whose cluster cannot drain it, and names what is given up."""

import asyncio
from collections.abc import Mapping

import pytest

from braid.api.registry.v1.stream_pb2 import (
    DRAIN_STEP_SEAL,
)
from braid.kafka.memory import MemoryCluster
from braid.kernel.errors import ClusterUnavailable
from services.registry.model import channels
from services.registry.model.stream_events import ChannelClosed
from services.registry.policy import channel_work
from services.registry.policy.world import World
from tests.unit.registry.mesh import DRAINED, DRAINING, STANDBY, Mesh, Producer, open_producer
from tests.unit.registry.scenarios.returning_without import (
    CHANNEL,
    TOPIC,
    at_its_groups,
    close,
    events,
    failed_over,
    filled,
    is_lost,
    leave,
    named,
    play,
    refusal,
)


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
