"""Clusters fall ill on virtual time, each in its way: what the registry concludes, when, and what it does about it."""

import asyncio

from braid.api.registry.v1 import cluster_pb2
from braid.kernel.limits.registry.health import (
    CHANNEL_GONE_AFTER_SECONDS,
    FLAP_HOLD_SECONDS,
    SLOW_AFTER_SECONDS,
)
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINING, Mesh, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import (
    DEAD,
    HEALTHY,
    SUSPECT,
    WELL,
    elapsed,
    play,
    with_timeout,
)

# --- the registry itself


def test_a_registry_that_was_stopped_blames_no_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        process = mesh.processes["registry-0"]
        for seconds in (0.2, 0.6, 0.9, 1.2, 1.7):
            await asyncio.sleep(1.03)
            process.tasks.pause()
            await asyncio.sleep(seconds)
            process.tasks.resume()
            for _ in range(20):
                await asyncio.sleep(0.05)
                states = [(await mesh.cluster(name)).status.health for name in ("east", "west")]
                assert states == [HEALTHY, HEALTHY], seconds

    play(scene)


def test_a_registry_that_is_often_late_still_sees_a_death() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        process = mesh.processes["registry-0"]

        async def stumble() -> None:
            while True:
                process.tasks.pause()
                await asyncio.sleep(0.3)
                process.tasks.resume()
                await asyncio.sleep(0.3)

        stumbling = asyncio.ensure_future(stumble())
        mesh.kafka.named("east").pause()
        assert await elapsed(mesh, "east", "DOWN", 10) < 5
        stumbling.cancel()

    play(scene)


# --- slow, half-dead, flapping


def test_pauses_are_no_slowness_and_slowness_moves_traffic() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        east = mesh.kafka.named("east")
        await asyncio.sleep(30)
        for _ in range(40):
            east.pause()
            await asyncio.sleep(0.2)
            east.resume()
            await asyncio.sleep(0.4)
            assert (await mesh.cluster("east")).status.health in (HEALTHY, SUSPECT)
        east.slow_seconds = 0.35  # an append; a look takes three requests
        await mesh.until_health("east", "SLOW", SLOW_AFTER_SECONDS + 15)
        assert mesh.active(await mesh.stream()) == ["west"]
        channel = await mesh.channel("logs/live/1")
        assert channel.state == DRAINING and not channel.stranded  # it is reached: its drain goes on
        found = await mesh.cluster("east")
        assert found.status.verdict == cluster_pb2.HEALTH_VERDICT_SLOW and "usual" in found.status.health_reason
        east.slow_seconds = 0.0
        assert 9 < await elapsed(mesh, "east", "HEALTHY", 30) < 20

    run_virtual(with_timeout(scene))


def test_only_a_channel_that_lost_too_many_leaders_moves() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west"):
            await mesh.create_cluster(name, brokers=3)
        stream = await mesh.create_stream(lanes=2, clusters=["east", "west"], replication_factor=1)
        assert mesh.active(stream) == mesh.active(stream, "dlq") == ["east"]
        await asyncio.sleep(1)
        mesh.kafka.named("east").stop_broker(2)  # of `live` it led partition 1; of `dlq` nothing
        half = await mesh.until_health("east", "HALF_DEAD", 8)
        assert "braid.logs.live.1/1" in half.status.health_reason
        assert (list(half.status.evidence.missing_brokers), half.status.evidence.gone_partitions) == ([2], 1)
        moved = await mesh.until_channel("logs/live/1", lambda each: each.state == DRAINING, CHANNEL_GONE_AFTER_SECONDS)
        assert not moved.stranded
        stream = await mesh.stream()
        assert (mesh.active(stream), mesh.active(stream, "dlq")) == (["west"], ["east"])
        mesh.kafka.named("east").start_broker(2)
        await mesh.until_health("east", "HEALTHY", 20)

    play(scene)


def test_one_broker_of_three_is_named_and_condemns_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west"):
            await mesh.create_cluster(name, brokers=3)
        await mesh.create_stream(lanes=6, clusters=["east", "west"])
        await asyncio.sleep(1)
        mesh.kafka.named("east").stop_broker(2)
        await asyncio.sleep(20)
        found = await mesh.cluster("east")
        assert found.status.health == HEALTHY
        evidence = found.status.evidence
        assert (evidence.brokers, list(evidence.missing_brokers), evidence.gone_partitions) == (2, [2], 0)
        assert evidence.under_replicated_partitions >= 6
        assert evidence.under_replicated_topic_count == 2
        assert evidence.under_replicated_topics == ["braid.logs.dlq.1", "braid.logs.live.1"]

    play(scene)


def test_most_of_a_cluster_gone_is_a_dead_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west"):
            await mesh.create_cluster(name, brokers=3)
        await mesh.create_stream(lanes=6, clusters=["east", "west"], replication_factor=1)
        for broker in (1, 2):
            mesh.kafka.named("east").stop_broker(broker)
        found = await mesh.until_health("east", "DOWN", 10)
        assert found.status.verdict == cluster_pb2.HEALTH_VERDICT_HALF_DEAD
        assert mesh.active(await mesh.stream()) == ["west"]
        for broker in (1, 2):
            mesh.kafka.named("east").start_broker(broker)
        await mesh.until_health("east", "HEALTHY", 20)

    play(scene)


def test_the_fourth_fall_within_five_minutes_is_paid_for() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        east = mesh.kafka.named("east")
        for fall in range(4):
            east.kill()
            await mesh.until_health("east", "DOWN", 3)
            east.start()
            if fall < 3:
                assert await elapsed(mesh, "east", "HEALTHY", 20) < 12
        held = await mesh.until_health("east", "FLAPPING", 12)
        assert held.status.evidence.falls == 4 and "too often" in held.status.health_reason
        assert (
            FLAP_HOLD_SECONDS - 12 < await elapsed(mesh, "east", "HEALTHY", FLAP_HOLD_SECONDS) < FLAP_HOLD_SECONDS - 8
        )

    play(scene)


def test_falls_are_remembered_by_the_next_leader() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh, registries=2)
        east = mesh.kafka.named("east")
        for fall in range(4):
            east.kill()
            await mesh.until_health("east", "DOWN", 3)
            if fall == 3:
                mesh.kill((await mesh.leader()).instance)
                await mesh.leader()
            east.start()
            await mesh.until_health("east", "HEALTHY" if fall < 3 else "FLAPPING", 20)

    play(scene)


# --- thresholds of a cluster's own


def test_a_cluster_is_judged_by_the_numbers_it_declares() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        health = cluster_pb2.HealthThresholds(down_after_seconds=5.0, healthy_after_seconds=2.0, flap_falls=0)
        north = await mesh.create_cluster("north", health=health)
        assert north.spec.health == health
        for _ in range(5):
            mesh.kafka.named("north").kill()
            assert 4.8 < await elapsed(mesh, "north", "DOWN", 7) < 5.6
            mesh.kafka.named("north").start()
            assert await elapsed(mesh, "north", "HEALTHY", 5) < 3
        told = (await mesh.cluster("north")).status.evidence.thresholds
        assert (told.down_after_seconds, told.slow_factor) == (5.0, 8.0)

    play(scene)


def test_a_new_cluster_shows_its_evidence() -> None:
    async def scene(mesh: Mesh) -> None:
        stream = await two_clusters(mesh)
        await asyncio.sleep(5)
        assert any(each.state == ACTIVE for each in stream.status.channels)
        found = (await mesh.cluster("east")).status
        assert (found.verdict, found.health_reason, found.evidence.failed) == (WELL, "", "")
        assert (found.evidence.brokers, found.evidence.partitions) == (1, 4)  # the canary, `live` and `dlq`
        assert found.evidence.looked_ms > 0 and found.evidence.slow_append_seconds > 0
        mesh.kafka.named("east").kill()
        down = await mesh.until_health("east", "DOWN", 3)
        assert (down.status.verdict, down.status.evidence.failed[:9]) == (DEAD, "metadata:")

    play(scene)
