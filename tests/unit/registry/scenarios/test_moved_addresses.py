"""A cluster moves to another address only with proof that it is the same: its id is what anybody may say."""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kafka.memory.cluster import MemoryCluster
from braid.kernel.errors import Refused
from braid.kernel.ports import KafkaCluster, TopicPartition
from services.registry.model.clusters.marks import Claim, encode
from services.registry.model.topics import CANARY_CONFIG, MARK_CONFIG, canary_topic, mark_topic
from tests.unit.registry.mesh import Mesh, two_clusters
from tests.unit.registry.scenarios.test_requests import play

PREFIX = "braid."
EVIL = "evil:9092"


def update(mesh: Mesh, bootstrap: str, *, dry_run: bool = False) -> Coroutine[Any, Any, cluster_pb2.Cluster]:
    """Moves `east` to another address."""
    spec = cluster_pb2.ClusterSpec(bootstrap=bootstrap, zone="a")
    request = api.UpdateClusterRequest(name="east", spec=spec, dry_run=dry_run)
    return mesh.client.unary("UpdateCluster", request, cluster_pb2.Cluster)


def impostor(mesh: Mesh) -> MemoryCluster:
    """A cluster that says that it is `east`."""
    made = mesh.kafka.add_cluster("evil")
    made.cluster_id = mesh.kafka.named("east").cluster_id
    return made


async def mark(mesh: Mesh, owner: str) -> None:
    """Writes a mark to the impostor, and makes a canary's topic there."""
    admin = mesh.kafka.cluster(EVIL, "").admin()
    await admin.create_topic(mark_topic(PREFIX), 1, 1, MARK_CONFIG)
    await admin.create_topic(canary_topic(PREFIX), 1, 1, CANARY_CONFIG)
    await admin.try_append(TopicPartition(mark_topic(PREFIX), 0), encode(Claim(owner, "", 0)), 2.0)


def own_mesh(mesh: Mesh) -> str:
    """The id of the mesh itself."""
    return mesh.replicas["registry-0"].mesh


async def refused(mesh: Mesh, said: str, *, dry_run: bool = False) -> None:
    """Moving `east` to the impostor is refused, and nothing is changed."""
    with pytest.raises(Refused, match=said) as raised:
        await update(mesh, EVIL, dry_run=dry_run)
    assert raised.value.field == "spec.bootstrap" and raised.value.remedy
    assert (await mesh.cluster("east")).spec.bootstrap == "east:9092"


@contextmanager
def also_at(mesh: Mesh, alias: str, address: str) -> Iterator[None]:
    """Another address of a cluster."""
    view = mesh.views["registry-0"]
    connect = view.cluster

    def cluster(bootstrap: str, security_profile: str) -> KafkaCluster:
        return connect(address if bootstrap == alias else bootstrap, security_profile)

    with patch.object(view, "cluster", cluster):
        yield


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_cluster_with_the_right_id_but_no_mark_is_refused(dry_run: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        impostor(mesh)
        await refused(mesh, "carries no mark of this mesh", dry_run=dry_run)

    play(scene)


def test_a_cluster_carries_another_meshs_mark_and_is_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        impostor(mesh)
        await mark(mesh, "01ANOTHERMESH")
        await refused(mesh, "belongs to mesh 01ANOTHERMESH")

    play(scene)


def test_a_copied_mark_is_no_proof_while_the_cluster_answers() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        impostor(mesh)
        await mark(mesh, own_mesh(mesh))
        await refused(mesh, "lacks a record just written to east")

    play(scene)


def test_a_copied_canary_of_another_offset_is_no_proof() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        impostor(mesh)
        await mark(mesh, own_mesh(mesh))
        admin = mesh.kafka.cluster(EVIL, "").admin()
        for _ in range(200):  # more than `east` was probed
            await admin.try_append(TopicPartition(canary_topic(PREFIX), 0), b"braid: is this the same cluster? no", 2.0)
        await refused(mesh, "lacks a record just written to east")

    play(scene)


def test_the_same_cluster_moves_to_another_address() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        with also_at(mesh, "alias:9092", "east:9092"):
            assert (await update(mesh, "alias:9092", dry_run=True)).spec.bootstrap == "alias:9092"
            assert (await mesh.cluster("east")).spec.bootstrap == "east:9092"
            assert (await update(mesh, "alias:9092")).spec.bootstrap == "alias:9092"

    play(scene)


def test_another_cluster_took_the_old_address_and_is_not_asked() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        impostor(mesh)  # the cluster itself, as it serves at its new address
        await mark(mesh, own_mesh(mesh))
        east = mesh.kafka.named("east")
        stranger = replace(east.describe(), cluster_id="another")
        with patch.object(east, "describe", lambda: stranger):
            assert (await update(mesh, EVIL)).spec.bootstrap == EVIL

    play(scene)


def test_brokers_moved_and_their_mark_is_proof_enough() -> None:
    """The old address does not answer: a record can be written there no more."""

    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        impostor(mesh)  # the cluster itself, as it serves at its new address
        await mark(mesh, own_mesh(mesh))
        mesh.kafka.named("east").kill()
        assert (await update(mesh, EVIL)).spec.bootstrap == EVIL

    play(scene)
