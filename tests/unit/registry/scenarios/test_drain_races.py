"""Events between the steps of a drain, or within one: the drain holds, and says why."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import TopicSealed
from braid.kernel.ports import Committed, KafkaAdmin, TopicPartition
from services.registry.kafka import drain, surveys
from services.registry.model.channels import Channel
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import DRAINED, DRAINING, Mesh, open_producer, two_clusters

TOPIC = "braid.logs.live.1"
FIRST = TopicPartition(TOPIC, 0)
CHANNEL = "logs/live/1"
Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def filled(mesh: Mesh) -> None:
    """Ten records on east, and a group that has done them."""
    await two_clusters(mesh)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    await mesh.commit("east", "indexer", TOPIC, 10)


async def held_by(mesh: Mesh, holder: str) -> None:
    """The drain reaches its last step and stays there for this reason."""
    await mesh.until_channel(CHANNEL, lambda channel: holder in channel.drain_holders, 20)
    await asyncio.sleep(5)
    channel = await mesh.channel(CHANNEL)
    assert channel.state == DRAINING and list(channel.drain_holders) == [holder]


async def drained(mesh: Mesh) -> None:
    await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 10)


@pytest.mark.parametrize("before", [{}, {"late": True}], ids=["registers", "returns from idleness"])
def test_a_group_that_comes_during_the_question_holds_the_drain(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, bool]
) -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        mesh.assigner.groups.update(before)
        real = surveys.records_left

        def coming(*arguments: Any) -> int:
            mesh.assigner.groups["late"] = False
            return real(*arguments)

        monkeypatch.setattr(surveys, "records_left", coming)
        await mesh.move(to_cluster="west")
        await held_by(mesh, "late (10 records)")
        await mesh.commit("east", "late", TOPIC, 10)
        await drained(mesh)

    play(scene)


@pytest.mark.parametrize("expired", [False, True], ids=["waited for", "idle expired"])
def test_a_pending_reset_holds_the_drain(expired: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        mesh.assigner.groups["indexer"] = expired
        mesh.assigner.resetting["indexer"] = [CHANNEL]
        await mesh.move(to_cluster="west")
        await held_by(mesh, "indexer (its progress is being reset)")
        mesh.assigner.groups["indexer"] = False
        mesh.assigner.resetting["indexer"] = ["other/live/1"]
        await mesh.commit("east", "indexer", TOPIC, 4)
        await held_by(mesh, "indexer (6 records)")
        await mesh.commit("east", "indexer", TOPIC, 10)
        await drained(mesh)

    play(scene)


def test_a_reset_asked_and_written_during_a_look_holds_the_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        real, times = surveys.records_left, [1]

        def resetting(*arguments: Any) -> int:
            left = real(*arguments)
            mesh.assigner.resets["indexer"] = times[0] = (
                times[0] + 1
            )  # by now the bases that were read are no more true
            return left

        monkeypatch.setattr(surveys, "records_left", resetting)
        await mesh.move(to_cluster="west")
        await held_by(mesh, "indexer (its progress was reset just now)")
        monkeypatch.setattr(surveys, "records_left", real)
        await drained(mesh)

    play(scene)


async def ended(mesh: Mesh) -> None:
    """The drain has read where the logs end, and waits for a group that has one record left."""
    await filled(mesh)
    await mesh.commit("east", "indexer", TOPIC, 9)
    await mesh.move(to_cluster="west")
    await held_by(mesh, "indexer (1 records)")


def test_a_batch_copied_after_the_end_was_read_is_waited_for() -> None:
    async def scene(mesh: Mesh) -> None:
        await ended(mesh)
        log = mesh.kafka.named("east").log(FIRST)
        log.append([NewRecord(1, None, b"late", ())], 0, -1, 0)  # past the seal: it was in the leader's log before
        await mesh.commit("east", "indexer", TOPIC, 10)
        await held_by(mesh, "indexer (1 records)")
        assert list((await mesh.channel(CHANNEL)).end_offsets) == [11, 0]
        await mesh.commit("east", "indexer", TOPIC, 11)
        await drained(mesh)

    play(scene)


def test_records_a_leader_took_are_awaited_until_fully_copied() -> None:
    """A producer that was given up may hear of its acknowledgement after the drain, and report it."""

    async def scene(mesh: Mesh) -> None:
        await ended(mesh)
        log = mesh.kafka.named("east").log(FIRST)
        log.append([NewRecord(1, None, b"late", ())], 0, -1, 0)
        log.uncopied = 1  # a copy in sync is frozen, or was just killed
        await mesh.commit("east", "indexer", TOPIC, 10)
        await held_by(mesh, "partitions 0: not all copies have what their leaders took")
        log.uncopied = 0
        await held_by(mesh, "indexer (1 records)")
        assert list((await mesh.channel(CHANNEL)).end_offsets) == [11, 0]
        await mesh.commit("east", "indexer", TOPIC, 11)
        await drained(mesh)

    play(scene)


UNSEALED = {"max.message.bytes": "1048588"}


def test_a_removed_seal_is_restored_and_late_writers_awaited() -> None:
    async def scene(mesh: Mesh) -> None:
        await ended(mesh)
        mesh.kafka.named("east").alter_topic_config(TOPIC, UNSEALED)  # by what keeps topics as somebody declared them
        await mesh.append("east", TOPIC, 0)
        await asyncio.sleep(2)
        with pytest.raises(TopicSealed):
            await mesh.append("east", TOPIC, 0)
        await mesh.commit("east", "indexer", TOPIC, 10)
        await held_by(mesh, "indexer (1 records)")
        await mesh.commit("east", "indexer", TOPIC, 11)
        await drained(mesh)

    play(scene)


async def drained_over(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> int:
    """The seal is taken off while groups are counted for the last time: records beyond the end of what was drained."""
    await ended(mesh)
    east = mesh.kafka.named("east")
    real, writes = surveys.records_left, [1]

    def unsealing(*arguments: Any) -> int:
        left = real(*arguments)
        if not left and writes:
            writes.clear()
            east.alter_topic_config(TOPIC, UNSEALED)
            east.append(FIRST, [NewRecord(mesh.me.host.clock.now_ms(), None, b"late", ())])
        return left

    monkeypatch.setattr(surveys, "records_left", unsealing)
    await mesh.commit("east", "indexer", TOPIC, 10)
    await asyncio.sleep(10)
    if (await mesh.channel(CHANNEL)).state != DRAINED:
        return 0
    return east.log(FIRST).end - (await mesh.channel(CHANNEL)).end_offsets[0]


def test_the_seal_is_proved_again_before_a_drain_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def beyond() -> int:
        return await drained_over(Mesh(), monkeypatch)

    async def believe(admin: KafkaAdmin, channel: Channel, ends: Mapping[TopicPartition, int]) -> None:
        """Takes a seal that was recorded for one that holds."""

    assert run_virtual(beyond()) == 0
    monkeypatch.undo()
    monkeypatch.setattr(drain, "_moved_on", believe)
    assert run_virtual(beyond()) == 1


def test_a_log_shorter_than_what_was_seen_of_it_ends_no_drain() -> None:
    async def scene(mesh: Mesh) -> None:
        await ended(mesh)
        mesh.kafka.named("east").truncate(FIRST, 7)
        await mesh.until_channel(CHANNEL, lambda channel: len(channel.drain_holders) == 3, 5)
        await asyncio.sleep(5)
        channel = await mesh.channel(CHANNEL)
        assert channel.state == DRAINING and list(channel.drain_holders) == [
            f"the registry saw {TOPIC}/0 up to 10, it ends at 7: offsets 7 to 9 are lost?",
            f"indexer saw {TOPIC}/0 up to 9, it ends at 7: offsets 7 to 8 are lost?",
            "indexer (1 records)",
        ]

    play(scene)


def test_a_log_shortened_before_its_end_was_read_ends_no_drain() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        mesh.kafka.named("east").truncate(FIRST, 7)
        await mesh.move(to_cluster="west")
        await held_by(mesh, f"indexer saw {TOPIC}/0 up to 10, it ends at 7: offsets 7 to 9 are lost?")

    play(scene)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
@pytest.mark.parametrize("late", [False, True], ids=["before the seal", "after its end was read"])
def test_another_topic_under_the_name_ends_no_drain(again: bool, late: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await (ended(mesh) if late else filled(mesh))
        east = mesh.kafka.named("east")
        mesh.assigner.groups.clear()
        east.delete_topic(TOPIC)
        if again:
            east.create_topic(TOPIC, 2, 1, {})
        if not late:
            await mesh.move(to_cluster="west")
        what = "was deleted and made again: the channel's" if again else "is gone: its"
        await held_by(mesh, f"topic {TOPIC} {what} records are lost?")

    play(scene)


def test_retention_restored_by_a_stopped_leader_is_lifted_again() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        east, stale = mesh.kafka.named("east"), {"retention.ms": "3600000"}
        producer = await open_producer(mesh)
        await mesh.until(lambda: bool(producer.routes), 2, "no route")
        await producer.acknowledge(producer.routes[0].revision)
        await mesh.commit("east", "indexer", TOPIC, 9)
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: east.topic_config(TOPIC)["retention.ms"] == "-1", 5, "retention is not lifted")
        east.alter_topic_config(TOPIC, stale)
        await mesh.until(lambda: len(producer.routes) > 1, 5, "no new route")
        await producer.acknowledge(producer.routes[-1].revision)
        await held_by(mesh, "indexer (1 records)")
        assert east.topic_config(TOPIC)["retention.ms"] == "-1"
        east.alter_topic_config(TOPIC, stale)
        await asyncio.sleep(2)
        assert east.topic_config(TOPIC)["retention.ms"] == "-1"

    play(scene)


def test_a_commit_before_a_cut_ends_no_drain_of_later_records() -> None:
    """Its group did ten records; four of them were lost, and six others lie from there on."""

    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        east = mesh.kafka.named("east")
        done = Committed(10, "", east.leader_epoch_of(FIRST))
        await mesh.kafka.cluster("east:9092", "").offsets().commit("indexer", {FIRST: done}, None)
        east.kill()
        east.truncate(FIRST, 6)
        east.start()
        await mesh.append("east", TOPIC, 0, 6)
        await mesh.move(to_cluster="west")
        await held_by(mesh, "indexer (6 records)")
        again = Committed(12, "", east.leader_epoch_of(FIRST))
        await mesh.kafka.cluster("east:9092", "").offsets().commit("indexer", {FIRST: again}, None)
        await drained(mesh)

    play(scene)
