"""Where Spark's benchmarks play: one Spark on two cores, a broker with a benchmark's heap, a mesh that knows it.

Spark, its Python workers and the broker share the machine's cores, so wall time is compared; CPU seconds are of the
driver's JVM and all processes below it. Records are as Braid's producer writes them: 100 bytes and three headers.
"""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from aiokafka import AIOKafkaProducer
from pyspark.sql import SparkSession

import braid
from bench.harness.broker import broker
from bench.harness.single_jars import SPARK_KAFKA
from bench.peers.spark_source import PlainSource
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kernel.ids import ChannelId
from braid.spark import BraidDataSource
from devmesh.enroll import enroll
from devmesh.mesh import DevMesh
from devmesh.registration import Address
from devmesh.toolchain.java import java_binary

STREAM: Final = "logs"
CLUSTER: Final = "bench"
TOPIC: Final = ChannelId(STREAM, "live", 1).topic("braid.")
PARTITIONS: Final = 4
DRIVER_MEMORY: Final = "2g"
# Spark's own source keeps consumers, and all records of their last poll, for five minutes. A batch read never uses them
# again; those of a dozen reads filled a heap of 1 GiB. Between micro-batches they stay.
KEPT: Final[Mapping[str, str]] = {
    f"spark.kafka.consumer.{cache}.{name}": value
    for cache in ("cache", "fetchedData.cache")
    for name, value in {"timeout": "5s", "evictorThreadRunInterval": "2s"}.items()
}
BATCH_BYTES: Final = 256 << 10
HEADERS: Final = [("braid-id", b"01J00000000000000000000000:1234567"), ("braid-ts", b"1767225600000"),
                  ("braid-lane", b"live")]  # fmt: skip
# Of Spark's own source, beyond its defaults (500 records a poll, 1 MiB a partition, 64 KiB socket buffers). It asks for
# a partition's bounds after every poll, by seeking, and so throws away what it fetched beyond: a poll takes all of it.
TUNED: Final[Mapping[str, str]] = {
    "kafka.max.poll.records": "200000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}


class Place(NamedTuple):
    """The address of the stream, for a data source.

    Attributes:
        endpoint: Of the mesh.
        bootstrap: Of the broker that has the topic.
    """

    endpoint: str
    bootstrap: str

    def options(self, source: str) -> dict[str, str]:
        """The options with which a source reads all of the stream; `source` is its format."""
        if source == "kafka":
            return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
        if source == "plain":
            return {"bootstrap": self.bootstrap, "topic": TOPIC}
        return {"endpoint": self.endpoint, "stream": STREAM}


@contextlib.asynccontextmanager
async def filled_stream(directory: Path, records: int) -> AsyncIterator[Place]:
    """A stream of so many records on a broker of its own; the mesh keeps its state in `directory`."""
    with broker(apart=False) as serving:
        async with filled_stream_on(serving.bootstrap, directory, records) as place:
            yield place


@contextlib.asynccontextmanager
async def filled_stream_on(bootstrap: str, directory: Path, records: int) -> AsyncIterator[Place]:
    """The same on a broker that runs."""
    # A mesh has a cluster, which stays idle: its heap is too small to measure with.
    async with DevMesh(
        directory, clusters=("idle",), registries=1, assigners=1, lagmons=0, dlqs=0, secure=False
    ) as mesh:
        addresses = [service.address for service in mesh.ready.services.values()]
        await enroll(addresses, {CLUSTER: Address(bootstrap, "a")})
        place = Place(",".join(addresses), bootstrap)
        await _create_stream(place.endpoint)
        await _fill(bootstrap, records)
        yield place


async def _create_stream(endpoint: str) -> None:
    lanes = {"live": LaneSpec(partitions=PARTITIONS)}
    spec = StreamSpec(lanes=lanes, clusters=[CLUSTER], replication_factor=1)
    async with braid.connect(endpoint, client_id="bench") as mesh:
        request = CreateStreamRequest(name=STREAM, spec=spec)
        await mesh.service("registry").unary("CreateStream", request, Stream, timeout_seconds=30.0)
        async with mesh.producer(STREAM):  # it has a route: the topic is there
            pass


async def _fill(bootstrap: str, records: int) -> None:
    """Batches built by hand: every record costs a microsecond instead of a future."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=BATCH_BYTES, linger_ms=0)
    await producer.start()
    for number in range(PARTITIONS):
        left = records // PARTITIONS + (number < records % PARTITIONS)
        while left:
            batch = producer.create_batch()
            while left and batch.append(key=None, value=bytes(100), timestamp=None, headers=HEADERS) is not None:
                left -= 1
            await (await producer.send_batch(batch, TOPIC, partition=number))
    await producer.stop()


@contextlib.contextmanager
def session() -> Iterator[tuple[SparkSession, psutil.Process]]:
    """Spark on two cores of this machine with all sources, and its JVM."""
    os.environ |= {"JAVA_HOME": str(java_binary().resolve().parent.parent), "PYSPARK_PYTHON": sys.executable}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.jars": ",".join(map(str, SPARK_KAFKA.paths())),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **KEPT,
    }
    spark = SparkSession.builder.master("local[2]").appName("bench").config(map=settings).getOrCreate()
    try:
        for source in (PlainSource, BraidDataSource):
            spark.dataSource.register(source)
        yield spark, next(each for each in psutil.Process().children(recursive=True) if each.name() == "java")
    finally:
        spark.stop()


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of a process and all below it, those included that ended and were waited for."""
    seconds = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
