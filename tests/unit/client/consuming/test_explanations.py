"""`Consumer.explain`: every fetched record is somewhere, and what holds a lease back is named."""

import asyncio

import pytest

from braid.client.consumer_settings import DeadLetterLimits, Retry
from braid.client.consuming.consumer import Consumer
from braid.client.delivery import fetch_pauses
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.membership.lease_session import LeaseSession
from braid.client.records.batch import Batch
from braid.client.records.record import Record
from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import TopicPartition
from tests.support.consumer_parts import cluster_work
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member, take


def blocked(consumer: Consumer) -> tuple[str, ...]:
    """The reasons given for the only lease."""
    (told,) = consumer.explain()
    return told.blocked


def fill_keys(at: Bench, *keys: bytes | None) -> None:
    """Puts a record of each of these keys into the first partition."""
    now_ms = at.control.process.clock.now_ms()
    records = [NewRecord(now_ms, key, b"", ()) for key in keys]
    at.control.clusters["east"].append(TopicPartition(TOPIC, 0), records)


@virtual
async def test_every_fetched_record_is_told_of_once() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST, ordering="partition") as (consumer, _):
            (held,) = await take(consumer, 1)
            (told,) = consumer.explain()
            assert (told.lease, told.stage, told.handled, told.waiting, told.parked) == (FIRST, "working", 1, 9, 0)
            assert told.blocked == (), "a turn that will come"
            held.retry(after_seconds=60.0)
            (told,) = consumer.explain()
            assert (told.handled, told.waiting, told.parked, told.copying) == (0, 9, 1, 0)
            assert told.blocked == ("9 records wait in order behind 1 parked",)
            assert str(told).startswith(f"{FIRST} working: 0 handled (0 overdue), 9 waiting, 1 parked")
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
    monkeypatch.setattr(ReadyQueue, "ahead", lambda self, works: 0)
    with pytest.raises(AssertionError):
        test_what_was_taken_ahead_is_not_handled_by_anybody_yet()


@virtual
async def test_paused_lane_full_memory_and_absent_assigner_are_named() -> None:
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
    monkeypatch.setattr(fetch_pauses, "PARKED_RETRIES_MAX", 3)

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


@virtual
async def test_a_silent_cluster_is_named_and_an_idle_one_is_not() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, _):
            for record in await take(consumer, 10):
                at.sunk(record)
                record.ack()
            for _ in range(60):
                await asyncio.sleep(1.0)
                assert blocked(consumer) == (), "nothing is new"
            at.control.clusters["east"].kill()
            await asyncio.sleep(60.0)
            assert blocked(consumer) == ("cluster east has answered nothing for 60 s",)
            at.control.clusters["east"].start()
            await until(lambda: blocked(consumer) == (), 10.0)


@virtual
async def test_progress_that_cannot_be_read_says_for_how_long_and_why() -> None:
    async with bench() as at:
        at.control.clusters["east"].kill()
        async with member(at, "m", FIRST) as (consumer, _):
            await asyncio.sleep(60.0)
            assert blocked(consumer) == (
                "its committed progress is being read, for 60 s: cluster east refuses to connect",
                "cluster east has answered nothing for 60 s",
            )
            at.control.clusters["east"].start()
            await until(lambda: blocked(consumer) == (), 20.0)


@virtual
async def test_every_progress_read_reports_a_refusal_anew() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, _):
        await until(lambda: [told.blocked for told in consumer.explain()] == [()])
        await at.control.revoke(0, FIRST, deadline_ms=0)
        await until(lambda: not consumer.explain())
        at.control.clusters["east"].kill()
        await asyncio.sleep(60.0)
        for seconds in (7, 13):
            await at.control.grant(0, FIRST)
            await asyncio.sleep(seconds)
            (told,) = consumer.explain()
            assert told.stage == "restoring"
            assert told.blocked == (
                f"its committed progress is being read, for {seconds} s: cluster east refuses to connect",
            )
        await at.control.revoke(0, FIRST, deadline_ms=0)
        await until(lambda: not consumer.explain())
        assert not cluster_work(consumer)._unread, "what is gone is forgotten"


@virtual
async def test_only_records_of_a_parked_key_are_named_as_waiting() -> None:
    async with bench() as at:
        fill_keys(at, b"a", b"b", b"a", b"a", None)
        async with member(at, "m", FIRST, ordering="key") as (consumer, _):
            first, *others = await take(consumer, 5, seconds=0.5)
            assert [each.key for each in others] == [b"b", None] and blocked(consumer) == ()
            others[0].retry(after_seconds=20.0)
            at.sunk(others[1])
            others[1].ack()
            at.sunk(first)
            first.ack()
            for record in await take(consumer, 2, seconds=0.5):
                at.sunk(record)
                record.ack()
                for following in await take(consumer, 1, seconds=0.5):
                    at.sunk(following)
                    following.ack()
            assert consumer.explain()[0].parked == 1 and blocked(consumer) == (), "nobody waits for it"
            fill_keys(at, b"b", b"b", b"c")
            assert [each.key for each in await take(consumer, 2, seconds=0.5)] == [b"c"]
            assert blocked(consumer) == ("2 records wait for an earlier one of the same key, and 1 parked",)
            await asyncio.sleep(30.0)
            assert blocked(consumer) == ()
            killed(consumer)


@virtual
async def test_batches_behind_a_parked_record_are_shown_for_any_key() -> None:
    async with bench() as at:
        fill_keys(at, *(b"%d" % n for n in range(9)))
        async with member(at, "m", FIRST, ordering="key") as (consumer, _):
            batches = consumer.batches(3)
            first: Batch = await anext(batches)
            first.retry(after_seconds=20.0)
            more = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(1.0)
            assert blocked(consumer) == ("6 records wait in order behind 3 parked",)
            more.cancel()
            killed(consumer)


@virtual
async def test_parked_records_delay_nobody_where_no_order_is_kept() -> None:
    async with bench() as at:
        at.fill(1_000)
        async with member(at, "m", FIRST) as (consumer, _):
            (held,) = await take(consumer, 1)
            held.retry(after_seconds=60.0)
            assert (consumer.explain()[0].parked, consumer.explain()[0].waiting, blocked(consumer)) == (1, 999, ())


@virtual
async def test_records_of_other_keys_do_not_wait_for_a_parked_one() -> None:
    async with bench() as at:
        fill_keys(at, *(b"%d" % n for n in range(1_000)))
        async with member(at, "m", FIRST, ordering="key") as (consumer, _):
            (held,) = await take(consumer, 1)
            held.retry(after_seconds=60.0)
            assert (consumer.explain()[0].parked, consumer.explain()[0].waiting, blocked(consumer)) == (1, 999, ())


@virtual
async def test_a_backlog_with_its_full_share_of_handlers_says_so() -> None:
    async with bench() as at:
        at.fill(20_000)
        free = asyncio.Event()

        async def handle(record: Record) -> None:
            await free.wait()
            at.sunk(record)

        async with member(at, "m", FIRST, SECOND, concurrency=20, max_in_flight_bytes=4_000_000) as (consumer, _):
            await at.control.split(0, FIRST, 0.25)
            await until(lambda: any(each.behind for each in consumer.explain()))
            await asyncio.sleep(2.0)
            assert not any("share" in str(told) for told in consumer.explain()), "nobody handles anything yet"
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(2.0)
            split, other = sorted(consumer.explain(), key=lambda told: told.lease)
            full, share = split.blocked
            assert full.startswith("the backlog of lane live fills its part of memory (")
            assert share == f"{split.waiting:,} records wait behind 5 that take up the backlog's share of 20 handlers"
            assert other.blocked == (), "at the head nothing waits"
            free.set()
            await until(lambda: at.watch.base(TOPIC) == 20_000, 60.0)
            assert [each.blocked for each in consumer.explain()] == [(), ()]
        await running


def test_asking_gives_no_exclusive_lease_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a lease's deadline, `explain` names the silent party; only the guard, or a handler's check, gives the lease
    up."""

    async def late(self: LeaseSession) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(LeaseSession, "guard", late)

    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at.fill(1)
            async with member(at, "m", FIRST, ownership="exclusive") as (consumer, _):
                await asyncio.sleep(2.0)
                assert blocked(consumer) == ()
                at.control.answers_heartbeats = False
                await until(lambda: blocked(consumer) == ("no assigner is in reach",), 3.0)
                assert consumer.explain()[0].stage == "working"
                killed(consumer)

    scenario()
