"""Handlers that take batches: what one that fails or is late leaves of its records."""

import asyncio
from typing import Final, TypeVar

from braid.client.consumer_settings import Retry
from braid.client.records.batch import Batch
from braid.kernel.errors import Retryable
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, member

T = TypeVar("T")
Run = asyncio.Future[None]
QUICK: Final = Retry(max_attempts=2, backoff_seconds=(0.5, 0.5))


# --- batches


@virtual
async def test_a_failed_batch_is_retried_record_by_record() -> None:
    sizes: list[int] = []

    async def handle(batch: Batch) -> None:
        sizes.append(len(batch))
        if 7 in batch.records["offset"].to_pylist():
            raise ValueError("seven")
        for offset in batch.records["offset"].to_pylist():
            at.watch.done("east", TOPIC, 0, offset)

    async with bench() as at:
        at.fill(100)
        at.watch.done("east", TOPIC, 0, 7)
        async with member(at, "m", FIRST, retry=QUICK, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run_batches(handle, max_records=25))
            await until(lambda: at.watch.base(TOPIC) == 100)
        await running
        assert sorted(sizes, reverse=True) == [25] * 4 + [1] * 25
        (letter,) = at.control.records("logs/dlq/1")
        assert (letter.value, dict(letter.headers)["braid-dl-attempts"]) == (b"7", b"2")


@virtual
async def test_rows_a_batch_handler_settled_are_not_its_errors() -> None:
    seen: list[list[int]] = []

    async def handle(batch: Batch) -> None:
        offsets = batch.records["offset"].to_pylist()
        seen.append(offsets)
        for offset in offsets:
            at.watch.done("east", TOPIC, 0, offset)
        if len(offsets) > 1:
            batch.ack([offset < 4 for offset in offsets])
            raise Retryable("the rest later", after_seconds=3.0)

    async with bench() as at:
        at.fill(5)
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run_batches(handle))
            await until(lambda: at.watch.base(TOPIC) == 5)
        await running
        assert seen == [[0, 1, 2, 3, 4], [4]]


@virtual
async def test_a_batch_whose_time_is_over_is_not_lost() -> None:
    async def handle(batch: Batch) -> None:
        if len(batch) > 1:
            await asyncio.sleep(1_000)
        for offset in batch.records["offset"].to_pylist():
            at.watch.done("east", TOPIC, 0, offset)

    async with bench() as at:
        at.fill(5)
        async with member(at, "m", FIRST, retry=QUICK, handler_timeout_seconds=2.0) as (consumer, _):
            running = asyncio.ensure_future(consumer.run_batches(handle))
            await until(lambda: at.watch.base(TOPIC) == 5)
        await running
