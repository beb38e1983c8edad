"""Losses of a cluster that was down are looked for as soon as it answers, on virtual time."""

import asyncio

from braid.api.registry.v1 import cluster_pb2
from tests.unit.registry.mesh import Mesh
from tests.unit.registry.scenarios.ailing_clusters import HEALTHY, play


def test_a_cluster_is_dead_while_most_of_our_partitions_are_gone() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west"):
            await mesh.create_cluster(name, brokers=6)
        await mesh.create_stream(lanes=4, clusters=["east", "west"], replication_factor=1)
        for broker in (1, 2, 3):  # half of the canary's, and four of our five
            mesh.kafka.named("east").stop_broker(broker)
        await mesh.until_health("east", "DOWN", 10)
        for _ in range(120):
            assert (await mesh.cluster("east")).status.health == cluster_pb2.CLUSTER_HEALTH_DOWN
            await asyncio.sleep(0.25)
        for broker in (1, 2, 3):
            mesh.kafka.named("east").start_broker(broker)
        await mesh.until_health("east", "HEALTHY", 20)

    play(scene)


def test_losses_before_a_clusters_death_are_rechecked_on_return() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west"):
            await mesh.create_cluster(name, brokers=3)
        await mesh.create_stream(lanes=6, clusters=["east", "west"], replication_factor=1)
        east = mesh.kafka.named("east")
        east.stop_broker(2)
        await mesh.until_health("east", "HALF_DEAD", 8)
        east.kill()
        await mesh.until_health("east", "DOWN", 4)
        east.start_broker(2)
        east.start()
        while (found := (await mesh.cluster("east")).status).health != HEALTHY:
            assert found.health == cluster_pb2.CLUSTER_HEALTH_DOWN
            await asyncio.sleep(0.25)

    play(scene)
