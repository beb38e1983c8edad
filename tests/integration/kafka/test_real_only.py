"""Behaviour that the twin does not have: topics brokers create unasked, transactions, a disk that comes back empty."""

import asyncio
import gc
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection

from braid.kafka.cluster import AioKafka
from braid.kernel.errors import BraidError, NotFound, OffsetOutOfRange
from braid.kernel.ports import FetchedRecords, Isolation, KafkaCluster, KafkaFetcher, TopicPartition
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import running_broker
from testbed.patience import until
from tests.contract.kafka.rig import ENOUGH_SECONDS, Rig, values_of, write

pytestmark = pytest.mark.untimed


@pytest.fixture
async def eager(tmp_path: Path) -> AsyncIterator[KafkaBroker]:
    """A broker with Kafka's own default: it creates any topic somebody asks for."""
    with running_broker("eager", tmp_path / "eager", {"auto.create.topics.enable": "true"}) as broker:
        yield broker


def _fetcher(cluster: KafkaCluster, isolation: Isolation = Isolation.READ_COMMITTED) -> KafkaFetcher:
    return cluster.fetcher(max_partition_bytes=1 << 20, isolation=isolation, client_rack="")


async def test_no_client_creates_a_topic_even_where_brokers_would(eager: KafkaBroker) -> None:
    cluster = AioKafka("test").cluster(eager.bootstrap, "")
    admin, fetcher = cluster.admin(), _fetcher(cluster)
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    await producer.start()
    await fetcher.start()
    assert (await admin.describe_cluster()).auto_creates_topics
    deleted, missing = TopicPartition("deleted", 0), TopicPartition("missing", 0)
    await admin.create_topic("deleted", 1, 1, {})
    await write(producer, deleted, b"a")
    await admin.delete_topic("deleted")
    fetcher.assign({deleted: 0, missing: 0})
    assert list(await fetcher.fetch(10, 1.0)) == []
    for partition in (deleted, missing):
        with pytest.raises(NotFound):
            async with asyncio.timeout(ENOUGH_SECONDS):
                await (await producer.send(partition, b"late", None, [], 1))
        with pytest.raises(NotFound):
            await admin.try_append(partition, b"canary", 2.0)
    assert await admin.list_topics() == []
    for client in (producer.abandon(), fetcher.close(), admin.close()):
        await client


async def test_aborted_records_and_markers_are_passed_undelivered(rig: Rig) -> None:
    partition = await rig.partition()
    async with AIOKafkaProducer(
        bootstrap_servers=rig.bootstrap, transactional_id=f"{rig.prefix}-writer", client_id="test"
    ) as writer:
        for value, keep in ((b"kept", True), (b"aborted", False), (b"kept too", True)):
            await writer.begin_transaction()
            await writer.send_and_wait(partition.topic, value, partition=0)
            await (writer.commit_transaction() if keep else writer.abort_transaction())
    end = 6

    async def marked() -> bool:
        return (await rig.admin.offsets_at({partition: 10**15}))[partition] == end

    await until(marked, "the last marker is written, which Kafka does after it has answered")
    committed = await _drain(rig, partition, end, Isolation.READ_COMMITTED)
    assert [record.value for one in committed for record in one.records] == [b"kept", b"kept too"]
    everything = await _drain(rig, partition, end, Isolation.READ_UNCOMMITTED)
    assert [record.value for one in everything for record in one.records] == [b"kept", b"aborted", b"kept too"]


async def _drain(rig: Rig, partition: TopicPartition, end: int, isolation: Isolation) -> list[FetchedRecords]:
    """Fetches until the position has passed everything, markers at the end too."""
    fetcher, fetched = _fetcher(rig.cluster, isolation), list[FetchedRecords]()
    await fetcher.start()
    fetcher.assign({partition: 0})
    async with asyncio.timeout(ENOUGH_SECONDS):
        while not fetched or fetched[-1].next_offset < end:
            fetched += await fetcher.fetch(1, 0.5)
    await fetcher.close()
    return fetched


async def test_a_broker_that_returns_without_its_disk(broker: KafkaBroker, rig: Rig) -> None:
    cluster, admin, topic = rig.cluster, rig.admin, f"{rig.prefix}.lost"
    fetcher, partition = _fetcher(cluster), TopicPartition(topic, 0)
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    await producer.start()
    await fetcher.start()
    await admin.create_topic(topic, 1, 1, {})
    await write(producer, partition, b"a", b"b")
    fetcher.assign({partition: 2})
    identity, mark = (await admin.describe_cluster()).cluster_id, await admin.fingerprint(partition, 1)

    await rig.faults.kill()
    pending = await producer.send(partition, b"pending", None, [], 1)
    shutil.rmtree(broker.directory / "data")
    await rig.faults.start()
    assert (await admin.describe_cluster()).cluster_id != identity
    with pytest.raises(NotFound):
        async with asyncio.timeout(ENOUGH_SECONDS):
            await pending
    await admin.create_topic(topic, 1, 1, {})
    with pytest.raises(OffsetOutOfRange):
        await fetcher.fetch(10, ENOUGH_SECONDS)
    assert (await write(producer, partition, b"a"))[0].offset == 0
    assert await admin.fingerprint(partition, 1) not in (None, mark)
    for client in (producer.abandon(), fetcher.close()):
        await client


async def test_a_broker_killed_under_load_loses_and_repeats_nothing(rig: Rig) -> None:
    """The broker dies in the middle of a stream of records; an idempotent producer goes on when it is back.

    The records must be of today: a broker that starts forgets producers whose last record is older than
    `producer.id.expiration.ms` (a day) by its own timestamp, and then takes a batch that is sent again as new.
    """
    partition = await rig.partition()
    producer = await rig.producer(linger_ms=5, max_batch_bytes=20_000)
    values = [f"{number}".encode() * 20 for number in range(60_000)]
    now_ms = time.time_ns() // 1_000_000

    async def send_all() -> list[int]:
        pending = [await producer.send(partition, value, None, [], now_ms) for value in values]
        return [(await outcome).offset for outcome in pending]

    sending = asyncio.create_task(send_all())
    while (await _end(rig, partition)) == 0:
        assert not sending.done()
    await rig.faults.kill()
    assert not sending.done()
    await rig.faults.start()
    async with asyncio.timeout(ENOUGH_SECONDS):
        assert await sending == list(range(len(values)))
    assert await values_of(rig, partition) == values


@pytest.mark.parametrize("seconds", [pytest.param(0.5, marks=pytest.mark.extended), 3.0])
async def test_a_producer_abandoned_at_a_frozen_broker_leaves_nothing(rig: Rig, seconds: float) -> None:
    """Neither tasks nor connections that open once the broker goes on: `until` looks for as long as they could."""
    partition = await rig.partition()
    await rig.admin.close()
    before = asyncio.all_tasks()
    producer = rig.cluster.producer(linger_ms=0, compression=None, max_batch_bytes=1 << 20)
    await producer.start()
    await producer.send(partition, b"first", None, [], 1)
    await rig.faults.pause()
    pending = [await producer.send(partition, b"v" * 100_000, None, [], 1) for _ in range(5)]
    await asyncio.sleep(seconds)  # what it does about a silent broker differs with time
    await producer.abandon()
    await rig.faults.resume()
    for each in pending:
        with pytest.raises(BraidError):
            await each
    await until(lambda: asyncio.all_tasks() <= before, lambda: f"{asyncio.all_tasks() - before} have ended")
    gc.collect()
    alive = [each for each in gc.get_objects() if isinstance(each, AIOKafkaConnection) and each.connected()]
    assert alive == []


async def _end(rig: Rig, partition: TopicPartition) -> int:
    try:
        return (await rig.admin.offsets_at({partition: 10**15}))[partition]
    except BraidError as error:
        raise AssertionError("the broker is not dead yet") from error
