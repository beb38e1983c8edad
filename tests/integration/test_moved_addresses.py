"""A real Kafka that says the id of a registered cluster, and is not it; and the cluster at another of its addresses."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import braid
from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.client.mesh import Mesh
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import Refused
from braid.kernel.ports import OffsetAt, TopicPartition
from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.storage import copy_template, template
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.jvm import KafkaJvm
from services.registry.kafka.log_reading import read_records
from services.registry.model.clusters.marks import Claim, encode, parse
from services.registry.model.topics import CANARY_CONFIG, MARK_CONFIG, canary_topic, mark_topic
from testbed.brokers import READY_SECONDS, new_broker

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
MARK = TopicPartition(mark_topic("braid."), 0)


@pytest.fixture
def impostor(west_alone: DevMesh, tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker formatted with the id of `west`."""
    broker = new_broker("impostor", tmp_path / "impostor")
    west_id = asyncio.run(cluster_id(west_alone.ready.clusters["west"].bootstrap))
    copy_template(template(KafkaJvm(str(java_binary()), kafka_classpath())), broker.directory / "data", west_id, "1")
    try:
        broker.start()
        broker.wait_ready(READY_SECONDS)
        yield broker
    finally:
        broker.kill()


async def cluster_id(bootstrap: str) -> str:
    """The cluster id that a cluster reports."""
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    try:
        return (await admin.describe_cluster()).cluster_id
    finally:
        await admin.close()


async def update(mesh: Mesh, bootstrap: str) -> cluster_pb2.Cluster:
    """Moves `west` to another address."""
    known = await mesh.service("registry").unary("GetCluster", api.GetClusterRequest(name="west"), cluster_pb2.Cluster)
    known.spec.bootstrap = bootstrap
    request = api.UpdateClusterRequest(name="west", spec=known.spec)
    return await mesh.service("registry").unary("UpdateCluster", request, cluster_pb2.Cluster, timeout_seconds=60)


async def copy_mark(source: str, target: str) -> None:
    """Copies the mark of a cluster to another, as an impostor could that has seen it."""
    reader = AioKafka("test").cluster(source, "")
    admin, copying = reader.admin(), AioKafka("test").cluster(target, "").admin()
    end = (await admin.offsets_at({MARK: OffsetAt.LATEST}))[MARK]
    claims = [parse(each.value) for each in await read_records(reader, MARK, 0, end)]
    await copying.create_topic(MARK.topic, 1, 1, MARK_CONFIG)
    await copying.create_topic(canary_topic("braid."), 1, 1, CANARY_CONFIG)
    for claim in claims:
        assert isinstance(claim, Claim)
        await copying.try_append(MARK, encode(claim), 5.0)
    for client in (admin, copying):
        await client.close()


async def test_only_the_cluster_itself_is_taken_at_a_new_address(west_alone: DevMesh, impostor: KafkaBroker) -> None:
    west = west_alone.ready.clusters["west"].bootstrap
    assert await cluster_id(impostor.bootstrap) == await cluster_id(west)
    async with braid.connect(west_alone.ready.endpoint) as mesh:
        with pytest.raises(Refused, match="carries no mark of this mesh"):
            await update(mesh, impostor.bootstrap)
        await copy_mark(west, impostor.bootstrap)
        with pytest.raises(Refused, match="lacks a record just written to west"):
            await update(mesh, impostor.bootstrap)
        other = west.replace("127.0.0.1", "localhost")
        assert (await update(mesh, other)).spec.bootstrap == other
