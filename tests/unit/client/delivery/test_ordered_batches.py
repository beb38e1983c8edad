"""Batches in order: one of a partition at a time, however its rows are settled, and what failed before what follows."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable

import pytest

import braid
from braid.client.consuming.consumer import Consumer
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.key_order import KeyOrder
from braid.client.records.batch import Batch
from braid.client.records.record import Row
from braid.client.records.slices import Slice
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, member, take

SECOND = "logs/live/1/1"
DLQ = "logs/dlq/1"


def sunk(at: Bench, batch: Batch, offset: int) -> None:
    """The sink takes a row of a batch."""
    work = batch.work.lease
    at.watch.done(work.cluster.name, work.topic_partition.topic, work.topic_partition.partition, offset)


def offsets_of(batch: Batch) -> list[int]:
    return [int(offset) for offset in batch.records["offset"].to_pylist()]


async def acked(at: Bench, batch: Batch) -> None:
    for offset in offsets_of(batch):
        sunk(at, batch, offset)


async def acked_one_by_one(at: Bench, batch: Batch) -> None:
    for record in batch.unsettled():
        at.sunk(record)
        record.ack()


async def rejected(at: Bench, batch: Batch) -> None:
    await acked(at, batch)
    raise braid.Reject("none of ours")


async def dead_lettered(at: Bench, batch: Batch) -> None:
    await acked(at, batch)
    if 5 in offsets_of(batch):
        raise ValueError("hopeless")


@pytest.mark.parametrize("ordering", ["none", "key", "partition"])
@pytest.mark.parametrize("how", [acked, acked_one_by_one, rejected, dead_lettered])
def test_a_batch_is_followed_by_the_next_however_rows_settled(
    ordering: str, how: Callable[[Bench, Batch], asyncio.Future[None]]
) -> None:
    @virtual
    async def run() -> None:
        async with bench() as at:
            at.fill(100)
            retry = braid.Retry(permanent=(ValueError,))
            async with member(at, "m", FIRST, ordering=ordering, concurrency=4, retry=retry) as (consumer, _):

                async def handle(batch: Batch) -> None:
                    await how(at, batch)

                running = asyncio.ensure_future(consumer.run_batches(handle, max_records=10))
                await until(lambda: at.watch.base(TOPIC) == 100)
                assert consumer.in_flight_bytes == 0
            await running

    run()


class Unsteady:
    """A handler that takes its time, acknowledges some, and fails now and then; notes what succeeded in which order."""

    def __init__(self, at: Bench, seed: int) -> None:
        self.at = at
        self.random = random.Random(seed)
        self.running: set[int] = set()
        self.together = 0
        self.done: dict[int, list[int]] = defaultdict(list)  # by partition

    async def __call__(self, batch: Batch) -> None:
        partition, offsets = batch.work.lease.topic_partition.partition, offsets_of(batch)
        self.together += partition in self.running
        self.running.add(partition)
        try:
            await asyncio.sleep(self.random.choice((0.0, 0.003, 0.03)))
            done = self.random.randrange(len(offsets) + 1) if self.random.random() < 0.4 else len(offsets)
            for offset in offsets[:done]:
                sunk(self.at, batch, offset)
            self.done[partition] += offsets[:done]
            batch.ack([number < done for number in range(len(offsets))])
            if done < len(offsets):
                raise ConnectionError("now and then")
        finally:
            self.running.discard(partition)


async def played(at: Bench, handler: Unsteady, ordering: str, count: int) -> None:
    """Two partitions, filled while they are worked on."""
    retry = braid.Retry(max_attempts=1_000, backoff_seconds=(0.001, 0.05))
    settled = member(at, "m", FIRST, SECOND, ordering=ordering, retry=retry, concurrency=3)
    async with settled as (consumer, _):
        running = asyncio.ensure_future(consumer.run_batches(handler, max_records=7))
        for _ in range(count // 20):
            for partition in (0, 1):
                at.fill(20, partition=partition)
            await asyncio.sleep(handler.random.choice((0.0, 0.01, 0.1)))
        await until(lambda: at.watch.base(TOPIC, 0) == at.watch.base(TOPIC, 1) == count)
        assert consumer.in_flight_bytes == 0
    await running


@pytest.mark.parametrize("ordering", ["key", "partition"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_done_in_their_order_whatever_fails(ordering: str, seed: int) -> None:
    @virtual
    async def run() -> None:
        async with bench() as at:
            handler = Unsteady(at, seed)
            await played(at, handler, ordering, 400)
            assert handler.together == 0
            assert handler.done == {0: list(range(400)), 1: list(range(400))}

    run()


@virtual
async def test_without_an_order_they_are_not() -> None:
    """The control: it is the order that keeps it."""
    async with bench() as at:
        handler = Unsteady(at, 1)
        await played(at, handler, "none", 400)
        assert handler.together
        assert handler.done[0] != list(range(400))


def test_an_order_that_lets_rows_return_one_by_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(order: KeyOrder[Row, Slice[Cursor]]) -> list[Row]:
        records, order._returned = order._returned, []
        order.slice_out -= len(records)
        return records

    @virtual
    async def run() -> None:
        async with bench() as at:
            handler = Unsteady(at, 1)
            await played(at, handler, "partition", 200)
            assert handler.done[0] != list(range(200))

    monkeypatch.setattr(KeyOrder, "all_returned", hasty)
    run()


@virtual
async def test_a_batch_put_off_by_hand_returns_whole_and_in_order() -> None:
    async with bench() as at:
        at.fill(30)
        async with member(at, "m", FIRST, ordering="partition") as (consumer, _):
            taken: list[list[int]] = []
            async for batch in consumer.batches(max_records=10):
                taken.append(offsets_of(batch))
                if len(taken) == 1:
                    for number, record in enumerate(batch.unsettled()):
                        record.retry(1.0 / (1 + number % 4))
                    continue
                await acked(at, batch)
                batch.ack()
                if taken[-1][-1] == 29:
                    break
            assert taken == [list(range(10)), *(list(range(first, first + 10)) for first in (0, 10, 20))]
            await until(lambda: at.watch.base(TOPIC) == 30)


async def parked(at: Bench, consumer: Consumer, count: int) -> None:
    for record in await take(consumer, count):
        record.retry(3_600.0)


@virtual
async def test_what_a_lost_lease_had_parked_holds_up_no_other() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, _):
        at.fill(500)
        await parked(at, consumer, 500)
        assert consumer.in_flight_bytes > 0
        await at.control.revoke(-1, FIRST)
        await until(lambda: consumer.in_flight_bytes == 0 and not len(consumer._retries))
        await at.control.grant(-1, FIRST)
        assert len(await take(consumer, 500)) == 500  # once, and with the whole bound


@virtual
async def test_a_letter_given_up_by_hand_is_rejected_in_its_lane() -> None:
    async with bench() as at:
        at.fill(3, channel=DLQ)
        place = at.control.channels[DLQ].topic
        async with member(at, "m", "logs/dlq/1/0", lanes={"dlq": 1}) as (consumer, _):
            for record in await take(consumer, 3):
                record.dead_letter("hopeless")
            await until(lambda: at.watch.base(place) == 3)
        assert len(at.control.records(DLQ)) == 3
        assert list(at.watch.last(place).fields.rejected) == [(0, 3)]
