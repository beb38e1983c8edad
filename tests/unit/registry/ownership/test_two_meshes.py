"""Two meshes on one Kafka cluster: the second is refused by name, and neither deletes a topic of the other."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import Refused
from braid.stores.memory_server import MEMORY_MESH
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import STANDBY, Mesh, two_clusters

TOPIC, SPARE = "braid.logs.live.1", "logs/live/2"
OTHER = "01J0000000000000000000THER"


async def register(mesh: Mesh, name: str, like: Mesh | None = None, **more: object) -> cluster_pb2.Cluster:
    """Registers a Kafka cluster that runs already; with the declaration that a mesh has of it."""
    spec = (await like.cluster(name)).spec if like else cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092")
    request = api.CreateClusterRequest(name=name, spec=spec, **more)  # type: ignore[arg-type]
    return await mesh.client.unary("CreateCluster", request, cluster_pb2.Cluster)


async def another_mesh(first: Mesh) -> Mesh:
    """A mesh with a store of its own that reaches the same clusters."""
    second = Mesh(mesh=OTHER)
    second.kafka = first.kafka
    await second.start_registry("registry-b")
    await second.start_assigner()
    return second


def test_the_second_mesh_is_refused_and_deletes_nothing_foreign() -> None:
    async def scene() -> None:
        first = Mesh()
        await two_clusters(first)
        second = await another_mesh(first)
        with pytest.raises(Refused) as refused:
            for name in ("east", "west"):
                await register(second, name)
            await second.create_stream()
            await second.client.unary("DeleteStream", api.DeleteStreamRequest(name="logs"), stream_pb2.Stream)
            await second.me.host.clock.sleep(60.0)
            east = first.kafka.cluster("east:9092", "").admin()
            assert TOPIC in await east.list_topics(), "a topic of the first mesh was deleted by the second"
        assert first.server.mesh() in refused.value.message

    run_virtual(scene())


def play(scene: Callable[[Mesh, Mesh], Coroutine[Any, Any, None]]) -> None:
    """Two meshes; the first has clusters east and west and stream `logs`."""

    async def run() -> None:
        first = Mesh(session_seconds=3.0)
        await two_clusters(first)
        await first.until_channel(SPARE, lambda each: each.state == STANDBY, 5.0)
        await scene(first, await another_mesh(first))

    run_virtual(run())


async def cordon(mesh: Mesh, name: str) -> None:
    request = api.CordonClusterRequest(name=name, cordoned=True)
    await mesh.client.unary("CordonCluster", request, cluster_pb2.Cluster)


async def status(mesh: Mesh, name: str) -> cluster_pb2.ClusterStatus:
    return (await mesh.cluster(name)).status


def test_of_two_that_register_one_cluster_at_once_one_succeeds() -> None:
    async def scene() -> None:
        meshes = [Mesh(), Mesh(mesh=OTHER)]
        meshes[1].kafka = meshes[0].kafka
        meshes[0].kafka.add_cluster("east")
        for number, each in enumerate(meshes):
            await each.start_registry(f"registry-{number}")
        found = await asyncio.gather(*(register(each, "east") for each in meshes), return_exceptions=True)
        refused = [each for each in found if isinstance(each, Refused)]
        assert len(refused) == 1
        winner = found.index(next(each for each in found if each not in refused))
        assert refused[0].metadata["mesh"] == meshes[winner].server.mesh()

    run_virtual(scene())


def test_two_prefixes_make_no_two_meshes_of_one_cluster() -> None:
    async def scene(first: Mesh, second: Mesh) -> None:
        spec = cluster_pb2.ClusterSpec(bootstrap="east:9092", topic_prefix="second.")
        request = api.CreateClusterRequest(name="east", spec=spec)
        with pytest.raises(Refused) as refused:
            await second.client.unary("CreateCluster", request, cluster_pb2.Cluster)
        assert (refused.value.field, refused.value.metadata["mesh"]) == ("spec.topic_prefix", MEMORY_MESH)

    play(scene)


def test_only_the_owners_cluster_is_taken_over_and_no_other() -> None:
    async def scene(first: Mesh, second: Mesh) -> None:
        with pytest.raises(Refused, match="cannot be taken over from"):
            await register(second, "west", take_over="01J000000000000000000WRNG")
        assert (await register(second, "west", take_over=MEMORY_MESH, dry_run=True)).name == "west"
        await register(second, "west", take_over=MEMORY_MESH)
        await cordon(first, "west")
        await first.me.host.clock.sleep(60.0)
        west = first.kafka.cluster("west:9092", "").admin()
        assert "braid.logs.live.2" in await west.list_topics()
        assert (await status(first, "west")).foreign_mesh == OTHER
        assert (await status(second, "west")).mesh == OTHER
        await register(first, "west", take_over=OTHER, like=first)
        await first.until_channel(SPARE, lambda each: each.state == stream_pb2.CHANNEL_STATE_RETIRED, 60.0)
        assert not (await status(first, "west")).foreign_mesh

    play(scene)


def test_a_cluster_without_a_mark_gets_one() -> None:
    async def scene(first: Mesh, second: Mesh) -> None:
        east = first.kafka.cluster("east:9092", "").admin()
        await east.delete_topic("braid.mesh.registry")
        with pytest.raises(Refused, match="topics of a mesh that left no mark"):
            await register(second, "east")
        await first.me.host.clock.sleep(35.0)
        with pytest.raises(Refused, match=f"belongs to mesh {MEMORY_MESH}"):
            await register(second, "east")

    play(scene)


def test_a_deleted_cluster_is_anybodys() -> None:
    async def scene(first: Mesh, second: Mesh) -> None:
        await first.create_cluster("north")
        with pytest.raises(Refused):
            await register(second, "north")
        await first.client.unary("DeleteCluster", api.DeleteClusterRequest(name="north"), cluster_pb2.Cluster)
        await register(second, "north")
        with pytest.raises(Refused):
            await register(first, "north")

    play(scene)
