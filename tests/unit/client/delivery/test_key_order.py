"""Records of a key are handled one after another, whatever is retried, moved or slow; other keys do not wait."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import pytest

from braid.client.consumer_settings import Retry
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.records.record import Record
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import Invalid
from braid.kernel.ports import TopicPartition
from tests.support.consumer_parts import ready_queue
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member, take

KEYS: Final = 7


def fill_keys(at: Bench, count: int, key_of: Callable[[int], bytes | None]) -> None:
    """Puts records with keys into the first partition."""
    now_ms = at.control.process.clock.now_ms()
    records = [NewRecord(now_ms, key_of(n), b"%d" % n, (("braid-ts", b"%d" % now_ms),)) for n in range(count)]
    at.control.clusters["east"].append(TopicPartition(TOPIC, 0), records)


class Watched:
    """A handler that fails now and then, and looks at who runs beside it."""

    def __init__(self, at: Bench, seed: int, key_of: Callable[[Record], object]) -> None:
        self.at = at
        self.random = random.Random(seed)
        self.key_of = key_of
        self.running: dict[object, int] = {}
        self.done: dict[object, list[int]] = defaultdict(list)
        self.overlaps = 0
        self.most = 0

    async def __call__(self, record: Record) -> None:
        key = self.key_of(record)
        self.overlaps += key in self.running
        self.running[key] = record.offset
        self.most = max(self.most, len(self.running))
        try:
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.02)))
            if self.random.random() < 0.2:
                raise ValueError("now and then")
            self.done[key].append(record.offset)
            self.at.sunk(record)
        finally:
            self.running.pop(key, None)

    def in_order(self) -> bool:
        """Whether each key's records were done in the order of their offsets, one at a time."""
        return self.overlaps == 0 and all(offsets == sorted(offsets) for offsets in self.done.values())


async def handled(at: Bench, handler: Watched, ordering: str, count: int) -> None:
    retry = Retry(max_attempts=1_000, backoff_seconds=(0.001, 0.05))
    async with member(at, "m", FIRST, ordering=ordering, retry=retry, concurrency=16) as (consumer, _):
        running = asyncio.ensure_future(consumer.run(handler))
        await until(lambda: at.watch.base(TOPIC) == count)
        assert consumer.in_flight_bytes == 0
    await running


@virtual
async def test_one_keys_records_run_in_turn_and_keys_run_together() -> None:
    async with bench() as at:
        fill_keys(at, 400, lambda n: b"%d" % (n % KEYS))
        handler = Watched(at, 1, lambda record: record.key)
        await handled(at, handler, "key", 400)
        assert handler.in_order()
        assert handler.most == KEYS


@virtual
async def test_a_partitions_records_are_handled_one_after_another() -> None:
    async with bench() as at:
        fill_keys(at, 120, lambda n: b"%d" % (n % KEYS))
        handler = Watched(at, 2, lambda record: record.partition)
        await handled(at, handler, "partition", 120)
        assert handler.in_order()


@virtual
async def test_records_without_a_key_wait_for_nobody() -> None:
    async with bench() as at:
        fill_keys(at, 200, lambda n: None)
        handler = Watched(at, 3, lambda record: record.offset)
        await handled(at, handler, "key", 200)
        assert handler.most == 16


@virtual
async def test_without_an_order_the_same_work_is_out_of_order() -> None:
    """The control: it is the order that keeps it."""
    async with bench() as at:
        fill_keys(at, 400, lambda n: b"%d" % (n % KEYS))
        handler = Watched(at, 1, lambda record: record.key)
        await handled(at, handler, "none", 400)
        assert not handler.in_order()


def test_an_order_that_forgets_who_is_retried_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    retry = Cursor.retry

    def forgetful(work: Cursor, record: Record, after_seconds: float) -> None:
        assert work._ordered_queue is not None
        work._ordered_queue.settled(record)
        retry(work, record, after_seconds)

    @virtual
    async def run() -> None:
        async with bench() as at:
            fill_keys(at, 400, lambda n: b"%d" % (n % KEYS))
            handler = Watched(at, 1, lambda record: record.key)
            await handled(at, handler, "key", 400)
            assert not handler.in_order()

    monkeypatch.setattr(Cursor, "retry", forgetful)
    run()


@virtual
async def test_a_slow_key_holds_up_nobody_else() -> None:
    async with bench() as at:
        fill_keys(at, 100, lambda n: b"slow" if n % 10 == 0 else b"%d" % n)
        gate = asyncio.Event()

        async def handle(record: Record) -> None:
            if record.key == b"slow":
                await gate.wait()
            at.sunk(record)

        async with member(at, "m", FIRST, ordering="key", concurrency=2) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(at.sink) == 90)
            gate.set()
            await until(lambda: at.watch.base(TOPIC) == 100)
        await running
        slow = [offset for offset in at.offsets() if offset % 10 == 0]
        assert slow == sorted(slow)


@virtual
async def test_what_waits_behind_a_record_goes_to_the_next_holder() -> None:
    async with bench() as at:
        fill_keys(at, 10, lambda n: b"one")
        async with member(at, "m", FIRST, ordering="key") as (consumer, _):
            [first] = await take(consumer, 2, seconds=0.5)
            assert first.offset == 0
            await at.control.revoke(0, FIRST)
            at.sunk(first)
            first.ack()
            await until(lambda: consumer.leases() == [])
            assert await consumer.take(0.5) is None
            assert consumer.in_flight_bytes == 0
        async with member(at, "n", FIRST, ordering="key") as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 10)
        await running
        assert at.offsets() == list(range(10))


@virtual
async def test_of_batches_one_of_a_partition_is_out_at_once() -> None:
    async with bench() as at:
        at.fill(100)
        out = 0
        seen: list[int] = []

        async def work() -> None:
            nonlocal out
            async for batch in consumer.batches(10):
                out += 1
                assert out == 1
                await asyncio.sleep(0.01)
                offsets = batch.records.column("offset").to_pylist()
                for offset in offsets:
                    at.watch.done("east", TOPIC, 0, offset)
                seen.extend(offsets)
                out -= 1
                batch.ack()

        async with member(at, "m", FIRST, ordering="partition") as (consumer, _):
            workers = [asyncio.ensure_future(work()) for _ in range(4)]
            await until(lambda: at.watch.base(TOPIC) == 100)
            with pytest.raises(Invalid) as refused:
                await consumer.take(1.0)
            assert refused.value.field == "ordering"
        await asyncio.gather(*workers)
        assert seen == list(range(100))


class Raw:
    """The part of a record that an order uses."""

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self.offset = 0


@virtual
async def test_a_keys_next_record_does_not_await_records_taken_ahead() -> None:
    async with bench() as at:
        fill_keys(at, 100, lambda n: b"busy" if n % 2 == 0 else b"%d" % n)
        async with member(at, "m", FIRST, ordering="key") as (consumer, _):
            for offset in range(0, 40, 2):
                [record] = await take(consumer, 1)
                assert (record.key, record.offset) == (b"busy", offset)
                assert len(ready_queue(consumer).run.records) == 50, "the others were taken ahead"
                at.sunk(record)
                record.ack()
            killed(consumer)


@virtual
async def test_a_lane_of_one_busy_key_leaves_another_lane_its_turns() -> None:
    async with bench() as at:
        fill_keys(at, 100, lambda n: b"busy")
        at.fill(100, channel="logs/bulk/1")
        async with member(at, "m", FIRST, "logs/bulk/1/0", ordering="key") as (consumer, _):
            lanes = []
            for _ in range(40):
                [record] = await take(consumer, 1)
                lanes.append(record.lane)
                at.sunk(record)
                record.ack()
            assert lanes[:32].count("live") == lanes[:32].count("bulk") == 16
            killed(consumer)


@virtual
async def test_records_taken_ahead_on_a_revoked_lease_go_to_the_next() -> None:
    async with bench() as at:
        fill_keys(at, 100, lambda n: b"%d" % (n % 60))
        async with member(at, "m", FIRST, ordering="key") as (consumer, _):
            [first] = await take(consumer, 1)
            assert len(ready_queue(consumer).run.records) == 59
            await at.control.revoke(0, FIRST)
            await asyncio.sleep(1.0)
            assert [(lease.stage, lease.in_flight) for lease in consumer.leases()] == [("draining", 100)]
            at.sunk(first)
            first.ack()
            await until(lambda: consumer.leases() == [])
            assert await consumer.take(0.5) is None
            assert consumer.in_flight_bytes == 0
        handler = Watched(at, 1, lambda record: record.key)
        await handled(at, handler, "key", 100)
        assert handler.in_order()
        assert sorted(at.offsets()) == list(range(100))


def test_an_ordered_run_that_is_never_recalled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the last one."""
    monkeypatch.setattr(ReadyQueue, "recall", lambda self: None)
    with pytest.raises(AssertionError):
        test_records_taken_ahead_on_a_revoked_lease_go_to_the_next()


def test_the_turn_passes_in_the_order_of_coming() -> None:
    order: KeyOrder[Raw, str] = KeyOrder(by_key=True)
    first, second, third = Raw(b"k"), Raw(b"k"), Raw(b"k")
    assert order.admit(first)
    assert not order.admit(second)
    assert not order.admit(third)
    assert order.admit(Raw(None))
    assert order.settled(Raw(None)) is None
    assert order.settled(first) is second
    assert order.clear() == ([third], [])
    assert order.admit(first)
    assert order.settled(first) is None
    assert order.admit(second)
