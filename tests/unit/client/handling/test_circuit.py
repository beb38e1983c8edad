"""A lane that fails through no fault of its records stops, is tried with one record, and goes on by itself."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.consumer_settings import Circuit, DeadLetterLimits, Retry
from braid.client.consuming.consumer import Consumer
from braid.client.handling.circuit_breaker import LaneCircuit
from braid.client.records.batch import Batch
from braid.client.records.record import Record
from braid.kernel.errors import Invalid
from tests.support.scripted_control import Client, until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member

BULK = "logs/bulk/1"
SOON = Circuit(failures=10, seconds=2.0, probe_seconds=(1.0, 4.0))
RETRY = Retry(backoff_seconds=(0.1, 0.5), retryable=(ConnectionError,), circuit=SOON)


class Database:
    """A database that handlers of lane `live` need."""

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


class Running(NamedTuple):
    """A member that handles, and its database, which is away."""

    at: Bench
    database: Database
    consumer: Consumer
    client: Client
    task: asyncio.Task[None]

    async def done(self, count: int, partition: int = 0) -> None:
        await until(lambda: self.at.watch.base(TOPIC, partition) == count)


@asynccontextmanager
async def runs(database: Database, *leases: str, name: str = "m", **settings: Any) -> AsyncIterator[Running]:
    """A member handles by this database until the block ends; who was killed or cancelled in it is not waited for."""
    async with member(database.at, name, *leases or (FIRST,), **{"retry": RETRY, **settings}) as (consumer, client):
        task = asyncio.create_task(consumer.run(database))
        yield Running(database.at, database, consumer, client, task)
        dead = consumer.closed
    if dead:
        task.cancel()
    else:
        await task


@asynccontextmanager
async def outage(*leases: str, count: int = 100, **settings: Any) -> AsyncIterator[Running]:
    """A running member, this many records per partition of lane `live`, and a database that is unavailable."""
    async with bench() as at:
        for partition in range(1 + (SECOND in leases)):
            at.fill(count, partition=partition)
        async with runs(Database(at), *leases, **settings) as running:
            yield running


@virtual
async def test_a_circuit_stops_tries_and_resumes_beside_other_lanes() -> None:
    loop = asyncio.get_running_loop()
    async with outage(FIRST, f"{BULK}/0", count=500, concurrency=20) as on:
        reason = await stopped(on.consumer)
        assert "ConnectionRefusedError: the database is away" in reason
        assert on.consumer.explain()[0].blocked[:1] == (f"lane live is stopped: {reason}",)
        await asyncio.sleep(1.0)  # those that were handled already
        asked = len(on.database.asked_at)
        on.at.fill(20, channel=BULK)
        await until(lambda: len(on.at.offsets("braid.logs.bulk.1")) == 20)
        await asyncio.sleep(60.0)
        tries = on.database.asked_at[asked:]
        assert 60 / 4 - 1 <= len(tries) <= 60 / 2 + 3
        assert min(after - before for before, after in pairwise(tries)) >= 0.5
        on.database.away, back_at = False, loop.time()
        await on.done(500)
        assert loop.time() - back_at <= 4.0 + 5.0
        assert on.consumer.stopped() == {}
    assert on.at.control.records("logs/dlq/1") == []


@virtual
async def test_the_mesh_is_told_when_it_stops_and_when_it_goes_on() -> None:
    async with outage() as on:
        reason = await stopped(on.consumer)
        await until(lambda: on.at.control.stopped[-1:] == [{"live": reason}])
        on.database.away = False
        await until(lambda: on.at.control.stopped[-1:] == [{}])
        await on.done(100)


@pytest.mark.parametrize("ordering", ["key", "partition"])
def test_it_goes_on_where_an_order_is_kept(ordering: str) -> None:
    soon = Circuit(failures=3, seconds=1.0, probe_seconds=(0.5, 2.0))
    retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=soon)

    @virtual
    async def scenario() -> None:
        async with outage(FIRST, SECOND, count=50, retry=retry, ordering=ordering) as on:
            await stopped(on.consumer)
            await asyncio.sleep(20.0)
            on.database.away = False
            await on.done(50)
            await on.done(50, partition=1)
            assert on.consumer.stopped() == {}
        assert (sorted(on.at.offsets()) if ordering == "key" else on.at.offsets()) == list(range(50))

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
    retry = Retry(max_attempts=2, backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=SOON, dead_letters=None)
    async with bench() as at:
        at.fill(100)
        database = Database(at)
        database.away, database.poison = False, range(0, 100, 3)
        async with runs(database, retry=retry) as on:
            await on.done(100)
            assert on.consumer.stopped() == {}
            database.away, database.poison = True, ()
            at.fill(50)
            await stopped(on.consumer)
            database.away, database.poison = False, range(100, 150, 2)
            await on.done(150)
            assert on.consumer.stopped() == {}


@virtual
async def test_an_application_that_paused_the_lane_keeps_it_paused() -> None:
    async with outage() as on:
        await stopped(on.consumer)
        on.consumer.pause("live")
        await asyncio.sleep(1.0)
        asked = len(on.database.asked_at)
        on.database.away = False
        await asyncio.sleep(60.0)
        assert len(on.database.asked_at) == asked
        assert "lane live is paused" in on.consumer.explain()[0].blocked
        on.consumer.resume("live")
        await on.done(100)
        assert on.consumer.stopped() == {}


@virtual
async def test_somebody_who_resumes_it_closes_it() -> None:
    never = Circuit(failures=10, seconds=2.0, probe_seconds=(1_000.0, 1_000.0))
    retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=never)
    async with outage(retry=retry) as on:
        await stopped(on.consumer)
        on.database.away = False
        on.consumer.resume("live")
        assert on.consumer.stopped() == {}
        await on.done(100)


@virtual
async def test_a_lane_that_is_stopped_is_taken_over_where_it_was_left() -> None:
    async with outage() as on:
        await stopped(on.consumer)
        await asyncio.sleep(5.0)
        on.client.kill()
        killed(on.consumer)
    on.database.away = False
    async with runs(on.database, name="n") as next_one:
        await next_one.done(100)


class Hanging(Database):
    """Once it is told to, whatever asks for a record of partition 0 hangs."""

    hang = False
    hung: int = 0

    async def __call__(self, record: Record) -> None:
        if self.hang and record.partition == 0:
            self.hung += 1
            await asyncio.sleep(1_000)
        await super().__call__(record)


@virtual
async def test_a_trial_record_taken_away_does_not_keep_a_lane_stopped() -> None:
    """Its lease is asked back while it is tried, and its handler hangs; the other partition's records go on."""
    async with bench() as at:
        at.fill(50)
        at.fill(50, partition=1)
        database = Hanging(at)
        async with runs(database, FIRST, SECOND, cancel_at_loss=True) as on:
            await stopped(on.consumer)
            await asyncio.sleep(0.1)
            database.hang = True
            await until(lambda: database.hung > 0)
            database.away = False
            await at.control.revoke(0, FIRST, deadline_ms=500)
            await on.done(50, partition=1)
            assert on.consumer.stopped() == {}


@virtual
async def test_a_lane_goes_on_when_nobody_is_left_to_try_its_records() -> None:
    async with outage() as on:
        await stopped(on.consumer)
        on.task.cancel()
        await until(on.task.done)
        assert on.consumer.stopped() == {}
        assert await on.consumer.take(5.0) is not None
        killed(on.consumer)


@virtual
async def test_the_brake_stays_on_when_the_circuit_closes() -> None:
    few = DeadLetterLimits(in_a_row=3)
    retry = Retry(max_attempts=1, backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=SOON, dead_letters=few)
    async with outage(count=200, retry=retry, concurrency=4) as on:
        await stopped(on.consumer)
        on.database.away, on.database.poison = False, range(200)
        on.consumer.resume("live")
        assert "dead-lettered" in await stopped(on.consumer)
        await asyncio.sleep(60.0)
        assert "dead-lettered" in on.consumer.stopped()["live"]


@virtual
async def test_without_a_circuit_the_dependency_is_asked_on() -> None:
    """The control: it is the circuit that leaves it alone."""
    retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(OSError,), circuit=None)
    async with outage(count=500, retry=retry) as on:
        await asyncio.sleep(10.0)
        asked = len(on.database.asked_at)
        await asyncio.sleep(60.0)
        assert on.consumer.stopped() == {}
        assert len(on.database.asked_at) - asked > 500
        killed(on.consumer)


outcomes = st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 30), st.booleans()), max_size=200)


@given(outcomes, st.integers(1, 20), st.floats(0, 10), st.floats(0.05, 1))
def test_a_circuit_opens_only_for_long_frequent_general_failure(
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
