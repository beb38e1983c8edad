"""Clusters that are deleted and declared again: what was known of the former one says nothing of the new one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
HEALTHY = cluster_pb2.CLUSTER_HEALTH_HEALTHY


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


@pytest.mark.parametrize("seconds", [0.0, 0.3, 2.5])
def test_a_cluster_that_is_declared_again_at_once_is_looked_at(seconds: float) -> None:
    """Some of what watches it has not looked in between: it must not keep the rest from beginning anew."""

    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.create_cluster("north")
        await mesh.until_health("north", "HEALTHY", 30)
        await asyncio.sleep(5.3)
        request = api.DeleteClusterRequest(name="north")
        await mesh.client.unary("DeleteCluster", request, cluster_pb2.Cluster)
        await asyncio.sleep(seconds)
        again = api.CreateClusterRequest(name="north", spec=cluster_pb2.ClusterSpec(bootstrap="north:9092"))
        await mesh.client.unary("CreateCluster", again, cluster_pb2.Cluster)
        await asyncio.sleep(12.0)
        mesh.kafka.named("north").pause()
        await mesh.until_health("north", "DOWN", 5)

    play(scene)


def test_a_look_at_a_deleted_cluster_judges_no_new_namesake() -> None:
    """The look hangs at the old one's brokers while the new one, elsewhere, is well."""

    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        patient = cluster_pb2.HealthThresholds(look_timeout_seconds=8.0)
        await mesh.create_cluster("north", health=patient)
        await asyncio.sleep(10.0)
        mesh.kafka.named("north").pause()
        await asyncio.sleep(1.0)
        request = api.DeleteClusterRequest(name="north")
        await mesh.client.unary("DeleteCluster", request, cluster_pb2.Cluster)
        mesh.kafka.add_cluster("elsewhere")
        declared = cluster_pb2.ClusterSpec(bootstrap="elsewhere:9092", health=patient)
        await mesh.client.unary(
            "CreateCluster", api.CreateClusterRequest(name="north", spec=declared), cluster_pb2.Cluster
        )
        for _ in range(600):
            assert (await mesh.cluster("north")).status.health == HEALTHY
            await asyncio.sleep(0.02)

    play(scene)
