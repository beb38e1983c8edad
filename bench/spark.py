"""A batch read of a stream in Spark, beside a plain Python data source: `python -m bench.spark`.

`local[2]`: Spark, its Python workers and the broker share the machine's cores, so wall time is compared; CPU seconds
are of the driver's JVM and all its workers. Rows go to the `noop` sink. Records are as Braid's producer writes them:
100 bytes and three headers. Spark's own JVM source is not in the table: Spark 4.3 comes without its
connector, and nothing resolves one yet.
"""

import asyncio
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
from aiokafka import AIOKafkaProducer
from pyspark.sql import DataFrame, SparkSession

import braid
from bench.asking import Asked, asked
from bench.playing import Contestant, play
from bench.rounds import rows, verdict
from bench.spark_peer import PlainSource
from bench.tables import Table, made_with
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kernel.ids import ChannelId
from braid.spark import BraidDataSource
from devmesh.java import java_binary
from devmesh.mesh import DevMesh

STREAM: Final = "logs"
TOPIC: Final = ChannelId(STREAM, "live", 1).topic("braid.")
PARTITIONS: Final = 4
PEER: Final = "plain Python source (aiokafka)"
AGAIN: Final = "plain Python source again"
DRIVER_MEMORY: Final = "1g"
BATCH_BYTES: Final = 256 << 10
HEADERS: Final = [("braid-id", b"01J00000000000000000000000:1234567"), ("braid-ts", b"1767225600000"),
                  ("braid-lane", b"live")]  # fmt: skip


class Contest:
    """Which sources read the same topic."""

    def __init__(self, spark: SparkSession, endpoint: str, bootstrap: str, records: int) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._bootstrap = bootstrap
        self._records = records

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {PEER: self.plain, AGAIN: self.plain, "braid source": self.braid}

    async def plain(self) -> int:
        """The peer: five columns."""
        return await self._drain("plain", {"bootstrap": self._bootstrap, "topic": TOPIC})

    async def braid(self) -> int:
        """Braid's source: all columns, the record's id among them."""
        return await self._drain("braid", {"endpoint": self._endpoint, "stream": STREAM})

    async def counted(self) -> None:
        """Sees that both give every row."""
        plain = self._frame("plain", {"bootstrap": self._bootstrap, "topic": TOPIC})
        braids = self._frame("braid", {"endpoint": self._endpoint, "stream": STREAM})
        found = [await asyncio.to_thread(frame.count) for frame in (plain, braids)]
        if found != [self._records, self._records]:
            raise AssertionError(f"{self._records} records were written, and read: {found}")

    async def _drain(self, source: str, options: dict[str, str]) -> int:
        await asyncio.to_thread(self._frame(source, options).write.format("noop").mode("overwrite").save)
        return self._records

    def _frame(self, source: str, options: dict[str, str]) -> DataFrame:
        return self._spark.read.format(source).options(**options).load()


async def fill(bootstrap: str, records: int) -> None:
    """Puts as many records as asked into the topic, batches built by hand."""
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


async def create_stream(endpoint: str) -> None:
    """One lane of four partitions."""
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=PARTITIONS)}, replication_factor=1)
    async with braid.connect(endpoint, client_id="bench") as mesh:
        request = CreateStreamRequest(name=STREAM, spec=spec)
        await mesh.service("registry").unary("CreateStream", request, Stream, timeout_seconds=30.0)
        async with mesh.producer(STREAM):  # it has a route: the topic is there
            pass


def session() -> SparkSession:
    """Spark on two cores of this machine."""
    os.environ |= {"JAVA_HOME": str(java_binary().resolve().parent.parent), "PYSPARK_PYTHON": sys.executable}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("bench").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for source in (PlainSource, BraidDataSource):
        spark.dataSource.register(source)
    return spark


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


async def contest(directory: Path, spark: SparkSession, jvm: psutil.Process, how: Asked) -> Table:
    """Brings a mesh up, fills a stream, plays the rounds."""
    async with DevMesh(directory / "mesh", clusters=("east",), registries=1, assigners=1, lagmons=0, dlqs=0) as mesh:
        endpoint = ",".join(service.address for service in mesh.ready.services.values())
        bootstrap = mesh.ready.clusters["east"].bootstrap
        await create_stream(endpoint)
        await fill(bootstrap, how.units)
        playing = Contest(spark, endpoint, bootstrap, how.units)
        await playing.counted()
        samples = await play(playing.contestants(), how.rounds, lambda: cpu_of(jvm))
    found = rows(samples, PEER, "wall")
    facts = {
        "work": f"batch read of {how.units:,} records of 100 B and Braid's three headers, {PARTITIONS} partitions, to "
        f"noop; local[2], driver of {DRIVER_MEMORY}; the broker on the same cores",
        "peer": "a Python data source over aiokafka getmany(20,000), 8 MiB a partition, five columns, no headers",
        "not here": "Spark's own JVM source: Spark 4.3 comes without its connector, and nothing resolves one here yet",
    }
    return Table("spark-batch", "row", "wall", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a mesh and a Spark of its own; 1 when the run is void."""
    how = asked(__doc__, units=4_000_000, quick_units=20_000)
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory, ExitStack() as ending:
        spark = session()
        ending.callback(spark.stop)
        jvm = next(each for each in psutil.Process().children(recursive=True) if each.name() == "java")
        table = asyncio.run(contest(Path(directory), spark, jvm, how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
