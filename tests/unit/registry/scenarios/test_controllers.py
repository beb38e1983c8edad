"""No controller answers, on virtual time: what a cluster carries goes on, and nothing new comes."""

import asyncio

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.kernel.limits.registry.health import CONTROLLER_LOOK_SECONDS, NO_TOPICS_AFTER_SECONDS
from tests.unit.registry.mesh import Mesh, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import HEALTHY, elapsed, play

# A question may have just been answered, and each takes as long as a call may.
NO_TOPICS_SEEN_SECONDS = NO_TOPICS_AFTER_SECONDS + 2 * CONTROLLER_LOOK_SECONDS + 1


def test_a_cluster_making_no_topics_keeps_but_gains_no_traffic() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west", "north"):
            await mesh.create_cluster(name)
        await mesh.create_stream(clusters=["west"])
        west = mesh.kafka.named("west")
        west.lose_controller()
        told = await mesh.until_health("west", "HALF_DEAD", NO_TOPICS_SEEN_SECONDS)
        assert told.status.verdict == cluster_pb2.HEALTH_VERDICT_NO_TOPICS
        assert "it makes no topics: " in told.status.health_reason and told.status.evidence.no_topics
        stream = await mesh.create_stream("later", clusters=["east", "west", "north"])
        await asyncio.sleep(5)
        stream = await mesh.stream("later")
        assert {each.cluster for each in stream.status.channels} == {"east", "north"}
        mesh.kafka.named("east").kill()
        await mesh.until_health("east", "DOWN", 3)
        await asyncio.sleep(1)
        assert mesh.active(await mesh.stream("later")) == ["north"]
        assert mesh.active(await mesh.stream()) == ["west"]  # it writes on there
        west.find_controller()
        assert 9 < await elapsed(mesh, "west", "HEALTHY", 30) < 20

    play(scene)


@pytest.mark.parametrize("seconds", [3, 40])
def test_a_spare_that_could_not_be_made_holds_up_no_failover(seconds: int) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west", "north"):
            await mesh.create_cluster(name)
        mesh.kafka.named("west").lose_controller()
        await mesh.create_stream(clusters=["east", "west", "north"])
        await asyncio.sleep(seconds)  # before it is known, and after
        mesh.kafka.named("east").kill()
        await mesh.until_channel("logs/live/1", lambda each: each.stranded, 4)
        await asyncio.sleep(1)
        assert mesh.active(await mesh.stream()) == ["north"]

    play(scene)


def test_an_election_of_a_controller_is_no_ailment() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        west = mesh.kafka.named("west")
        for _ in range(10):
            west.lose_controller()
            await asyncio.sleep(7)
            west.find_controller()
            for _ in range(20):
                assert (await mesh.cluster("west")).status.health == HEALTHY
                await asyncio.sleep(0.5)

    play(scene)


def test_refusing_new_topics_is_told_from_having_lost_partitions() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", brokers=3, health=cluster_pb2.HealthThresholds(no_topics_after_seconds=6.0))
        await mesh.create_cluster("west")
        await mesh.create_stream(lanes=3, clusters=["east", "west"], replication_factor=1)
        await asyncio.sleep(1)
        east = mesh.kafka.named("east")
        east.stop_broker(3)
        lost = await mesh.until_health("east", "HALF_DEAD", 8)
        assert lost.status.verdict == cluster_pb2.HEALTH_VERDICT_HALF_DEAD
        east.lose_controller()
        await asyncio.sleep(NO_TOPICS_SEEN_SECONDS)
        assert (await mesh.cluster("east")).status.verdict == cluster_pb2.HEALTH_VERDICT_HALF_DEAD  # what is worse
        east.start_broker(3)
        await asyncio.sleep(3)
        found = (await mesh.cluster("east")).status
        assert (found.health, found.verdict) == (lost.status.health, cluster_pb2.HEALTH_VERDICT_NO_TOPICS)

    play(scene)


def test_a_cluster_back_from_death_is_not_said_to_make_no_topics() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        east = mesh.kafka.named("east")
        for _ in range(3):
            east.pause()
            await mesh.until_health("east", "DOWN", 4)
            await asyncio.sleep(20)
            east.resume()
            found = await mesh.until_health("east", "HEALTHY", 15)
            assert not found.status.evidence.no_topics

    play(scene)
