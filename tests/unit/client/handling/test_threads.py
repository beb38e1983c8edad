"""Handlers that take long, that block, that take batches: what ends them, and what becomes of their records."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import pytest

from braid.client.consumer_settings import Retry
from braid.client.consuming.consumer import Consumer
from braid.client.records.record import HeldLease, Record
from braid.kernel.errors import Invalid
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import ProcessTasks
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member

T = TypeVar("T")
Run = asyncio.Future[None]
QUICK: Final = Retry(max_attempts=2, backoff_seconds=(0.5, 0.5))


class SlowThreads:
    """Threads whose functions end when the test says so."""

    def __init__(self) -> None:
        self.running: list[Callable[[], None]] = []
        self.count = 0
        self.closed = False

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Begins."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def end() -> None:
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - whoever awaits the future raises it
                future.set_exception(error)

        self.running.append(end)
        return future

    def end_one(self) -> None:
        """The oldest returns."""
        self.running.pop(0)()

    def close(self) -> None:
        """See `Threads`."""
        self.closed = True


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> SlowThreads:
    made = SlowThreads()

    def threads(self: ProcessTasks, count: int, name: str) -> SlowThreads:
        made.count = count
        return made

    monkeypatch.setattr(ProcessTasks, "threads", threads)
    return made


@asynccontextmanager
async def at_work(threads: SlowThreads, count: int, **settings: Any) -> AsyncIterator[tuple[Bench, Consumer, Run]]:
    """A member whose threads are sinking this many records, `concurrency` at a time."""

    def handle(record: Record) -> None:
        at.sunk(record)

    async with bench() as at:
        at.fill(count)
        async with member(at, "m", FIRST, **settings) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(threads.running) == min(count, settings.get("concurrency", count)))
            yield at, consumer, running


def overdue(consumer: Consumer) -> int:
    return sum(each.overdue for each in consumer.explain())


@virtual
async def test_a_handler_that_takes_too_long_is_cancelled_and_fails() -> None:
    cancelled_after: list[float] = []

    async def handle(record: Record) -> None:
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(1_000 if record.offset == 3 else 0.9)
        except asyncio.CancelledError:
            cancelled_after.append(asyncio.get_running_loop().time() - began)
            raise
        at.sunk(record)

    async with bench() as at:
        at.fill(10)
        at.watch.done("east", TOPIC, 0, 3)
        async with member(at, "m", FIRST, retry=QUICK, handler_timeout_seconds=1.0, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base(TOPIC) == 10)
            assert overdue(consumer) == 0
        await running
        assert sorted(at.offsets()) == [offset for offset in range(10) if offset != 3]
        assert len(cancelled_after) == 2 and all(1.0 <= seconds <= 1.02 for seconds in cancelled_after)
        (letter,) = at.control.records("logs/dlq/1")
        assert dict(letter.headers)["braid-dl-error-class"] == b"HandlerTimeout"


async def slow_then_fast(at: Bench, handled: list[int]) -> Callable[[Record], object]:
    """A handler that swallows being cancelled, and ends after 20 s, the first time."""

    async def handle(record: Record) -> None:
        handled.append(record.attempt)
        deadline = asyncio.get_running_loop().time() + (20.0 if record.attempt == 1 else 0.1)
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        at.sunk(record)

    return handle


@virtual
async def test_an_uncancellable_handler_keeps_its_slot() -> None:
    async with bench() as at:
        at.fill(1)
        handled: list[int] = []
        handle = await slow_then_fast(at, handled)
        async with member(at, "m", FIRST, retry=QUICK, handler_timeout_seconds=1.0, concurrency=2) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: overdue(consumer) == 1)
            assert "(1 overdue)" in str(consumer.explain()[0])
            await until(lambda: at.watch.base(TOPIC) == 1, seconds=5.0)
            assert (handled, overdue(consumer)) == ([1, 2], 1)
            await until(lambda: overdue(consumer) == 0)
            assert len(at.sink) == 2  # it came to an end as well, and changed nothing
            assert consumer.leases()[0].in_flight == 0
            at.fill(2)
            await until(lambda: len(handled) == 4)  # both slots work
        await running


@pytest.mark.parametrize("promise", [{"ordering": "key"}, {"ordering": "partition"}, {"ownership": "exclusive"}])
def test_a_guarantee_keeps_a_record_with_its_late_handler(promise: dict[str, str]) -> None:
    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at.fill(1)
            handled: list[int] = []
            handle = await slow_then_fast(at, handled)
            settings = {"retry": QUICK, "handler_timeout_seconds": 1.0, "concurrency": 2, **promise}
            async with member(at, "m", FIRST, **settings) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await until(lambda: overdue(consumer) == 1)
                await asyncio.sleep(10.0)
                assert (handled, consumer.explain()[0].handled) == ([1], 1)
                await until(lambda: at.watch.base(TOPIC) == 1)
                assert handled == [1]
            await running

    scenario()


@virtual
async def test_a_handler_that_swallows_its_timeout_and_returns_is_done() -> None:
    cancelling: list[int] = []

    async def handle(record: Record) -> None:
        task = asyncio.current_task()
        assert task is not None
        cancelling.append(task.cancelling())
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            at.sunk(record)

    async with bench() as at:
        at.fill(3)
        async with member(at, "m", FIRST, handler_timeout_seconds=1.0, concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base(TOPIC) == 3)
        await running
        assert (cancelling, at.offsets()) == ([0, 0, 0], [0, 1, 2])


def test_a_plain_function_runs_and_settles_in_a_thread(threads: SlowThreads) -> None:
    def handle(record: Record) -> None:
        at_bench[0].sunk(record)
        if record.offset == 1:
            record.reject("odd")
        if record.offset == 2 and record.attempt == 1:
            raise ConnectionError

    at_bench: list[Bench] = []

    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at_bench.append(at)
            at.fill(3)
            async with member(at, "m", FIRST, retry=QUICK, concurrency=3) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await until(lambda: len(threads.running) == 3)
                assert threads.count == 3
                for _ in range(3):
                    threads.end_one()
                await until(lambda: len(threads.running) == 1)
                threads.end_one()
                await until(lambda: at.watch.base(TOPIC) == 3)
            await running
            assert threads.closed
            assert at.offsets() == [0, 1, 2, 2]

    scenario()


def test_a_late_thread_keeps_its_slot_and_its_result_is_ignored(threads: SlowThreads) -> None:
    at_bench: list[Bench] = []
    attempts: list[int] = []

    def handle(record: Record) -> None:
        attempts.append(record.attempt)
        at_bench[0].sunk(record)
        record.dead_letter("too late to say so")

    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at_bench.append(at)
            at.fill(1)
            at.watch.done("east", TOPIC, 0, 0)
            async with member(at, "m", FIRST, retry=QUICK, handler_timeout_seconds=1.0, concurrency=2) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await until(lambda: overdue(consumer) == 2)  # both attempts hang: no slot is left
                await until(lambda: at.watch.base(TOPIC) == 1)
                (letter,) = at.control.records("logs/dlq/1")
                assert dict(letter.headers)["braid-dl-error-class"] == b"HandlerTimeout"
                threads.end_one()
                threads.end_one()
                await until(lambda: overdue(consumer) == 0)
                await asyncio.sleep(1.0)
                assert len(at.control.records("logs/dlq/1")) == 1
                assert consumer.explain()[0].handled == 0
                at.fill(1)
                await until(lambda: len(threads.running) == 1)
                at.watch.done("east", TOPIC, 0, 1)
                threads.end_one()
                await until(lambda: at.watch.base(TOPIC) == 2)
            await running

    scenario()


def test_an_exclusive_lease_stays_while_a_thread_uses_its_record(threads: SlowThreads) -> None:
    @virtual
    async def scenario() -> None:
        async with at_work(threads, 1, ownership="exclusive") as (at, _, running):
            await at.control.revoke(0, FIRST, deadline_ms=1_000)
            await asyncio.sleep(20.0)
            assert at.control.released == []
            threads.end_one()
            await until(lambda: [each.lease for each in at.control.released] == [FIRST], seconds=1.0)
            assert at.watch.base(TOPIC) == 1  # what was done in time counts
        await running

    scenario()


def test_a_cancelled_run_awaits_its_threads_and_keeps_their_work(threads: SlowThreads) -> None:
    @virtual
    async def scenario() -> None:
        async with at_work(threads, 5, concurrency=2) as (at, consumer, running):
            running.cancel()
            await asyncio.sleep(5.0)
            assert not running.done()
            threads.end_one()
            threads.end_one()
            await until(running.done)
            assert threads.running == []
            await until(lambda: at.watch.base(TOPIC) == 2)
            killed(consumer)

    scenario()


def test_threads_are_bounded() -> None:
    def handle(record: Record) -> None:
        raise AssertionError(record)

    @virtual
    async def scenario() -> None:
        async with bench() as at, member(at, "m", FIRST, concurrency=1_001) as (consumer, _):
            with pytest.raises(Invalid) as refused:
                await consumer.run(handle)
            assert refused.value.field == "concurrency"

    scenario()


@pytest.mark.parametrize("cancels", [True, False])
def test_a_handler_hears_of_a_lost_lease_and_ends_only_if_asked(cancels: bool) -> None:
    @virtual
    async def scenario() -> None:
        told: list[str] = []

        async def handle(record: Record) -> None:
            lease: HeldLease = record.lease
            assert (lease.name, lease.epoch, lease.lost, lease.asked_back) == (FIRST, record.epoch, False, False)
            try:
                await lease.until_lost()
                told.append("lost" if lease.lost and lease.asked_back else "not lost")
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

        async with bench() as at:
            at.fill(1)
            async with member(at, "m", FIRST, cancel_at_loss=cancels, concurrency=1) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await asyncio.sleep(1.0)
                await at.control.revoke(0, FIRST, deadline_ms=1_000)
                await until(lambda: bool(told))
                assert told == ["cancelled" if cancels else "lost"]
                assert at.watch.base(TOPIC) == 0
            await running

    scenario()


@virtual
async def test_a_revoked_lease_says_so_while_its_record_is_wanted() -> None:
    async with bench() as at:
        at.fill(1)

        async def handle(record: Record) -> None:
            await until(lambda: record.lease.asked_back)
            assert not record.lease.lost
            at.sunk(record)

        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(1.0)
            await at.control.revoke(0, FIRST)
            await until(lambda: bool(at.control.released))
            assert at.watch.base(TOPIC) == 1
        await running


@virtual
async def test_closing_cancels_what_does_not_end_in_time() -> None:
    async with bench() as at:
        at.fill(1)
        ended: list[float] = []

        async def handle(record: Record) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(asyncio.get_running_loop().time())

        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(1.0)
        await running
        assert len(ended) == 1 and ended[0] <= 12.0
