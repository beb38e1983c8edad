"""Spark as the last stage of a real pathway, and its batches in the traces of who sent their records."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.support.commands import printed
from tests.support.grounds import wait_healthy
from tests.support.otlp_collector import Collector, SeenSpan, running_collector
from tests.support.spark_session import running_spark

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

RECORDS: Final = 20
WAY: Final = "shop → spark-bought → spark-checkout → spark-paid → spark-books"
TRACE: Final = "ab" * 16  # of who sends
PATIENCE_SECONDS: Final = 120.0  # Spark starts its processes in it


@pytest.fixture
def every_service(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters and every service; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Where Spark's processes send their traces."""
    with running_collector() as running:
        yield running


@pytest.fixture
def spark(collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """Spark whose processes inherit where traces go."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with running_spark(tmp_path / "spark") as session:
        yield session


@asynccontextmanager
async def paid(every_service: DevMesh) -> AsyncIterator[None]:
    """Sends records over two streams, each by an application that follows pathways, in one trace.

    The applications stay, because they report every ten seconds.
    """
    endpoint, taken = every_service.ready.endpoint, asyncio.Semaphore(0)
    origin = {"traceparent": f"00-{TRACE}-{'cd' * 8}-01".encode()}
    async with braid.connect(endpoint, pathways="shop") as shop, braid.connect(endpoint, pathways="till") as till:
        for name in ("spark-bought", "spark-paid"):
            spec = StreamSpec(lanes={"live": LaneSpec(partitions=2)}, replication_factor=1)
            await shop.service("registry").unary("CreateStream", CreateStreamRequest(name=name, spec=spec), Stream)
        async with (
            shop.producer("spark-bought") as bought,
            till.producer("spark-paid") as on,
            till.consumer(["spark-bought"], group="spark-checkout") as checkout,
        ):

            async def take(record: braid.Record) -> None:
                await on.send(record.value, key=record.key, headers=origin)
                taken.release()

            handling = asyncio.create_task(checkout.run(take))
            for number in range(RECORDS):
                await bought.send(b"%d" % number, key=b"%d" % number)
            for _ in range(RECORDS):
                await taken.acquire()
            yield
        await handling


@contextmanager
def reading(every_service: DevMesh, spark: SparkSession, directory: Path) -> Iterator[None]:
    """A query that reads what comes, as a member of a group.

    It runs until the end of the test: a batch is known to be done when Spark asks for the next one.
    """
    reader = (
        spark.readStream.format("braid").option("endpoint", every_service.ready.endpoint).option("stream", "spark-paid")
    )
    rows = reader.option("group", "spark-books").option("pathways", "books").load()
    writer = rows.select("id").writeStream.format("parquet").option("path", str(directory / "table"))
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        yield
        assert query.exception() is None
    finally:
        query.stop()


async def test_spark_is_a_stage_of_a_pathway_and_is_traced(
    every_service: DevMesh, spark: SparkSession, collector: Collector, tmp_path: Path
) -> None:
    ways: list[str] = []

    async def is_known() -> bool:
        found = json.loads(await printed(every_service, "get pathways --stream spark-paid -o json"))
        ways[:] = [each["way"] for each in found["items"]]
        return WAY in ways

    async with paid(every_service):
        with reading(every_service, spark, tmp_path):
            await until(is_known, lambda: f"the way to Spark is known: {ways}", PATIENCE_SECONDS)
            await until(
                lambda: read_in(collector) == RECORDS,
                lambda: f"the tasks of all batches are traced: {collector.spans()}",
            )
    for task in tasks(collector):
        batch = next(each for each in collector.spans() if each.span_id == task.parent_id)
        assert (batch.name, batch.service, batch.trace_id) == ("process spark-paid", "braid-spark", task.trace_id)
        assert batch.attributes["braid.batch.outcome"] == "done"
        assert [each.hex() for each in task.linked] == [TRACE]


def tasks(collector: Collector) -> list[SeenSpan]:
    """Spans of tasks whose batch was exported too."""
    known = {each.span_id for each in collector.spans()}
    return [each for each in collector.spans() if each.name == "poll spark-paid" and each.parent_id in known]


def read_in(collector: Collector) -> int:
    """How many records the tasks of finished batches read."""
    return sum(int(str(each.attributes["messaging.batch.message_count"])) for each in tasks(collector))
