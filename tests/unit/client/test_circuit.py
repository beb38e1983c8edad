"""A lane that fails through no fault of its records stops, is tried with one record, and goes on by itself."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.circuit import LaneCircuit
from braid.client.columns import Batch
from braid.client.consumer import Consumer
from braid.client.record import Record
from braid.client.settings import Circuit, DeadLetterLimits, Retry
from braid.kernel.errors import Invalid
from tests.support.scripted_control import until, virtual
from tests.unit.client.consuming import FIRST, SECOND, TOPIC, Bench, bench, killed, member

BULK = "logs/bulk/1"
SOON = Circuit(failures=10, seconds=2.0, probe_seconds=(1.0, 4.0))
RETRY = Retry(backoff_seconds=(0.1, 0.5), retryable=(ConnectionError,), circuit=SOON)


class Database:
    """What handlers of lane `live` need."""

    def __init__(self, at: Bench) -> None:
        self.at = at
        self.away = True
        self.poison: Sequence[int] = ()
        self.asked_at: list[float] = []
        self.attempts: Counter[int] = Counter()

    async def __call__(self, record: Record) -> None:
        if record.lane == "live":
            self.asked_at.append(asyncio.get_running_loop().time())
            self.attempts[record.offset] += 1
            await asyncio.sleep(0.01)
            if record.offset in self.poison:
                self.at.watch.done(record.cluster, record.topic, record.partition, record.offset)
                raise ValueError("poison")
            if self.away:
                raise ConnectionRefusedError("the database is away")
        await self.at.handle(record)


async def stopped(consumer: Consumer) -> str:
    await until(lambda: "live" in consumer.stopped())
    return consumer.stopped()["live"]


@virtual
async def test_it_stops_tries_and_goes_on_by_itself_and_other_lanes_never_stopped() -> None:
    async with bench() as at:
        at.fill(500)
        database, loop = Database(at), asyncio.get_running_loop()
        async with member(at, "m", FIRST, f"{BULK}/0", retry=RETRY, concurrency=20) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            reason = await stopped(consumer)
            assert "ConnectionRefusedError: the database is away" in reason
            assert consumer.explain()[0].blocked[:1] == (f"lane live is stopped: {reason}",)
            await asyncio.sleep(1.0)  # those that were handled already
            asked = len(database.asked_at)
            at.fill(20, channel=BULK)
            await until(lambda: len(at.offsets("braid.logs.bulk.1")) == 20)
            await asyncio.sleep(60.0)
            tries = database.asked_at[asked:]
            assert 60 / 4 - 1 <= len(tries) <= 60 / 2 + 3
            assert min(after - before for before, after in pairwise(tries)) >= 0.5
            database.away, back_at = False, loop.time()
            await until(lambda: at.watch.base(TOPIC) == 500)
            assert loop.time() - back_at <= 4.0 + 5.0
            assert consumer.stopped() == {}
        await running
        assert at.control.records("logs/dlq/1") == []


@virtual
async def test_the_mesh_is_told_when_it_stops_and_when_it_goes_on() -> None:
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        async with member(at, "m", FIRST, retry=RETRY) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            reason = await stopped(consumer)
            await until(lambda: at.control.stopped[-1:] == [{"live": reason}])
            database.away = False
            await until(lambda: at.control.stopped[-1:] == [{}])
            await until(lambda: at.watch.base(TOPIC) == 100)
        await running


@pytest.mark.parametrize("ordering", ["key", "partition"])
def test_it_goes_on_where_an_order_is_kept(ordering: str) -> None:
    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at.fill(50)
            at.fill(50, partition=1)
            database = Database(at)
            soon = Circuit(failures=3, seconds=1.0, probe_seconds=(0.5, 2.0))
            retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=soon)
            async with member(at, "m", FIRST, SECOND, retry=retry, ordering=ordering) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(database))
                await stopped(consumer)
                await asyncio.sleep(20.0)
                database.away = False
                await until(lambda: at.watch.base(TOPIC) == 50 and at.watch.base(TOPIC, 1) == 50)
                assert consumer.stopped() == {}
            await running
            assert (sorted(at.offsets()) if ordering == "key" else at.offsets()) == list(range(50))

    scenario()


@virtual
async def test_batches_stop_and_go_on_too() -> None:
    away = True

    async def handle(batch: Batch) -> None:
        if away:
            raise ConnectionError
        for offset in batch.records["offset"].to_pylist():
            at.watch.done("east", TOPIC, 0, offset)

    async with bench() as at:
        at.fill(100)
        async with member(at, "m", FIRST, retry=RETRY, concurrency=2) as (consumer, _):
            running = asyncio.ensure_future(consumer.run_batches(handle, max_records=10))
            await stopped(consumer)
            away = False
            await until(lambda: at.watch.base(TOPIC) == 100)
            assert consumer.stopped() == {}
        await running


@virtual
async def test_poison_does_not_stop_a_lane_nor_keep_one_stopped() -> None:
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        database.poison = range(0, 100, 3)
        retry = Retry(max_attempts=2, backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=SOON, dead_letters=None)
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            database.away = False
            running = asyncio.ensure_future(consumer.run(database))
            await until(lambda: at.watch.base(TOPIC) == 100)
            assert consumer.stopped() == {}
            database.away, database.poison = True, ()
            at.fill(50)
            await stopped(consumer)
            database.away, database.poison = False, range(100, 150, 2)
            await until(lambda: at.watch.base(TOPIC) == 150)
            assert consumer.stopped() == {}
        await running


@virtual
async def test_an_application_that_paused_the_lane_keeps_it_paused() -> None:
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        async with member(at, "m", FIRST, retry=RETRY) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            await stopped(consumer)
            consumer.pause("live")
            await asyncio.sleep(1.0)
            asked = len(database.asked_at)
            database.away = False
            await asyncio.sleep(60.0)
            assert len(database.asked_at) == asked
            assert "lane live is paused" in consumer.explain()[0].blocked
            consumer.resume("live")
            await until(lambda: at.watch.base(TOPIC) == 100)
            assert consumer.stopped() == {}
        await running


@virtual
async def test_somebody_who_resumes_it_closes_it() -> None:
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        never = Circuit(failures=10, seconds=2.0, probe_seconds=(1_000.0, 1_000.0))
        retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=never)
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            await stopped(consumer)
            database.away = False
            consumer.resume("live")
            assert consumer.stopped() == {}
            await until(lambda: at.watch.base(TOPIC) == 100)
        await running


@virtual
async def test_a_lane_that_is_stopped_is_taken_over_where_it_was_left() -> None:
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        async with member(at, "m", FIRST, retry=RETRY) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(database))
            await stopped(consumer)
            await asyncio.sleep(5.0)
            client.kill()
            killed(consumer)
        running.cancel()
        database.away = False
        async with member(at, "n", FIRST, retry=RETRY) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            await until(lambda: at.watch.base(TOPIC) == 100)
        await running


@virtual
async def test_a_record_that_is_tried_and_taken_away_does_not_keep_the_lane_stopped() -> None:
    """Its lease is asked back while it is tried, and its handler hangs; the other partition's records go on."""
    async with bench() as at:
        at.fill(50)
        at.fill(50, partition=1)
        database = Database(at)
        hang: list[int] = []

        async def handle(record: Record) -> None:
            if hang and record.partition == hang[0]:
                hang.append(record.offset)
                await asyncio.sleep(1_000)
            await database(record)

        async with member(at, "m", FIRST, SECOND, retry=RETRY, cancel_at_loss=True) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await stopped(consumer)
            await asyncio.sleep(0.1)
            hang.append(0)
            await until(lambda: len(hang) > 1)
            database.away = False
            await at.control.revoke(0, FIRST, deadline_ms=500)
            await until(lambda: at.watch.base(TOPIC, 1) == 50)
            assert consumer.stopped() == {}
        await running


@virtual
async def test_a_lane_goes_on_when_nobody_is_left_to_say_how_its_records_fare() -> None:
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        async with member(at, "m", FIRST, retry=RETRY) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            await stopped(consumer)
            running.cancel()
            await until(running.done)
            assert consumer.stopped() == {}
            record = await consumer.take(5.0)
            assert record is not None
            killed(consumer)


@virtual
async def test_the_brake_stays_on_when_the_circuit_closes() -> None:
    async with bench() as at:
        at.fill(200)
        database = Database(at)
        few = DeadLetterLimits(in_a_row=3)
        retry = Retry(max_attempts=1, backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=SOON, dead_letters=few)
        async with member(at, "m", FIRST, retry=retry, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            await stopped(consumer)
            database.away, database.poison = False, range(200)
            consumer.resume("live")
            assert "dead-lettered" in await stopped(consumer)
            await asyncio.sleep(60.0)
            assert "dead-lettered" in consumer.stopped()["live"]
        await running


@virtual
async def test_without_a_circuit_the_dependency_is_asked_on() -> None:
    """The control: it is the circuit that leaves it alone."""
    async with bench() as at:
        at.fill(500)
        database = Database(at)
        retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=None)
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(database))
            await asyncio.sleep(10.0)
            asked = len(database.asked_at)
            await asyncio.sleep(60.0)
            assert consumer.stopped() == {}
            assert len(database.asked_at) - asked > 500
            killed(consumer)
        running.cancel()


outcomes = st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 30), st.booleans()), max_size=200)


@given(outcomes, st.integers(1, 20), st.floats(0, 10), st.floats(0.05, 1))
def test_it_stops_only_for_what_was_seen_long_enough_often_enough_and_nearly_always(
    told: list[tuple[float, int, bool]], failures: int, seconds: float, ratio: float
) -> None:
    circuit = LaneCircuit(Circuit(ratio, failures, seconds))
    now, done = 0.0, 0
    seen: list[tuple[float, int, bool]] = []  # when, how much was done before, whether the dependency's fault
    for passed, more, retryable in told:
        now, done = now + passed, done + more
        seen.append((now, more, retryable))
        if circuit.failed(now, done, retryable=retryable):
            looks = [
                seen[first:]
                for first, (at, _, began) in enumerate(seen)
                if began and now - at >= seconds and sum(each[2] for each in seen[first:]) >= failures
            ]
            assert any(
                sum(each[2] for each in look) >= ratio * (len(look) + sum(each[1] for each in look[1:]))
                for look in looks
            )
            return


@given(st.integers(1, 50), st.floats(0, 20), st.floats(0.01, 0.2))
def test_it_does_stop_when_everything_fails(failures: int, seconds: float, between: float) -> None:
    circuit = LaneCircuit(Circuit(0.9, failures, seconds))
    needed = max(failures, int(seconds / between) + 2)
    assert any(circuit.failed(number * between, 0, retryable=True) for number in range(needed + 1))


@pytest.mark.parametrize(
    ("field", "value"), [("ratio", 0.0), ("failures", 0), ("seconds", -1.0), ("probe_seconds", (0.0, 1.0))]
)
def test_what_is_out_of_range_is_refused(field: str, value: float) -> None:
    with pytest.raises(Invalid) as refused:
        Circuit(**{field: value})  # type: ignore[arg-type]  # one of them at a time
    assert refused.value.field == f"retry.circuit.{field}"
