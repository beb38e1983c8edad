"""Real bombs in real topics: what a broker takes, what reading it costs, and what becomes of it in a mesh."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest, GetClusterRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.security import Security
from braid.kafka.wire import Wire
from braid.kernel.limits import INFLATED_BATCH_BYTES_MAX
from braid.kernel.ports import DamagedBatch, TopicPartition
from devmesh.brokers import KafkaBroker
from devmesh.mesh import DevMesh
from tests.support.batches import BROKER_SECONDS, NAMES, bomb, packed, produce_raw, raw_batch, record_bytes, write_raw
from tests.support.bomb_reader import Cost
from tests.support.patience import until

ROOT: Final = Path(__file__).parents[2]
GIB: Final = 1 << 30
SLACK_BYTES: Final = 5 << 20
STALL_SECONDS: Final = 0.1
HANGS_SECONDS: Final = 300.0  # by the wall

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def honest(codec: int = 0) -> bytes:
    """One small record."""
    return raw_batch(0, 1, packed(codec, record_bytes(0, b"honest")), codec, time_ms=now_ms())


def now_ms() -> int:
    """Brokers refuse records of long ago or of the future."""
    return time.time_ns() // 1_000_000


def cost_of(bootstrap: str, topic: str, end: int) -> Cost:
    """Reads a topic in a process of its own."""
    command = [sys.executable, "-m", "tests.support.bomb_reader", bootstrap, f"warm.{topic}", topic, str(end)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    offsets, damaged, grown, stall = json.loads(done.stdout)
    return Cost(offsets, [DamagedBatch(*each) for each in damaged], grown, stall)


def costs_of(bootstrap: str, topic: str, end: int) -> list[Cost]:
    """Reads until nothing stalls, three times at most: what stalls by itself does so every time."""
    costs = [cost_of(bootstrap, topic, end)]
    while costs[-1].stall_seconds > STALL_SECONDS and len(costs) < 3:
        costs.append(cost_of(bootstrap, topic, end))
    return costs


@pytest.mark.parametrize(
    ("codec", "size"),
    [(4, 2 * GIB - 200), (1, GIB // 2), (3, GIB // 2), (2, 160 << 20)],
    ids=["zstd", "gzip", "lz4", "snappy"],
)
async def test_a_bomb_costs_no_more_than_its_bound(broker: KafkaBroker, codec: int, size: int) -> None:
    payload, topic = bomb(codec, size), f"bomb.{NAMES[codec]}"
    large = raw_batch(0, 1, packed(codec, record_bytes(0, bytes(3 << 20))), codec, time_ms=now_ms())
    assert await write_raw(broker.bootstrap, f"warm.{topic}", [honest(codec), large]) == [0, 0]
    fuse = raw_batch(0, 1, payload, codec, time_ms=now_ms())
    assert await write_raw(broker.bootstrap, topic, [honest(), fuse, honest(codec), fuse, honest()]) == [0] * 5
    costs = await asyncio.to_thread(costs_of, broker.bootstrap, topic, 5)
    cost = costs[-1]
    sys.stdout.write(
        f"\n{NAMES[codec]}: {len(payload):,} bytes of {size:,}: memory +{cost.grown_bytes / 2**20:.1f} MiB, "
        f"longest stalls {[round(each.stall_seconds * 1_000, 1) for each in costs]} ms\n"
    )
    assert cost.offsets == [0, 2, 4]
    assert [(each.first_offset, each.last_offset, each.attributes) for each in cost.damaged] == [
        (1, 1, codec),
        (3, 3, codec),
    ]
    assert all(each.why.startswith("bomb:") for each in cost.damaged)
    # What is fetched is held beside what it inflates to, twice while an answer is taken apart.
    fetched = 0 if len(fuse) < 1 << 20 else 4 * len(fuse)
    assert max(each.grown_bytes for each in costs) <= INFLATED_BATCH_BYTES_MAX + SLACK_BYTES + fetched
    assert cost.stall_seconds <= STALL_SECONDS


async def test_what_else_a_broker_takes_is_told_and_passed(broker: KafkaBroker) -> None:
    """A broker looks into batches and refuses most nonsense; this it stores."""
    flood = record_bytes(0, bytes(1 << 20), [(b"", b"")] * 400_000)
    batches = {
        "out of order": raw_batch(0, 2, record_bytes(1, b"v") + record_bytes(0, b"v"), time_ms=now_ms()),
        "headers that are no text": raw_batch(0, 1, record_bytes(0, b"v", [(b"\xff\xfe", b"")]), time_ms=now_ms()),
        "a flood of headers": raw_batch(0, 1, packed(4, flood), 4, time_ms=now_ms()),
        "bytes behind the frame": raw_batch(0, 1, packed(3, record_bytes(0, b"v")) + b"xx", 3, time_ms=now_ms()),
    }
    assert await write_raw(broker.bootstrap, "warm.odd", [honest(), honest()]) == [0, 0]
    mixed = [each for odd in batches.values() for each in (odd, honest())]
    assert await write_raw(broker.bootstrap, "odd", mixed) == [0] * len(mixed)
    cost = await asyncio.to_thread(cost_of, broker.bootstrap, "odd", 9)
    assert cost.offsets == [2, 4, 6, 8]
    assert [(each.first_offset, each.last_offset) for each in cost.damaged] == [(0, 1), (3, 3), (5, 5), (7, 7)]


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("garbage in zstd", raw_batch(0, 1, b"garbage", 4, time_ms=1)),
        ("more records than there are", raw_batch(0, 1_000, record_bytes(0, b"v"), time_ms=1)),
        ("a wrong checksum", raw_batch(0, 1, record_bytes(0, b"v"), time_ms=1)[:-1] + b"\x01"),
        ("codec 5", raw_batch(0, 1, record_bytes(0, b"v"), 5, time_ms=1)),
    ],
)
async def test_what_a_broker_refuses_by_itself(broker: KafkaBroker, what: str, data: bytes) -> None:
    topic = f"refused.{what.replace(' ', '-')}"
    assert await write_raw(broker.bootstrap, topic, [data]) != [0]


async def test_in_a_mesh_a_bomb_becomes_a_dead_letter_and_its_neighbours_are_handled(two_clusters: DevMesh) -> None:
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
            fuse = raw_batch(0, 1, bomb(4, 2 * GIB - 200), 4, time_ms=now_ms())
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
