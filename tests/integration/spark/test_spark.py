"""The data source in real Spark, on a real mesh and real Kafka: what is read is what was written, whatever dies."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.cluster import AioKafka
from braid.kernel.envelope import MetadataKind, decode
from braid.kernel.ports import TopicPartition
from devmesh.mesh import DevMesh
from testbed import patience
from testbed.patience import wait

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS: Final = 90.0
HANGS_SECONDS: Final = 600.0  # by the wall
Place = tuple[str, str, int, int]  # cluster, topic, partition, offset


def create(local: DevMesh, stream: str, lanes: Mapping[str, int]) -> None:
    """Makes a stream."""

    async def make() -> None:
        async with braid.connect(local.ready.endpoint) as mesh:
            shapes = {lane: LaneSpec(partitions=partitions) for lane, partitions in lanes.items()}
            request = CreateStreamRequest(name=stream, spec=StreamSpec(lanes=shapes, replication_factor=1))
            await mesh.service("registry").unary("CreateStream", request, Stream)

    asyncio.run(make())


def produce(local: DevMesh, stream: str, count: int, lane: str = "live") -> dict[str, Place]:
    """Sends records; where each lies, by id."""

    async def send() -> Sequence[braid.Receipt]:
        async with braid.connect(local.ready.endpoint) as mesh, mesh.producer(stream) as producer:
            records = [braid.Outgoing(b"%d" % number, key=b"%d" % (number % 50), lane=lane) for number in range(count)]
            return await producer.send_many(records)

    return {each.id: (each.cluster, each.topic, each.partition, each.offset) for each in asyncio.run(send())}


def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Waits for something other processes do."""
    wait(condition, what, seconds, poll=0.1)


def read(spark: SparkSession, local: DevMesh, stream: str, **options: str) -> DataFrame:
    """A batch read."""
    reader = spark.read.format("braid").option("endpoint", local.ready.endpoint).option("stream", stream)
    return reader.options(**options).load()


def places(frame: DataFrame) -> dict[str, Place]:
    """Where each row lies, by id; fails for an id that is there twice."""
    rows = frame.select("id", "cluster", "topic", "partition", "offset").collect()
    found = {row.id: (row.cluster, row.topic, row.partition, row.offset) for row in rows}
    assert len(found) == len(rows)
    return found


class Job:
    """A streaming query into a table, which a test may stop and start again on its checkpoint."""

    def __init__(self, spark: SparkSession, local: DevMesh, stream: str, directory: Path, **options: str) -> None:
        self._spark = spark
        self._local = local
        self._stream = stream
        self._directory = directory
        self._options = options

    def start(self) -> StreamingQuery:
        """Starts it from where its checkpoint stands."""
        return self._writer().start()

    def run_once(self) -> StreamingQuery:
        """Reads what there is now and ends."""
        query = self._writer().trigger(availableNow=True).start()
        assert query.awaitTermination(int(HANGS_SECONDS))
        return query

    def _writer(self) -> DataStreamWriter:
        reader = self._spark.readStream.format("braid").option("endpoint", self._local.ready.endpoint)
        frame = reader.option("stream", self._stream).options(**self._options).load()
        rows = frame.select("id", "cluster", "topic", "partition", "offset", "lane")
        checkpoint = str(self._directory / "checkpoint")
        table = rows.writeStream.format("parquet").option("path", str(self._directory / "table"))
        return table.option("checkpointLocation", checkpoint)

    def ids(self) -> list[str]:
        """The record ids in all rows of the table."""
        if not (self._directory / "table" / "_spark_metadata").exists():
            return []
        table = self._spark.read.schema("id string").parquet(str(self._directory / "table"))  # it may have no file yet
        return [row.id for row in table.collect()]

    def has(self, wanted: Mapping[str, Place]) -> bool:
        """Whether every one of these rows is in the table."""
        return set(wanted) <= set(self.ids())


def committed(local: DevMesh, group: str, ends: Mapping[tuple[str, str, int], int]) -> bool:
    """Whether a group's commit envelopes say that everything up to these ends is done."""

    async def ask() -> bool:
        for (cluster, topic, partition), end in ends.items():
            offsets = AioKafka("test").cluster(local.ready.clusters[cluster].bootstrap, "").offsets()
            where = TopicPartition(topic, partition)
            found = (await offsets.committed(group, [where]))[where]
            await offsets.close()
            decoded = decode(found.offset, found.metadata)
            if decoded.kind is not MetadataKind.ENVELOPE or decoded.fields.base < end or not decoded.fields.epoch:
                return False
        return True

    return asyncio.run(ask())


def ends_of(wanted: Mapping[str, Place]) -> dict[tuple[str, str, int], int]:
    """By partition, the offset after the last of these records."""
    ends: dict[tuple[str, str, int], int] = {}
    for cluster, topic, partition, offset in wanted.values():
        at = cluster, topic, partition
        ends[at] = max(ends.get(at, 0), offset + 1)
    return ends


def leases(local: DevMesh, group: str) -> list[group_pb2.Lease]:
    """The leases of a group."""

    async def ask() -> list[group_pb2.Lease]:
        async with braid.connect(local.ready.endpoint) as mesh:
            request = assigner_api.ListLeasesRequest(group=group)
            answer = await mesh.service("assigner").unary("ListLeases", request, assigner_api.ListLeasesResponse)
            return list(answer.leases)

    return asyncio.run(ask())


def test_a_batch_read_is_what_was_produced(local: DevMesh, spark: SparkSession) -> None:
    create(local, "batch", {"live": 3, "bulk": 1})
    live, bulk = produce(local, "batch", 3_000), produce(local, "batch", 500, "bulk")
    assert places(read(spark, local, "batch")) == live | bulk
    assert places(read(spark, local, "batch", lanes="bulk")) == bulk
    whole = read(spark, local, "batch", minPartitions="7")
    assert whole.rdd.getNumPartitions() >= 7
    assert places(whole) == live | bulk
    times = sorted(row.timestamp.timestamp() for row in whole.filter("lane = 'bulk'").collect())
    begin = str(int(times[0] * 1_000))
    assert places(read(spark, local, "batch", startingTimestamp=begin, lanes="bulk")) == bulk
    after = str(int(times[-1] * 1_000) + 1)
    assert places(read(spark, local, "batch", startingTimestamp=after)) == {}


def test_a_frame_is_written_and_read_back(local: DevMesh, spark: SparkSession) -> None:
    create(local, "written", {"live": 2, "bulk": 1})
    frame = spark.range(1_000).selectExpr(
        "concat('v', id) AS value",
        "cast(id % 7 AS string) AS key",
        "if(id % 2 = 0, 'live', 'bulk') AS lane",
        "array(named_struct('key', 'n', 'value', cast(cast(id AS string) AS binary))) AS headers",
    )
    writer = frame.write.format("braid").option("endpoint", local.ready.endpoint).option("stream", "written")
    writer.mode("append").save()
    rows = read(spark, local, "written", includeHeaders="true").collect()
    assert sorted(bytes(row.value).decode() for row in rows) == sorted(f"v{number}" for number in range(1_000))
    for row in rows:
        number = bytes(row.value)[1:]
        assert (row.lane, bytes(row.key)) == (("live", "bulk")[int(number) % 2], b"%d" % (int(number) % 7))
        assert bytes({header.key: header.value for header in row.headers}["n"]) == number
    for with_headers in ("true", "false"):
        chosen = read(spark, local, "written", includeHeaders=with_headers, where='{"headers": {"n": "77"}}').collect()
        assert [bytes(row.value) for row in chosen] == [b"v77"]


@pytest.mark.extended
def test_a_query_writes_to_another_stream(local: DevMesh, spark: SparkSession, tmp_path: Path) -> None:
    create(local, "raw", {"live": 2})
    create(local, "clean", {"live": 1, "bulk": 1})
    sent = produce(local, "raw", 600)

    def run() -> None:
        frame = spark.readStream.format("braid").option("endpoint", local.ready.endpoint).option("stream", "raw")
        rows = frame.option("group", "clean").option("maxOffsetsPerTrigger", "250").load()
        wanted = rows.selectExpr("value", "key", "if(partition = 0, 'live', 'bulk') AS lane")
        writer = wanted.writeStream.format("braid").option("endpoint", local.ready.endpoint).option("stream", "clean")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(int(HANGS_SECONDS))

    run()
    sent |= produce(local, "raw", 100)
    run()
    values = sorted(bytes(row.value) for row in read(spark, local, "raw").select("value").collect())
    copies = read(spark, local, "clean").select("value", "lane", "id").collect()
    assert sorted(bytes(row.value) for row in copies) == values
    assert len(values) == len({row.id for row in copies}) == len(sent)
    lanes = {place[2] for place in sent.values()}
    assert {row.lane for row in copies} == {("live", "bulk")[partition] for partition in lanes}


@pytest.mark.extended
def test_a_query_outlives_its_restart_and_the_death_of_a_cluster(
    local: DevMesh, spark: SparkSession, tmp_path: Path
) -> None:
    create(local, "outlive", {"live": 3})
    job = Job(spark, local, "outlive", tmp_path, group="outlive", maxOffsetsPerTrigger="700")
    wanted = produce(local, "outlive", 2_000)
    query = job.start()
    until(lambda: job.has(wanted), "the first records")
    query.stop()
    until(lambda: not any(lease.member for lease in leases(local, "outlive")), "the leases go back")
    wanted |= produce(local, "outlive", 1_000)
    query = job.start()
    until(lambda: job.has(wanted), "what came while it was stopped")
    carrier = next(iter(wanted.values()))[0]
    asyncio.run(local.kill(carrier))
    try:
        elsewhere = produce(local, "outlive", 1_000)
        assert {place[0] for place in elsewhere.values()} == {"east", "west"} - {carrier}
        until(lambda: job.has(elsewhere), "what went to the other cluster")
    finally:
        asyncio.run(local.start(carrier))
    wanted |= elsewhere | produce(local, "outlive", 500)
    until(lambda: job.has(wanted), "everything")
    assert query.isActive
    until(lambda: committed(local, "outlive", ends_of(wanted)), "progress follows as envelopes")
    query.stop()
    assert sorted(job.ids()) == sorted(wanted)


def test_a_fresh_query_goes_on_from_the_groups_progress(local: DevMesh, spark: SparkSession, tmp_path: Path) -> None:
    create(local, "fresh", {"live": 2})
    before = produce(local, "fresh", 500)
    Job(spark, local, "fresh", tmp_path / "one", group="fresh").run_once()
    after = produce(local, "fresh", 300)
    second = Job(spark, local, "fresh", tmp_path / "two", group="fresh")
    second.run_once()
    assert set(second.ids()) == set(after)
    assert not set(second.ids()) & set(before)


def test_spark_and_sdk_members_share_a_group(local: DevMesh, spark: SparkSession, tmp_path: Path) -> None:
    create(local, "shared", {"live": 4})
    job = Job(spark, local, "shared", tmp_path, group="shared")
    first = produce(local, "shared", 1_000)
    query = job.start()
    until(lambda: job.has(first), "the query alone")
    seen: set[str] = set()

    async def consume(wanted: Callable[[], bool]) -> None:
        async def handle(record: braid.Record) -> None:
            seen.add(record.id)

        async with (
            braid.connect(local.ready.endpoint) as mesh,
            mesh.consumer(["shared"], group="shared") as consumer,
        ):
            running = asyncio.create_task(consumer.run(handle))
            await patience.until(lambda: len(consumer.leases()) == 2, lambda: str(consumer.leases()), SECONDS)
            sent.update(await asyncio.to_thread(produce, local, "shared", 1_000))
            await asyncio.to_thread(until, wanted, "all records, by either member")
        await running

    sent: dict[str, Place] = {}
    asyncio.run(consume(lambda: set(job.ids()) | seen >= set(first) | set(sent)))
    assert len(seen & set(sent)) > 0
    assert len(set(job.ids()) & set(sent)) > 0
    assert not seen & set(job.ids())  # planned hand-overs repeat nothing
    query.stop()


def test_what_cannot_be_done_is_told_precisely(local: DevMesh, spark: SparkSession, tmp_path: Path) -> None:
    create(local, "told", {"live": 1})
    create(local, "other", {"live": 1})
    sent = produce(local, "told", 10)
    Job(spark, local, "told", tmp_path, group="told").run_once()
    (lease,) = {f"told/live/1/{place[2]}" for place in sent.values()}
    for options, says in (
        ({"lanes": "none"}, "stream told has no lane none"),
        ({"startingOffsets": '{"told/live/9/0": 1}'}, "told/live/9/0 is no readable partition"),
        ({"endingOffsets": f'{{"{lease}": 99}}'}, "it ends at 10"),
    ):
        with pytest.raises(PySparkException, match=says):
            read(spark, local, "told", **options).collect()
    with pytest.raises(PySparkException, match="there is no stream nowhere"):
        read(spark, local, "nowhere").collect()
    for stream, group, says in (
        ("other", "elsewhere", "belongs to stream told, not other"),
        ("other", "told", "group 'told' is registered with streams"),
        ("told", "else", "belongs to group told, not else"),
    ):
        with pytest.raises(StreamingQueryException, match=says):
            Job(spark, local, stream, tmp_path, group=group).run_once()
    exclusive = group_pb2.GroupSpec(streams=["told"], ownership=group_pb2.OWNERSHIP_EXCLUSIVE, lease_ms=3_000)

    async def register() -> None:
        async with braid.connect(local.ready.endpoint) as mesh:
            request = assigner_api.CreateGroupRequest(name="strict", spec=exclusive)
            await mesh.service("assigner").unary("CreateGroup", request, group_pb2.Group)

    asyncio.run(register())
    with pytest.raises(StreamingQueryException, match="cannot be an exclusive member"):
        Job(spark, local, "told", tmp_path / "strict", group="strict").run_once()


def test_a_group_used_by_another_tool_is_refused_without_loss(
    local: DevMesh, spark: SparkSession, tmp_path: Path
) -> None:
    create(local, "busy", {"live": 1})
    sent = produce(local, "busy", 10)
    job = Job(spark, local, "busy", tmp_path, group="taken")
    cluster, topic, _, _ = next(iter(sent.values()))

    async def beside_a_plain_consumer() -> None:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=local.ready.clusters[cluster].bootstrap,
            group_id="taken",
            enable_auto_commit=False,
        ) as stray:
            await patience.until(lambda: len(stray.assignment()) > 0, "the stray's assignment", SECONDS)
            with pytest.raises(StreamingQueryException, match="other Kafka consumers"):
                await asyncio.to_thread(job.run_once)

    asyncio.run(beside_a_plain_consumer())
    assert job.ids() == []
    job.run_once()
    assert sorted(job.ids()) == sorted(sent)
