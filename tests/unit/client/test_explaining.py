"""`Consumer.explain`: every fetched record is somewhere, and what holds a lease back is named."""

import asyncio

import pytest

from braid.client.ready import Ready
from braid.client.record import Record
from braid.client.settings import DeadLetterLimits, Retry
from braid.kernel import limits
from tests.support.scripted_control import until, virtual
from tests.unit.client.consuming import FIRST, bench, killed, member, take


@virtual
async def test_every_fetched_record_is_told_of_once() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST, ordering="partition") as (consumer, _):
            (held,) = await take(consumer, 1)
            (told,) = consumer.explain()
            assert (told.lease, told.stage, told.handled, told.waiting, told.parked) == (FIRST, "working", 1, 9, 0)
            held.retry(after_seconds=60.0)
            (told,) = consumer.explain()
            assert (told.handled, told.waiting, told.parked, told.copying) == (0, 9, 1, 0)
            assert told.blocked == () and str(told).startswith(
                f"{FIRST} working: 0 handled (0 overdue), 9 waiting, 1 parked"
            )
            await asyncio.sleep(20.0)
            assert consumer.explain()[0].oldest_seconds >= 20.0


@virtual
async def test_what_was_taken_ahead_is_not_handled_by_anybody_yet() -> None:
    async with bench() as at:
        at.fill(100)
        async with member(at, "m", FIRST, concurrency=10) as (consumer, _):

            async def handle(record: Record) -> None:
                await asyncio.sleep(5.0)
                at.sunk(record)

            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(3.0)
            (told,) = consumer.explain()
            assert (told.handled, told.waiting) == (10, 90)
            killed(consumer)
        running.cancel()


def test_a_run_that_counts_as_handled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before."""
    monkeypatch.setattr(Ready, "ahead", lambda self, works: 0)
    with pytest.raises(AssertionError):
        test_what_was_taken_ahead_is_not_handled_by_anybody_yet()


@virtual
async def test_a_paused_lane_a_full_memory_and_an_assigner_away_are_named() -> None:
    async with bench() as at:
        at.fill(2_000)
        async with member(at, "m", FIRST, max_in_flight_bytes=50_000) as (consumer, _):
            assert await take(consumer, 1)
            await until(lambda: bool(consumer.explain()[0].blocked))
            assert consumer.explain()[0].blocked == ("the memory of lane live is full: fetching pauses",)
            consumer.pause("live")
            assert "lane live is paused" in consumer.explain()[0].blocked
            consumer.resume("live")
            assert "lane live is paused" not in consumer.explain()[0].blocked
            await asyncio.sleep(5.0)  # commits
            at.control.clusters["east"].kill()
            for record in await take(consumer, 20):
                at.watch.done("east", record.topic, record.partition, record.offset)
                record.ack()
            await asyncio.sleep(20.0)
            assert "no commit was answered lately by cluster east" in consumer.explain()[0].blocked
            at.control.clusters["east"].start()
            await until(lambda: "no commit" not in str(consumer.explain()[0]))


@virtual
async def test_a_stopped_lane_says_why() -> None:
    async def fail(record: Record) -> None:
        at.watch.done(record.cluster, record.topic, record.partition, record.offset)
        raise ValueError("bad deploy")

    async with bench() as at:
        at.fill(10)
        few = Retry(max_attempts=1, dead_letters=DeadLetterLimits(in_a_row=2))
        async with member(at, "m", FIRST, retry=few, concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(fail))
            await until(lambda: bool(consumer.stopped()))
            (told,) = consumer.explain()
            assert told.blocked == ("lane live is stopped: 2 records in a row would be dead-lettered",)
        await running


def test_too_many_parked_retries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PARKED_RETRIES_MAX", 3)

    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at.fill(5)
            async with member(at, "m", FIRST) as (consumer, _):
                for record in await take(consumer, 3):
                    record.retry(after_seconds=60.0)
                assert consumer.explain()[0].blocked == (
                    "3 records of lane live wait for another attempt: fetching pauses",
                )

    scenario()
