"""Feeds records into a topic for as long as a test or benchmark needs them, without the SDK."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaProducer

from braid.kafka.cluster import AioKafka


@contextlib.asynccontextmanager
async def fed(bootstrap: str, topic: str, partitions: int, every_seconds: float) -> AsyncIterator[None]:
    """Creates a topic, and sends to its partitions in turn."""
    admin = AioKafka("tests").cluster(bootstrap, "").admin()
    await admin.create_topic(topic, partitions, 1, {})
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()

    async def feed() -> None:
        for number in itertools.count():
            await producer.send(topic, b"%d" % number, partition=number % partitions)
            await asyncio.sleep(every_seconds)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
        await producer.stop()
