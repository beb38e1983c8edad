"""A real cluster returns after longer than its topics keep anything, and its broker soon looks after retention."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer

import braid
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import KafkaAdmin, OffsetAt, TopicPartition
from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from services.registry.model.topics import HOUR_MS
from testbed.brokers import READY_SECONDS, running_broker
from testbed.patience import until

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
STREAM: Final = "keeping"
CHANNEL: Final = f"{STREAM}/live/1"
KEPT_MS: Final = (24 + 14 * 24) * HOUR_MS
LONG_AGO_MS: Final = 1_700_000_000_000
FIRST_LOOK_MS: Final = 10_000  # 30,000 by default: as long as a cluster is not trusted yet


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A cluster whose broker looks after retention ten seconds after each start, and not again within a test."""
    with running_broker("hasty", tmp_path, {"log.initial.task.delay.ms": str(FIRST_LOOK_MS)}) as broker:
        yield broker


async def test_retention_spares_a_channel_in_use(west_alone: DevMesh, hasty: KafkaBroker) -> None:
    admin = AioKafka("test").cluster(hasty.bootstrap, "").admin()
    async with braid.connect(west_alone.ready.endpoint) as mesh:
        topic = await begun(mesh, hasty)
        for bystander in ("early", "beside"):
            await admin.create_topic(bystander, 1, 1, {"retention.ms": str(KEPT_MS)})
        await filled(hasty, "early")
        await until(lambda: starts_at(admin, "early", 5), "the broker looked after retention", 60)
        await filled(hasty, "beside", topic)
        assert await starts_at(admin, "beside", 0) and await starts_at(admin, topic, 0)
        hasty.kill()
        await until(lambda: is_stranded(mesh), "the channel is stranded", 30)
        await asyncio.to_thread(hasty.start)
        await asyncio.to_thread(hasty.wait_ready, READY_SECONDS)
        await until(lambda: starts_at(admin, "beside", 5), "the broker looked again", 120)
        assert await starts_at(admin, topic, 0), "retention ate the tail"
        assert (await admin.topic_config(topic))["retention.ms"] == "-1"
        await handled(mesh, 5)
        await until(lambda: kept_as_declared(admin, topic), "retention is as declared again", 90)
    await admin.close()


async def begun(mesh: braid.Mesh, broker: KafkaBroker) -> str:
    """A stream that never leaves the cluster by itself, with a group that has done nothing; its topic."""
    client = mesh.service("registry")
    cluster = api.CreateClusterRequest(name="hasty", spec=cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap))
    await client.unary("CreateCluster", cluster, cluster_pb2.Cluster, timeout_seconds=60)
    spec = stream_pb2.StreamSpec(
        lanes={"live": stream_pb2.LaneSpec(partitions=1)},
        clusters=["hasty", "west"],
        replication_factor=1,
        retention_hours=24,
        failover=stream_pb2.FAILOVER_MODE_OFF,
    )
    request = api.CreateStreamRequest(name=STREAM, spec=spec)
    await client.unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)
    await handled(mesh, 0)
    return (await channel_of(mesh)).topic


async def handled(mesh: braid.Mesh, count: int) -> None:
    """The group registers, and works off so many records."""
    values: list[bytes | None] = []

    async def handle(record: braid.Record) -> None:
        values.append(record.value)

    async with mesh.consumer([STREAM], group="keepers", start="earliest") as consumer:
        reading = asyncio.create_task(consumer.run(handle))
        await until(lambda: len(values) >= count, lambda: f"{len(values)} of {count} records came", 60)
    await reading
    assert len(values) == count


async def channel_of(mesh: braid.Mesh) -> stream_pb2.Channel:
    found = await mesh.service("registry").unary("GetStream", api.GetStreamRequest(name=STREAM), stream_pb2.Stream)
    return next(each for each in found.status.channels if each.name == CHANNEL)


async def is_stranded(mesh: braid.Mesh) -> bool:
    return (await channel_of(mesh)).stranded


async def filled(broker: KafkaBroker, *topics: str) -> None:
    """Five records in each, as if they had been written long ago."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    try:
        for topic in topics:
            for number in range(5):
                await producer.send_and_wait(topic, b"%d" % number, partition=0, timestamp_ms=LONG_AGO_MS)
    finally:
        await producer.stop()


async def starts_at(admin: KafkaAdmin, topic: str, offset: int) -> bool:
    place = TopicPartition(topic, 0)
    try:
        return (await admin.offsets_at({place: OffsetAt.EARLIEST}))[place] == offset
    except ClusterUnavailable:  # a broker that has just started may not lead its partitions yet
        return False


async def kept_as_declared(admin: KafkaAdmin, topic: str) -> bool:
    return (await admin.topic_config(topic))["retention.ms"] == str(KEPT_MS)
