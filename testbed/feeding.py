"""Records that flow into a topic for as long as a test or a benchmark needs them, without any of the SDK."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaProducer

from braid.kafka.cluster import AioKafka


@contextlib.asynccontextmanager
async def fed(bootstrap: str, topic: str, partitions: int, every_seconds: float) -> AsyncIterator[None]:
    """Makes a topic, and sends into its partitions, one after the other."""
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
