"""A store restored from a backup: what the clusters hold since then is found, drained, and never deleted unread."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest

from braid.api.registry.v1 import cluster_pb2, route_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import TopicSealed
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.registry.resources import RESTORE_ROUTE_GAP, SEAL_CANARIES_MAX
from braid.kernel.ports import TopicPartition
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, STANDBY, Mesh, Producer, open_producer, two_clusters

SPARE, TOPIC = "logs/live/2", "braid.logs.live.2"
Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene, session_seconds: float = 3.0) -> None:
    async def run() -> None:
        await scene(Mesh(session_seconds=session_seconds))

    run_virtual(run())


async def cordon(mesh: Mesh, name: str) -> None:
    request = api.CordonClusterRequest(name=name, cordoned=True)
    await mesh.client.unary("CordonCluster", request, cluster_pb2.Cluster)


async def topics(mesh: Mesh, cluster: str) -> list[str]:
    return list(await mesh.kafka.cluster(f"{cluster}:9092", "").admin().list_topics())


async def restored(mesh: Mesh, *, written: bool = True) -> None:
    """A backup while live/2 is a spare; then it is put on the route, a record is acknowledged, the backup restored."""
    await two_clusters(mesh)
    await mesh.until_channel(SPARE, lambda each: each.state == STANDBY, 5.0)
    backup = mesh.server.backup()
    await mesh.move(to_cluster="west")
    await mesh.until_channel(SPARE, lambda each: each.state == ACTIVE, 5.0)
    if written:
        await mesh.append("west", TOPIC, 0)
    mesh.server.restore(backup)
    await mesh.leader()


def test_a_spare_that_was_written_to_is_drained_and_not_deleted() -> None:
    async def scene(mesh: Mesh) -> None:
        await restored(mesh)
        mesh.assigner.groups["indexer"] = False
        await cordon(mesh, "west")
        await mesh.me.host.clock.sleep(60.0)
        assert TOPIC in await topics(mesh, "west"), "a topic with unread records was deleted"
        channel = await mesh.channel(SPARE)
        assert channel.state == DRAINING
        assert list(channel.drain_holders) == ["indexer (1 records)"]
        await mesh.commit("west", "indexer", TOPIC, 1, 0)
        await mesh.until_channel(SPARE, lambda each: each.state == DRAINED, 10.0)
        assert (await mesh.stream()).status.route_revision > RESTORE_ROUTE_GAP

    play(scene)


def test_a_spare_emptied_by_retention_still_counts_as_written() -> None:
    async def scene(mesh: Mesh) -> None:
        await restored(mesh)
        mesh.kafka.named("west").expire(TopicPartition(TOPIC, 0), 1)
        await cordon(mesh, "west")
        await mesh.until_channel(SPARE, lambda each: each.state == DRAINED, 30.0)
        assert TOPIC in await topics(mesh, "west")

    play(scene)


def test_a_spare_with_one_uncopied_record_is_drained_and_kept() -> None:
    """A copy in sync is frozen; the record is acknowledged once that has it, or is out of step."""

    async def scene(mesh: Mesh) -> None:
        await restored(mesh)
        log = mesh.kafka.named("west").log(TopicPartition(TOPIC, 0))
        log.uncopied = 1
        await cordon(mesh, "west")
        await mesh.me.host.clock.sleep(20.0)
        assert TOPIC in await topics(mesh, "west")
        log.uncopied = 0
        await mesh.until_channel(SPARE, lambda each: each.state == DRAINED, 30.0)
        assert next(iter((await mesh.channel(SPARE)).end_offsets)) == 1

    play(scene)


@pytest.mark.parametrize("canaries", [1, SEAL_CANARIES_MAX + 1])
def test_canaries_taken_late_are_no_records_up_to_a_bound(canaries: int) -> None:
    async def scene(mesh: Mesh) -> None:
        await restored(mesh, written=False)
        admin = mesh.kafka.cluster("west:9092", "").admin()
        for _ in range(canaries):
            await admin.try_append(TopicPartition(TOPIC, 1), SEAL_CANARY, 1.0)
        await cordon(mesh, "west")
        state = stream_pb2.CHANNEL_STATE_RETIRED if canaries == 1 else DRAINED
        await mesh.until_channel(SPARE, lambda each: each.state == state, 30.0)
        assert (TOPIC in await topics(mesh, "west")) == (canaries > 1)

    play(scene)


def test_a_spare_that_was_never_written_to_is_deleted() -> None:
    async def scene(mesh: Mesh) -> None:
        await restored(mesh, written=False)
        await cordon(mesh, "west")
        await mesh.until_channel(SPARE, lambda each: each.state == stream_pb2.CHANNEL_STATE_RETIRED, 10.0)
        assert TOPIC not in await topics(mesh, "west")

    play(scene)


async def restored_after(mesh: Mesh, then: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A backup, then something happens, then the backup is restored."""
    await two_clusters(mesh)
    await mesh.until_channel(SPARE, lambda each: each.state == STANDBY, 5.0)
    backup = mesh.server.backup()
    await then()
    mesh.server.restore(backup)
    await mesh.leader()


def test_channels_used_since_the_backup_are_found_unasked() -> None:
    async def scene(mesh: Mesh) -> None:
        async def there_and_back() -> None:
            await mesh.move(to_cluster="west")
            await mesh.append("west", TOPIC, 0)
            await mesh.move(to_cluster="east")
            await mesh.until_channel("logs/live/3", lambda each: each.state == ACTIVE, 10.0)
            await mesh.append("east", "braid.logs.live.3", 1, 4)

        await restored_after(mesh, there_and_back)
        mesh.assigner.groups["indexer"] = False
        for name in (SPARE, "logs/live/3"):
            await mesh.until_channel(name, lambda each: each.state == DRAINING, 10.0)
        await mesh.commit("east", "indexer", "braid.logs.live.3", 0, 3)
        await mesh.until_channel("logs/live/3", lambda each: list(each.drain_holders) == ["indexer (1 records)"], 30.0)
        assert (await mesh.channel("logs/live/1")).state == ACTIVE
        planned = {each.name for each in (await mesh.stream()).status.channels if each.state == STANDBY}
        assert not planned & {SPARE, "logs/live/3"}

    play(scene)


def test_what_no_history_can_place_is_listed_and_left_alone() -> None:
    async def scene(mesh: Mesh) -> None:
        async def another_stream() -> None:
            await mesh.create_stream("metrics", clusters=["east"])
            await mesh.append("east", "braid.metrics.live.1", 0)
            await mesh.commit("east", "archiver", "braid.metrics.live.1", 1, 0)
            await mesh.commit("east", "indexer", "braid.logs.live.1", 0, 0)

        mesh.assigner.groups["indexer"] = False
        await restored_after(mesh, another_stream)
        await mesh.me.host.clock.sleep(10.0)
        found = (await mesh.cluster("east")).status
        assert {"braid.metrics.live.1"} <= {*found.orphan_topics} <= {"braid.metrics.live.1", "braid.metrics.dlq.1"}
        assert (list(found.orphan_groups), found.orphans) == (["archiver"], len(found.orphan_topics) + 1)
        assert {*found.orphan_topics} <= {*await topics(mesh, "east")}

    play(scene)


def test_a_routed_channel_sealed_since_the_backup_takes_records() -> None:
    async def scene(mesh: Mesh) -> None:
        async def leave() -> None:
            await mesh.move(to_cluster="west")
            await mesh.until_channel("logs/live/1", lambda each: each.state == DRAINED, 60.0)
            with pytest.raises(TopicSealed):
                await mesh.append("east", "braid.logs.live.1", 0)

        await restored_after(mesh, leave)
        await mesh.until_channel("logs/live/1", lambda each: each.state == ACTIVE, 10.0)
        await mesh.me.host.clock.sleep(5.0)
        await mesh.append("east", "braid.logs.live.1", 0)

    play(scene)


async def acknowledges(mesh: Mesh, producer: Producer) -> None:
    """Acknowledges each route that a producer gets."""
    acknowledged = 0
    while not producer.ended:
        await mesh.me.host.clock.sleep(0.2)
        if producer.routes and producer.routes[-1].revision > acknowledged:
            acknowledged = producer.routes[-1].revision
            await producer.acknowledge(acknowledged)


@pytest.mark.parametrize("later", [False, True])
def test_receipts_since_the_backup_reveal_a_log_without_them(later: bool) -> None:
    """The producer says hello before the cluster answers: the history knows a spare, or another channel of that
    name."""
    name, cluster, topic = ("logs/live/3", "east", "braid.logs.live.3") if later else (SPARE, "west", TOPIC)

    async def scene(mesh: Mesh) -> None:
        async def write_and_die() -> None:
            await mesh.move(to_cluster="west")
            if later:
                await mesh.move(to_cluster="east")
                await mesh.until_channel(name, lambda each: each.state == ACTIVE, 10.0)
            await mesh.append(cluster, topic, 0, 10)
            mesh.kafka.named(cluster).kill()

        async def here(*, lost: bool) -> list[stream_pb2.Channel]:
            found = [each for each in (await mesh.stream()).status.channels if each.lost or not lost]
            return [each for each in found if lost or (each.topic == topic and each.state == DRAINING)]

        mesh.assigner.groups["indexer"] = False
        await restored_after(mesh, write_and_die)
        await mesh.me.host.clock.sleep(30.0)  # the route leads elsewhere, if need be
        left = route_pb2.ChannelLeft(channel=name, next_offsets={0: 10}, cluster=cluster, topic=topic)
        producer = await open_producer(mesh, revision=1, left=[left])
        mesh.me.host.tasks.spawn(acknowledges(mesh, producer), "acknowledges")
        await mesh.until(lambda: bool(producer.routes), 5.0, f"no route: {producer.error}")
        mesh.kafka.named(cluster).truncate(TopicPartition(topic, 0), 4)
        mesh.kafka.named(cluster).start()
        for lost in (False, True):
            async with asyncio.timeout(60.0):
                while not await here(lost=lost):
                    await mesh.me.host.clock.sleep(0.5)
        missed = [(each.cluster, each.topic, named(each.lost)) for each in await here(lost=True)]
        assert missed == [(cluster, topic, [(0, 4, 9)])]

    play(scene, session_seconds=20.0)


def named(ranges: Iterable[stream_pb2.OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.last) for each in ranges]


def test_a_silent_cluster_gets_nothing_new_until_it_is_compared() -> None:
    async def scene(mesh: Mesh) -> None:
        async def die() -> None:
            await mesh.move(to_cluster="west")
            await mesh.append("west", TOPIC, 0)
            mesh.kafka.named("west").kill()

        await restored_after(mesh, die)
        await mesh.me.host.clock.sleep(60.0)
        assert (await mesh.channel(SPARE)).state == STANDBY
        mesh.kafka.named("west").start()
        await mesh.until_channel(SPARE, lambda each: each.state in (DRAINING, DRAINED), 60.0)

    play(scene)
