"""Producers tell the registry which clusters they reach; their reports count by host, by number and by time."""

import asyncio

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.kernel.limits.registry.health import (
    COMPLAINT_PAUSE_SECONDS,
    SOLE_WITNESS_SECONDS,
)
from services.registry.liveness.witnesses import ReportCounts
from tests.unit.registry.mesh import Mesh, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import (
    DEAD,
    HEALTHY,
    PRODUCERS_CUT_OFF,
    REGISTRY_CUT_OFF,
    SUSPECT,
    complaining,
    elapsed,
    play,
    writing,
)

# --- witnesses


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
