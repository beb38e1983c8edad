"""A plain Kafka client beside Braid's: what the logs hold, and how long Kafka itself keeps a producer waiting."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from testbed.patience import in_time
from tests.integration.several_brokers.ledger import Ledger, Place

READ_SECONDS: Final = 60.0
RATE_PER_SECOND: Final = 50
_RETRY_MS: Final = 50  # the client's own 100 ms would be counted as Kafka's


async def read_logs(bootstraps: dict[str, str], topics: Iterable[tuple[str, str]]) -> dict[Place, int]:
    """The number of the record at each place of topics, given as cluster and topic."""
    logs: dict[Place, int] = {}
    for cluster, topic in topics:
        logs.update(await in_time(_read(bootstraps[cluster], cluster, topic), f"{topic} is read", READ_SECONDS))
    return logs


async def _read(bootstrap: str, cluster: str, topic: str) -> dict[Place, int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        while not partitions:
            await consumer._client.force_metadata_update()
            await consumer.topics()
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        found: dict[Place, int] = {}
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for each in records:
                    if each.value is not None and each.value.isdigit():
                        found[Place(cluster, topic, each.partition, each.offset)] = int(each.value)
        return found
    finally:
        await consumer.stop()


@contextlib.asynccontextmanager
async def kafka_alone(bootstrap: str, topic: str, partitions: int, ledger: Ledger) -> AsyncIterator[None]:
    """A plain idempotent producer that writes to every partition of a topic, and notes what it waited for."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, retry_backoff_ms=_RETRY_MS
    )
    await producer.start()
    ended = asyncio.Event()

    async def send(number: int) -> None:
        ledger.note_sent(number, time.monotonic())
        try:
            told = await producer.send_and_wait(topic, b"%d" % number, partition=number % partitions)
        except KafkaError:  # it gives up a partition that has no leader
            return
        place = Place("", topic, told.partition, told.offset)
        ledger.note_acknowledged(number, time.monotonic(), place)

    async def feed() -> None:
        async with asyncio.TaskGroup() as sending:
            for number in itertools.count():
                if ended.is_set():
                    return
                sending.create_task(send(number))
                await asyncio.sleep(1 / RATE_PER_SECOND)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        ended.set()
        await feeding
        await producer.stop()
