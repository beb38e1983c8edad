"""How records flow through the consumer: bounds, lanes and shares, `run` and its handlers, batches."""

import asyncio

import pytest

from braid.client.records.record import Record
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS_MAX
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import run_virtual, running_loop
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, bench, killed, member, take


@virtual
async def test_memory_is_bounded_and_fetching_resumes_with_room() -> None:
    async with bench() as at:
        at.fill(20_000)
        async with member(at, "m", FIRST, max_in_flight_bytes=1 << 20) as (consumer, _):
            taken = await take(consumer, 20_000, seconds=1.0)
            assert (1 << 19) <= consumer.in_flight_bytes <= (1 << 20) + 2_000 * 300
            assert len(taken) < 10_000
            for record in taken:
                record.retry()
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(at.sink) == 20_000)
            assert consumer.in_flight_bytes == 0
        await running


@virtual
async def test_no_more_is_fetched_ahead_than_is_asked_for_soon() -> None:
    async with bench() as at:
        at.fill(20_000)
        async with member(at, "m", FIRST) as (consumer, _):
            await asyncio.sleep(5.0)
            assert consumer.leases()[0].in_flight == 4_000
            assert len(await take(consumer, 20_000, seconds=1.0)) == 20_000
            killed(consumer)


@virtual
async def test_a_paused_lane_waits_and_others_pass_its_full_memory() -> None:
    async with bench() as at:
        at.fill(5_000, channel="logs/bulk/1")
        at.fill(5_000)
        leases = [FIRST, "logs/bulk/1/0"]
        async with member(at, "m", *leases, max_in_flight_bytes=1 << 19) as (consumer, _):
            consumer.pause("bulk")
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(at.offsets()) == 5_000)
            assert at.offsets("braid.logs.bulk.1") == []
            consumer.resume("bulk")
            await until(lambda: len(at.offsets("braid.logs.bulk.1")) == 5_000)
        await running


@virtual
async def test_lanes_get_their_shares() -> None:
    async with bench() as at:
        at.fill(2_000, channel="logs/bulk/1")
        at.fill(2_000)
        async with member(at, "m", FIRST, "logs/bulk/1/0", lanes={"live": 8, "bulk": 2}) as (consumer, _):
            await asyncio.sleep(1.0)
            lanes = [record.lane for record in await take(consumer, 1_000)]
            assert lanes.count("live") == 800
            killed(consumer)


@virtual
async def test_a_cancelled_run_gives_its_records_to_the_next_one() -> None:
    async with bench() as at:
        at.fill(10)

        async def stuck(record: Record) -> None:
            await asyncio.sleep(1_000)

        async with member(at, "m", FIRST) as (consumer, _):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await consumer.run(stuck)
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: sorted(at.offsets()) == list(range(10)))
        await running


@virtual
async def test_a_handler_that_cancels_itself_is_a_failed_attempt() -> None:
    async with bench() as at:
        at.fill(5)

        async def handle(record: Record) -> None:
            if record.attempt == 1:
                raise asyncio.CancelledError
            at.sunk(record)

        async with member(at, "m", FIRST, concurrency=2) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(at.sink) == 5)
        await running


@virtual
async def test_a_callback_that_raises_hurts_nobody() -> None:
    def callback(names: list[str]) -> None:
        raise ZeroDivisionError

    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST, on_assigned=callback) as (consumer, _):
            assert len(await take(consumer, 1)) == 1
            killed(consumer)


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize(("record_seconds", "in_a_row"), [(0.0, RECORDS_BETWEEN_YIELDS_MAX), (0.001, 128)])
def test_an_application_that_never_waits_starves_nothing(record_seconds: float, in_a_row: int, ordering: str) -> None:
    run_virtual(_never_waiting(record_seconds, in_a_row, ordering))


async def _never_waiting(record_seconds: float, in_a_row: int, ordering: str) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with bench() as at:
        at.fill(10_000)
        async with member(at, "m", FIRST, ordering=ordering) as (consumer, _):
            await asyncio.sleep(1.0)
            counting = asyncio.ensure_future(others())
            seen = 0
            async for record in consumer:
                at.sunk(record)
                record.ack()
                running_loop()._now += record_seconds
                seen += 1
                if seen == 10_000:
                    break
            counting.cancel()
            assert 10_000 // in_a_row <= turns <= 3 * 10_000 // in_a_row, "neither starved nor starving"


@virtual
async def test_batches_are_columns_of_one_partition() -> None:
    async with bench() as at:
        at.fill(100)
        at.fill(50, partition=1)
        async with member(at, "m", FIRST, SECOND) as (consumer, _):
            rows = 0
            async for batch in consumer.batches():
                columns = batch.records.to_pydict()
                assert set(columns["partition"]) == {columns["partition"][0]}
                assert columns["value"] == [b"%d" % offset for offset in columns["offset"]]
                assert set(columns["stream"]) == {"logs"}
                for offset in columns["offset"]:
                    at.watch.done("east", TOPIC, columns["partition"][0], offset)
                batch.ack([offset % 2 == 0 for offset in columns["offset"]])
                batch.ack()
                rows += len(batch)
                if rows == 150:
                    break
        assert {at.watch.last(TOPIC, number).committed.offset for number in (0, 1)} == {100, 50}


@virtual
async def test_rows_of_a_batch_that_are_not_acknowledged_come_back() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, _):
            async for batch in consumer.batches(max_records=10):
                with pytest.raises(Invalid, match="mask"):
                    batch.ack([True])
                for offset in range(0, 10, 2):
                    at.watch.done("east", TOPIC, 0, offset)
                batch.ack([offset % 2 == 0 for offset in range(10)])
                batch.retry(after_seconds=0.1)
                break
            again = await take(consumer, 5)
            assert [(record.offset, record.attempt) for record in again] == [(n, 2) for n in range(1, 10, 2)]
            for record in again:
                at.sunk(record)
                record.ack()
        assert at.watch.last(TOPIC).committed.offset == 10


@virtual
async def test_heartbeats_report_handler_time_while_handlers_run() -> None:
    async with bench() as at:

        async def slow(record: Record) -> None:
            await asyncio.sleep(2.0 if record.partition == 0 else 0.5)
            at.sunk(record)

        at.fill(100, partition=0)
        at.fill(100, partition=1)
        async with member(at, "m", FIRST, SECOND, concurrency=200) as (consumer, _):
            busy = at.control.members[0].busy_micros
            running = asyncio.ensure_future(consumer.run(slow))
            await asyncio.sleep(1.6)
            assert 100e6 < busy[FIRST] < 190e6, "what still runs counts"
            await asyncio.sleep(10.0)
        await running
    assert busy[FIRST] == pytest.approx(200e6, rel=0.01)
    assert busy[SECOND] == pytest.approx(50e6, rel=0.01)
