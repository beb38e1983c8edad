"""Sends to every partition of a stream in turn, at a steady rate, while a test runs."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import braid
from braid.kafka.partitioner import murmur2

_KEYS_PER_PARTITION = 40  # tried: each partition gets one of them


@asynccontextmanager
async def steadily_sent(mesh: braid.Mesh, stream: str, partitions: int, per_second: float) -> AsyncIterator[None]:
    """Sends records of the stream's one lane while this is entered. Fails if sending has ended before."""
    tried = (b"%d" % number for number in range(_KEYS_PER_PARTITION * partitions))
    keys = {(murmur2(key) & 0x7FFFFFFF) % partitions: key for key in tried}

    async def send(producer: braid.Producer) -> None:
        number = 0
        while True:
            due = time.monotonic() + 1 / per_second
            await producer.send(b"%d" % number, key=keys[number % partitions])
            number += 1
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async with mesh.producer(stream) as producer:
        task = asyncio.create_task(send(producer))
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
