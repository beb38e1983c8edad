"""Lag monitors in a real mesh: against produce times, beside another tool's group, killed, with a cluster killed."""

import asyncio
import json
import math
import time
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

import braid
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.cluster import AioKafka
from braid.kafka.offset_log import OFFSETS_TOPIC, read_key, read_value
from braid.kernel.ports import CallOptions, RpcChannel
from braid.rpc.grpc_transport import GrpcTransport
from braid.rpc.methods import method_path
from devmesh.mesh import DevMesh
from tests.e2e.chaos.clusters import decode_commit
from tests.support.mesh import show_logs
from tests.support.patience import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PARTITIONS = 50
SAMPLED_SECONDS = 20.0
DONE = lag_pb2.LAG_SOURCE_DONE
Condition = Callable[[Sequence[lag_pb2.Lag]], bool]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevMesh]:
    """Two clusters and two lag monitors."""
    directory = tmp_path_factory.mktemp("lagmon")
    mesh = DevMesh(directory, clusters=("east", "west"), registries=1, assigners=1, lagmons=2)
    try:
        asyncio.run(mesh.up(print))
        yield mesh
    finally:
        asyncio.run(mesh.down())
        show_logs(directory)


@asynccontextmanager
async def lagmon(local: DevMesh, instance: str) -> AsyncIterator["Lagmon"]:
    """One replica, asked directly."""
    info = await local.info()
    channel = GrpcTransport().channel(info.services[instance].address)
    try:
        yield Lagmon(channel)
    finally:
        await channel.close()


@dataclass
class Lagmon:
    """A replica as a client sees it."""

    channel: RpcChannel

    async def ask(self, group: str) -> api.ListLagResponse:
        """All rows of a group's partitions."""
        request = api.ListLagRequest(
            filter=api.LagFilter(group=group), detail=lag_pb2.LAG_DETAIL_PARTITION, page_size=1_000
        )
        return await self.channel.unary(
            method_path("lagmon", "ListLag"), request, api.ListLagResponse, CallOptions(60.0)
        )

    async def until(self, group: str, holds: Condition, seconds: float = 20.0) -> Sequence[lag_pb2.Lag]:
        """Waits until a group's rows are as wanted."""
        rows: list[lag_pb2.Lag] = []

        async def look() -> bool:
            rows[:] = (await self.ask(group)).lags
            return holds(rows)

        await until(look, lambda: str(rows), seconds, poll=0.1)
        return rows


@dataclass
class Oracle:
    """What the application knows itself: records sent and not handled, by partition, with their send times."""

    pending: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    errors: list[float] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def sent(self, partition: int, record: str, at: float) -> None:
        """A record was acknowledged; it may be handled already."""
        if record not in self.done:
            self.pending[partition][record] = at

    def handled(self, partition: int, record: str) -> None:
        """A record is done."""
        self.done.add(record)
        self.pending[partition].pop(record, None)

    def compare(self, rows: Sequence[lag_pb2.Lag]) -> None:
        """Notes how far each row is from the truth of now."""
        now = time.time()
        for row in rows:
            assert math.isfinite(row.lag_seconds) and row.lag_seconds >= 0 and row.lag_records >= 0
            truth = max((now - sent for sent in self.pending[row.partition].values()), default=0.0)
            self.errors.append(abs(row.lag_seconds - truth))

    def percentile(self, share: float) -> float:
        """The error that so many stay below."""
        return sorted(self.errors)[math.ceil(len(self.errors) * share) - 1]


async def create(endpoint: str, stream: str, partitions: int) -> None:
    """Makes a stream."""
    async with braid.connect(endpoint) as mesh:
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=partitions)}, replication_factor=1)
        await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name=stream, spec=spec), Stream)


async def test_lag_is_within_a_second_of_produce_times(local: DevMesh) -> None:
    """Fifty partitions: busy ones, slow ones, one that is stuck, and idle ones that are never written.

    What a group did since its last commit nobody sees: a record that took long counts up to a commit interval more.
    """
    await create(local.ready.endpoint, "orders", PARTITIONS)
    oracle, stuck, release = Oracle(), asyncio.Event(), asyncio.Event()

    async def handle(record: braid.Record) -> None:
        if record.value == b"stuck":
            stuck.set()
            await release.wait()
        elif record.partition % 5 == 1:
            await asyncio.sleep(0.3)
        oracle.handled(record.partition, record.id)

    async def produce(producer: braid.Producer, until: float) -> None:
        for number in range(100_000):
            if time.time() > until:
                return
            sent, value = time.time(), b"stuck" if number == 40 else b"x"
            receipt = await producer.send(value, key=b"%d" % (number % 23))
            oracle.sent(receipt.partition, receipt.id, sent)
            await asyncio.sleep(0.02)

    async with (
        lagmon(local, "lagmon-0") as monitor,
        braid.connect(local.ready.endpoint) as mesh,
        mesh.producer("orders") as producer,
        mesh.consumer(["orders"], group="shop", concurrency=500) as consumer,
    ):
        running = asyncio.create_task(consumer.run(handle))
        await monitor.until("shop", lambda rows: len(rows) == PARTITIONS and all(row.source == DONE for row in rows))
        end = time.time() + SAMPLED_SECONDS
        producing = asyncio.create_task(produce(producer, end - 6))
        while time.time() < end:
            oracle.compare((await monitor.ask("shop")).lags)
            await asyncio.sleep(0.2)
        await producing
        assert stuck.is_set() and sum(len(left) > 0 for left in oracle.pending.values()) >= 1
        release.set()
        rows = await monitor.until("shop", lambda rows: all(row.source == DONE for row in rows), 10)
        assert [(row.lag_records, row.lag_seconds) for row in rows] == [(0, 0.0)] * PARTITIONS
        running.cancel()
    figures = {name: round(oracle.percentile(share), 3) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
    print("lag error in seconds:", json.dumps(figures), "samples:", len(oracle.errors))
    assert figures["p99"] <= 1.0


async def test_another_tools_group_is_labelled_foreign(local: DevMesh) -> None:
    bootstrap = local.ready.clusters["east"].bootstrap
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    await admin.create_topic("mirror", 1, 1, {})
    await admin.close()
    async with (
        lagmon(local, "lagmon-1") as monitor,
        AIOKafkaProducer(bootstrap_servers=bootstrap) as producer,
        AIOKafkaConsumer(
            "mirror",
            bootstrap_servers=bootstrap,
            group_id="tool",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        await producer.send_and_wait("mirror", b"first")
        await consumer.getone()
        await consumer.commit()
        await monitor.until("tool", lambda rows: [row.source for row in rows] == [DONE])
        for number in range(30):
            await producer.send_and_wait("mirror", b"%d" % number)
            await asyncio.sleep(0.1)
        (row,) = await monitor.until("tool", lambda rows: [row.lag_records for row in rows] == [30])
        assert row.foreign and (row.stream, row.topic) == ("", "mirror")
        assert row.source == lag_pb2.LAG_SOURCE_ESTIMATE
        assert 2.0 < row.lag_seconds < 6.0
    await asyncio.sleep(2)
    shown = await asyncio.to_thread(scrape, (await local.info()).services["lagmon-1"].metrics)
    assert 'kafka_consumergroup_lag{cluster="east",consumergroup="tool",partition="0",topic="mirror"} 30.0' in shown


async def test_a_foreign_aborted_transactions_commit_does_not_count(local: DevMesh) -> None:
    bootstrap = local.ready.clusters["east"].bootstrap
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    await admin.create_topic("ledger", 1, 1, {})
    await admin.close()
    where = TopicPartition("ledger", 0)
    async with (
        lagmon(local, "lagmon-1") as monitor,
        AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="teller") as producer,
    ):
        for offset, abort in ((2, False), (3, True)):
            await producer.begin_transaction()
            for number in range(5):
                await producer.send_and_wait("ledger", b"%d" % number)
            await producer.send_offsets_to_transaction({where: offset}, "bank")
            await (producer.abort_transaction() if abort else producer.commit_transaction())
        (row,) = await monitor.until("bank", lambda rows: [row.end_offset for row in rows] == [12])
        await asyncio.sleep(2)
        (row,) = (await monitor.ask("bank")).lags
        assert (row.committed_offset, row.foreign) == (2, True)


def scrape(url: str) -> str:
    """A replica's metrics."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


async def test_every_commit_of_a_real_broker_reads_as_another_reader_reads_it(local: DevMesh) -> None:
    """Version 4, as brokers since 4.1 write it."""
    bootstrap = local.ready.clusters["east"].bootstrap
    versions: dict[int, int] = defaultdict(int)
    async with AIOKafkaConsumer(
        OFFSETS_TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest", exclude_internal_topics=False
    ) as reader:
        for _ in range(20):
            for records in (await reader.getmany(timeout_ms=300)).values():
                for record in records:
                    key = read_key(record.key)
                    if key is None or record.value is None:
                        continue
                    commit, other = read_value(record.value), decode_commit(record.key, record.value)
                    assert other == (*key, commit.offset, commit.metadata, commit.commit_time_ms)
                    versions[int.from_bytes(record.value[:2], "big")] += 1
    assert set(versions) == {4} and versions[4] > 50, dict(versions)


async def test_the_second_replica_answers_complete_rows_when_the_first_is_killed(local: DevMesh) -> None:
    async with lagmon(local, "lagmon-0") as first, lagmon(local, "lagmon-1") as second:
        before = [(row.partition, row.committed_offset) for row in (await first.ask("shop")).lags]
        await local.kill("lagmon-0")
        answer = await second.ask("shop")
        assert [(row.partition, row.committed_offset) for row in answer.lags] == before and len(before) == PARTITIONS
        assert list(answer.catching_up) == []
    await local.start("lagmon-0")


async def test_a_killed_clusters_rows_are_stale_and_grow_until_it_is_back(local: DevMesh) -> None:
    await create(local.ready.endpoint, "events", 4)
    release = asyncio.Event()

    async def handle(record: braid.Record) -> None:
        await release.wait()

    async with (
        lagmon(local, "lagmon-1") as monitor,
        braid.connect(local.ready.endpoint) as mesh,
        mesh.producer("events") as producer,
        mesh.consumer(["events"], group="audit") as consumer,
    ):
        running = asyncio.create_task(consumer.run(handle))
        receipt = await producer.send(b"x")
        cluster = receipt.cluster

        def row_of(rows: Sequence[lag_pb2.Lag]) -> list[lag_pb2.Lag]:
            return [row for row in rows if (row.cluster, row.partition) == (cluster, receipt.partition)]

        await monitor.until("audit", lambda rows: [row.lag_records for row in row_of(rows)] == [1])
        await local.kill(cluster)
        (stale,) = row_of(await monitor.until("audit", lambda rows: [row.stale for row in row_of(rows)] == [True]))
        await asyncio.sleep(2)
        (later,) = row_of((await monitor.ask("audit")).lags)
        assert later.stale and later.lag_records == 1
        assert 1.5 < later.lag_seconds - stale.lag_seconds < 3.5
        release.set()
        await local.start(cluster)
        await monitor.until(
            "audit", lambda rows: all(row.source == DONE and not row.stale for row in rows) and row_of(rows) != [], 40
        )
        running.cancel()
