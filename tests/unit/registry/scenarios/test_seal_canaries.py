"""The canary of a seal comes to lie where a lost record lay: that record is told as lost all the same."""

from collections.abc import Callable, Collection, Mapping

import pytest

from braid.api.registry.v1.route_pb2 import ChannelLeft, WatchRoutesRequest
from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.registry.resources import LOSS_SEEN_SECONDS, WORK_RETRY_SECONDS
from braid.kernel.ports import KafkaAdmin, TopicPartition
from services.registry.kafka import surveys
from services.registry.model import channels
from tests.unit.registry.mesh import DRAINED, DRAINING, Mesh, open_producer, two_clusters
from tests.unit.registry.scenarios.returning_without import (
    CHANNEL,
    FIRST,
    TOPIC,
    at_its_groups,
    close,
    filled,
    is_lost,
    leave,
    lost,
    named,
    play,
)

SECOND = TopicPartition(TOPIC, 1)


async def failed_over_with_both(mesh: Mesh) -> None:
    """East died, traffic is on west; the producer that left has receipts for ten records of each partition."""
    producer = await filled(mesh)
    await mesh.append("east", TOPIC, 1, 10)
    mesh.kafka.named("east").kill()
    await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
    left = ChannelLeft(channel=CHANNEL, next_offsets={0: 10, 1: 10})
    await producer.call.send(WatchRoutesRequest(channel_left=left))
    await producer.acknowledge(producer.routes[-1].revision)
    await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 5)


def seal_late(monkeypatch: pytest.MonkeyPatch, after: Callable[[], bool]) -> None:
    """The topic cannot be sealed for a while; then its leaders learn late of the seal, and take canaries meanwhile."""
    real, unsettled = MemoryCluster.alter_topic_config, [True]

    def settle(self: MemoryCluster, topic: str, changes: Mapping[str, str | None]) -> None:
        if topic != TOPIC or not unsettled or "max.message.bytes" not in changes:
            real(self, topic, changes)
        elif not after():
            raise ClusterUnavailable("it changes no configuration")
        else:
            unsettled.clear()

    monkeypatch.setattr(MemoryCluster, "alter_topic_config", settle)


def test_a_canary_hides_no_loss_though_another_is_known_already(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over_with_both(mesh)
        cuts: list[TopicPartition] = []
        seal_late(monkeypatch, lambda: FIRST in cuts)
        east = mesh.kafka.named("east")
        east.truncate(SECOND, 8)
        east.start()
        await mesh.until_channel(CHANNEL, is_lost, 60)
        east.kill()
        assert named((await mesh.channel(CHANNEL)).lost) == [(1, 8, 9)]
        east.truncate(FIRST, 7)
        cuts.append(FIRST)
        east.start()
        await mesh.until_channel(CHANNEL, at_its_groups, 60)
        assert east.log(FIRST).end == 8, "the canary lies at offset 7"
        await mesh.me.host.clock.sleep(LOSS_SEEN_SECONDS + 5)
        assert named((await mesh.channel(CHANNEL)).lost) == [(0, 7, 9), (1, 8, 9)]
        await mesh.commit("east", "indexer", TOPIC, 8, 9)
        assert named((await close(mesh, (0, 7, 9), (1, 8, 9))).given_up) == [(0, 7, 9), (1, 8, 9)]

    play(scene)


def test_canaries_that_refill_a_log_to_its_old_end_hide_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log lost one record, which was told; the canary lies there, and the log is as long as it was."""

    async def scene(mesh: Mesh) -> None:
        await failed_over_with_both(mesh)
        seal_late(monkeypatch, lambda: True)
        east = mesh.kafka.named("east")
        east.truncate(FIRST, 9)
        east.start()
        await mesh.until_channel(CHANNEL, at_its_groups, 60)
        assert east.log(FIRST).end == 10, "the canary lies at offset 9"
        await mesh.commit("east", "indexer", TOPIC, 10, 11)
        await mesh.me.host.clock.sleep(60)
        channel = await mesh.channel(CHANNEL)
        assert named(channel.lost) == [(0, 9, 9)] and channel.state == DRAINING

    play(scene)


def test_a_canary_proves_a_loss_between_the_look_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        await failed_over_with_both(mesh)
        east = mesh.kafka.named("east")

        def cut() -> bool:
            east.truncate(FIRST, 7)
            return True

        seal_late(monkeypatch, cut)
        east.start()
        await mesh.until_channel(CHANNEL, is_lost, 60)
        assert named((await mesh.channel(CHANNEL)).lost) == [(0, 7, 7)], "what the canary proves"
        await mesh.until_channel(CHANNEL, at_its_groups, 60)
        assert named((await mesh.channel(CHANNEL)).lost) == [(0, 7, 9)]

    play(scene)


def test_leaders_learning_late_of_a_seal_get_few_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each canary that comes to lie where a lost record lay proves a loss: that is recorded, and then it is waited."""
    real, late = MemoryCluster.alter_topic_config, 4.0

    async def scene(mesh: Mesh) -> None:
        await failed_over_with_both(mesh)
        clock, east = mesh.me.host.clock, mesh.kafka.named("east")
        began: list[float] = []

        def settle(self: MemoryCluster, topic: str, changes: Mapping[str, str | None]) -> None:
            if topic == TOPIC and "max.message.bytes" in changes:
                began.append(clock.elapsed())
                if clock.elapsed() - began[0] <= late:
                    return
            real(self, topic, changes)

        monkeypatch.setattr(MemoryCluster, "alter_topic_config", settle)
        east.truncate(FIRST, 0)
        east.start()
        await mesh.until_channel(CHANNEL, at_its_groups, 60)
        assert 2 < east.log(FIRST).end <= late / WORK_RETRY_SECONDS + 1
        assert named((await mesh.channel(CHANNEL)).lost) == [(0, 0, 9)]

    play(scene)


def test_a_log_whose_end_showed_late_has_its_own_records_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what was told as lost and lies there after all is taken back, and the drain ends."""
    late = [True]
    real = surveys.read_ends

    async def ends(
        admin: KafkaAdmin, channel: channels.Channel, leaderless: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, int]:
        found = dict(await real(admin, channel, leaderless))
        return {**found, FIRST: 7} if late and FIRST in found else found

    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.assigner.groups["indexer"] = False
        east = mesh.kafka.named("east")
        for number in range(10):
            east.append(FIRST, [NewRecord(0, None, b"record", ())], producer=5, sequence=number)
        producer = await open_producer(mesh)
        await mesh.until(lambda: bool(producer.routes), 2, "no route")
        await producer.acknowledge(producer.routes[-1].revision)
        east.kill()
        await leave(mesh, producer)
        monkeypatch.setattr(surveys, "read_ends", ends)
        east.start()
        await mesh.until_channel(CHANNEL, is_lost, 60)
        late.clear()
        await mesh.commit("east", "indexer", TOPIC, 10, 0)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 60)
        assert await lost(mesh) == [((0, 7, 9),), ()]

    play(scene)
