"""How an application tests its handler: no broker, no service, and a clock the test moves."""

import asyncio

import braid
from braid.testing import MemoryMesh


async def test_a_record_that_fails_is_tried_again_after_its_backoff() -> None:
    mesh = MemoryMesh()
    mesh.create_stream("orders", {"live": 2})
    attempts: list[int] = []

    async def handle(record: braid.Record) -> None:
        attempts.append(record.attempt)
        if record.attempt == 1:
            raise ConnectionError("the database is away")

    retry = braid.Retry(max_attempts=3, backoff_seconds=(10.0, 60.0))
    async with mesh.producer("orders") as producer, mesh.consumer(["orders"], group="billing", retry=retry) as consumer:
        handling = asyncio.create_task(consumer.run(handle))
        await producer.send(b"order 1", key=b"customer-7")
        await mesh.advance(1)
        assert attempts == [1]
        await mesh.advance(10)
        assert attempts == [1, 2]
    await handling
