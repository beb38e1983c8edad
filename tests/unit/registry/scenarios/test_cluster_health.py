"""Clusters fall ill on virtual time, each in its way: what the registry concludes, when, and what it does about it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.kernel.limits.registry.health import (
    CHANNEL_GONE_AFTER_SECONDS,
    COMPLAINT_PAUSE_SECONDS,
    FLAP_HOLD_SECONDS,
    SLOW_AFTER_SECONDS,
    SOLE_WITNESS_SECONDS,
)
from services.registry.liveness.witnesses import ReportCounts
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINING, Mesh, Producer, open_producer, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
WELL = cluster_pb2.HEALTH_VERDICT_WELL
DEAD = cluster_pb2.HEALTH_VERDICT_DEAD
PRODUCERS_CUT_OFF = cluster_pb2.HEALTH_VERDICT_PRODUCERS_CUT_OFF
REGISTRY_CUT_OFF = cluster_pb2.HEALTH_VERDICT_REGISTRY_CUT_OFF
HEALTHY = cluster_pb2.CLUSTER_HEALTH_HEALTHY
SUSPECT = cluster_pb2.CLUSTER_HEALTH_SUSPECT


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def elapsed(mesh: Mesh, name: str, health: str, seconds: float) -> float:
    """How long it took until a cluster's health was as named."""
    began = mesh.me.host.clock.elapsed()
    await mesh.until_health(name, health, seconds)
    return mesh.me.host.clock.elapsed() - began


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


async def with_timeout(scene: Scene) -> None:
    """A mesh whose looks may take longer than three slow requests do."""
    mesh = Mesh()
    mesh.tuning = type(mesh.tuning)(30.0, 0.25, 1.5)
    await scene(mesh)


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


# --- witnesses


async def writing(mesh: Mesh, hosts: list[str]) -> list[Producer]:
    """Producers, one a host named, whose route is known."""
    found = [await open_producer(mesh, f"p{number}", host=host) for number, host in enumerate(hosts)]
    await mesh.until(lambda: all(each.routes for each in found), 2, "no route")
    return found


async def complaining(mesh: Mesh, producers: list[Producer], seconds: float) -> None:
    ends = mesh.me.host.clock.elapsed() + seconds
    while mesh.me.host.clock.elapsed() < ends:
        for producer in producers:
            await producer.complain("east")
        await asyncio.sleep(0.1)


def test_a_cut_off_registry_believes_who_reaches_the_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        one, other = await writing(mesh, ["host-a", "host-b"])
        one.reach = lambda cluster: 20
        mesh.views["registry-0"].cut("east")
        await asyncio.sleep(3)
        for _ in range(100):
            found = await mesh.cluster("east")
            assert (found.status.health, found.status.verdict) == (SUSPECT, REGISTRY_CUT_OFF)
            await asyncio.sleep(0.2)
        assert "1 of 2 hosts that use it reach it" in found.status.health_reason
        assert mesh.active(await mesh.stream()) == ["east"]
        one.reach = lambda cluster: None  # it falls silent
        assert await elapsed(mesh, "east", "DOWN", 5) < 2.8
        assert mesh.active(await mesh.stream()) == ["west"]
        other.reach = lambda cluster: -1

    play(scene)


def test_who_reaches_it_does_not_outweigh_more_who_do_not() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers = await writing(mesh, ["host-a", "host-b", "host-c"])
        producers[0].reach = lambda cluster: 20
        mesh.views["registry-0"].cut("east")
        asyncio.ensure_future(complaining(mesh, producers[1:], 4))  # noqa: RUF006 - it ends with the test's loop
        assert await elapsed(mesh, "east", "DOWN", 5) < 3.5

    play(scene)


def test_three_producers_of_one_host_are_one_witness() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers = await writing(mesh, ["host-a", "host-a", "host-a", "host-b", "host-c", "host-d"])
        await complaining(mesh, producers[:3], 4)
        found = await mesh.cluster("east")
        assert found.status.health == HEALTHY
        assert (found.status.evidence.hosts, found.status.evidence.hosts_failing) == (4, 1)
        await complaining(mesh, producers[2:5], 3)
        found = await mesh.until_health("east", "DOWN", 1)
        assert found.status.verdict == PRODUCERS_CUT_OFF and "3 of 4 hosts" in found.status.health_reason

    play(scene)


def test_all_hosts_there_are_may_be_fewer_than_three() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers = await writing(mesh, ["host-a", "host-b"])
        await complaining(mesh, producers[:1], 4)
        assert (await mesh.cluster("east")).status.health == HEALTHY
        await complaining(mesh, producers, 3)
        await mesh.until_health("east", "DOWN", 1)

    play(scene)


def test_a_single_host_condemns_a_reachable_cluster_only_late() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers = await writing(mesh, ["host-a", "host-a"])  # twice the same
        speaking = asyncio.ensure_future(complaining(mesh, producers, SOLE_WITNESS_SECONDS + 2))
        assert await elapsed(mesh, "east", "DOWN", SOLE_WITNESS_SECONDS + 1) >= SOLE_WITNESS_SECONDS - 0.1
        found = await mesh.cluster("east")
        assert found.status.verdict == PRODUCERS_CUT_OFF and "1 of 1 hosts" in found.status.health_reason
        await speaking

    play(scene)


async def interrupted(mesh: Mesh) -> None:
    """One host alone complains for nine seconds, is silent for a while, and complains for nine more."""
    await two_clusters(mesh)
    producers = await writing(mesh, ["host-a"])
    for _ in range(2):
        await complaining(mesh, producers, SOLE_WITNESS_SECONDS - 1)
        assert (await mesh.cluster("east")).status.health == SUSPECT
        await asyncio.sleep(COMPLAINT_PAUSE_SECONDS + 0.5)  # it may have been well meanwhile


def test_one_host_alone_that_falls_silent_begins_anew() -> None:
    async def scene(mesh: Mesh) -> None:
        await interrupted(mesh)
        await mesh.until_health("east", "HEALTHY", 4)

    play(scene)


def test_a_short_silence_of_one_host_alone_is_no_answer() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers, began = await writing(mesh, ["host-a"]), mesh.me.host.clock.elapsed()
        for _ in range(3):
            await complaining(mesh, producers, 2)
            await asyncio.sleep(1.2)  # its process was late, and forgave the cluster
        speaking = asyncio.ensure_future(complaining(mesh, producers, 3))
        await mesh.until_health("east", "DOWN", 3)
        assert 0 <= mesh.me.host.clock.elapsed() - began - SOLE_WITNESS_SECONDS < 1.6
        await speaking

    play(scene)


def test_one_host_believed_like_several_would_make_it_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReportCounts, "sole", property(lambda self: False))
    with pytest.raises(AssertionError):
        play(interrupted)


def test_one_host_that_dies_complaining_leaves_the_cluster_well() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        [producer] = await writing(mesh, ["host-a"])
        await complaining(mesh, [producer], SOLE_WITNESS_SECONDS - 2)
        await producer.call.close()
        await mesh.until_health("east", "HEALTHY", 4)
        assert mesh.active(await mesh.stream()) == ["east"]

    play(scene)


def test_a_loss_amid_one_hosts_complaints_takes_the_usual_time() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        speaking = asyncio.ensure_future(complaining(mesh, await writing(mesh, ["host-a"]), 9))
        await asyncio.sleep(5)
        east = mesh.kafka.named("east")
        east.pause()
        await asyncio.sleep(0.9)  # one look fails, or two
        east.resume()
        await asyncio.sleep(0.5)
        assert (await mesh.cluster("east")).status.health == SUSPECT
        east.pause()
        assert 1.2 < await elapsed(mesh, "east", "DOWN", 3) < 2.4
        assert (await mesh.cluster("east")).status.verdict == DEAD
        await speaking

    play(scene)


def test_looks_have_their_full_time_while_one_host_complains() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        speaking = asyncio.ensure_future(complaining(mesh, await writing(mesh, ["host-a"]), 8))
        mesh.kafka.named("east").slow_seconds = 0.2  # a look takes three such requests: less than its time-out
        await asyncio.sleep(8)
        found = (await mesh.cluster("east")).status
        assert (found.health, found.evidence.failed) == (SUSPECT, "")
        await speaking

    play(scene)


def test_how_long_one_host_must_complain_may_be_declared() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", health=cluster_pb2.HealthThresholds(sole_witness_seconds=3.0))
        await mesh.create_cluster("west")
        await mesh.create_stream(clusters=["east", "west"])
        speaking = asyncio.ensure_future(complaining(mesh, await writing(mesh, ["host-a"]), 5))
        assert 2.9 <= await elapsed(mesh, "east", "DOWN", 4) < 3.6
        await speaking

    play(scene)


def test_how_many_hosts_must_agree_may_be_declared() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", health=cluster_pb2.HealthThresholds(witness_hosts=4.0))
        await mesh.create_cluster("west")
        await mesh.create_stream(clusters=["east", "west"])
        producers = await writing(mesh, ["host-a", "host-b", "host-c", "host-d", "host-e"])
        await complaining(mesh, producers[:3], 4)
        assert (await mesh.cluster("east")).status.health == HEALTHY
        await complaining(mesh, producers[:4], 3)
        await mesh.until_health("east", "DOWN", 1)

    play(scene)


def test_one_that_complains_and_reaches_it_again_proves_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        [producer] = await writing(mesh, ["host-a"])
        producer.reach = lambda cluster: 0
        await complaining(mesh, [producer], 5)
        assert (await mesh.cluster("east")).status.health in (HEALTHY, SUSPECT)

    play(scene)


def test_a_killed_cluster_is_down_sooner_if_producers_agree() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers = await writing(mesh, ["host-a"])
        for producer in producers:
            producer.reach = lambda cluster: -1
        mesh.kafka.named("east").kill()
        alone = asyncio.ensure_future(complaining(mesh, producers, 3))
        assert await elapsed(mesh, "east", "DOWN", 3) < 1.0
        await alone
        mesh.kafka.named("west").kill()
        assert 1.4 < await elapsed(mesh, "west", "DOWN", 3) < 2.1

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
