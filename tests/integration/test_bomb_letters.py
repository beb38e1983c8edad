"""A real bomb in a stream's topic becomes a dead letter in a mesh; what reading bombs costs is in `test_bombs`."""

import asyncio
import time
from typing import Final

import pytest

import braid
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest, GetClusterRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.protocol.wire import Wire
from braid.kafka.security import Security
from braid.kernel.ports import TopicPartition
from devmesh.mesh import DevMesh
from testbed.batches import BROKER_SECONDS, bomb, produce_raw, raw_batch
from testbed.patience import until

INFLATED_BYTES: Final = (2 << 30) - 200  # the size of a record is a number of 31 bits

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]


async def test_a_bomb_becomes_a_dead_letter_beside_handled_records(two_clusters: DevMesh) -> None:
    handled: list[int] = []

    async def handle(record: braid.Record) -> None:
        handled.append(record.offset)

    async with braid.connect(two_clusters.ready.endpoint) as mesh:
        registry = mesh.service("registry")
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=1)}, replication_factor=1)
        await registry.unary("CreateStream", CreateStreamRequest(name="bombs", spec=spec), Stream)
        async with mesh.producer("bombs") as producer:
            before = await producer.send(b"before")
            cluster = await registry.unary("GetCluster", GetClusterRequest(name=before.cluster), Cluster)
            wire = Wire(cluster.spec.bootstrap, "bombs", Security(), BROKER_SECONDS)
            fuse = raw_batch(0, 1, bomb(4, INFLATED_BYTES), 4, time_ms=time.time_ns() // 1_000_000)
            assert await produce_raw(wire, TopicPartition(before.topic, before.partition), fuse) == 0
            await wire.close()
            behind = await producer.send(b"behind")
        assert behind.offset == before.offset + 2
        async with (
            mesh.consumer(["bombs"], group="bombs") as consumer,
            mesh.consumer(["bombs"], group="dead-bombs", lanes={"dlq": 1}) as dead,
        ):
            running = asyncio.create_task(consumer.run(handle))
            letter = await dead.take(60.0)
            assert letter is not None
            letter.ack()
            await until(lambda: [each.base for each in consumer.leases()] == [behind.offset + 1], "both are done")
        await running
    assert handled == [before.offset, behind.offset]
    assert (letter.key, letter.value) == (None, b"")
    told = {name: letter.headers[f"braid-dl-{name}"].decode() for name in ("cluster", "topic", "partition", "offset")}
    assert told == {
        "cluster": before.cluster,
        "topic": before.topic,
        "partition": str(before.partition),
        "offset": str(before.offset + 1),
    }
    assert letter.headers["braid-dl-last-offset"] == letter.headers["braid-dl-offset"]
    assert letter.headers["braid-dl-quarantine"].startswith(b"bomb:")
