"""Retries cost: a dependency that is away is not asked ever more often, and nothing is lost by waiting longer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.consumer_settings import Retry, RetryBudget
from braid.client.handling.retry_budget import LaneBudget
from braid.client.records.record import Record
from braid.kernel.errors import Invalid, Retryable
from braid.kernel.limits.client import PARKED_RETRIES_MAX, READY_RECORDS_MAX, RETRY_BUDGET_SAVED_SECONDS
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member, take

NO_WAIT = (0.05, 0.1)
steps = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 500), st.integers(0, 50), st.integers(0, 10)), max_size=60)


@given(steps, st.floats(0, 2), st.floats(0.1, 50))
def test_no_more_is_spent_than_was_saved_and_earned(
    taken: list[tuple[float, int, int, int]], share: float, per_second: float
) -> None:
    budget = LaneBudget(RetryBudget(share, per_second), 0.0)
    saved = max(1.0, per_second * RETRY_BUDGET_SAVED_SECONDS)
    now, done, spent, returned = 0.0, 0, 0, 0
    for seconds, more, wanted, back in taken:
        now, done = now + seconds, done + more
        budget.earn(done, now)
        got = sum(budget.spend() for _ in range(wanted))
        assert got <= saved
        spent += got
        for _ in range(min(back, spent - returned)):
            budget.give_back()
            returned += 1
        assert spent <= saved + done * share + now * per_second + returned + 1e-6


@given(st.floats(0.1, 50))
def test_whoever_waits_long_enough_gets_a_token(per_second: float) -> None:
    budget = LaneBudget(RetryBudget(0.0, per_second), 0.0)
    while budget.spend():
        pass
    budget.earn(0, 1.01 / per_second)
    assert budget.spend()


class Dependency:
    """Something that handlers need, and that is away for a while."""

    def __init__(self, at: Bench) -> None:
        self.at = at
        self.away = True
        self.error: type[Exception] = Retryable
        self.asked = 0

    async def __call__(self, record: Record) -> None:
        self.asked += 1
        await asyncio.sleep(0.001)
        if self.away:
            raise self.error("away")
        self.at.sunk(record)


async def asked_in_an_outage(at: Bench, budget: RetryBudget | None, seconds: float = 20.0) -> tuple[int, float]:
    """How often a dependency is asked that is away for a while, and how long all takes once it is back."""
    at.fill(300)
    dependency = Dependency(at)
    retry = Retry(backoff_seconds=NO_WAIT, budget=budget, circuit=None)
    loop = asyncio.get_running_loop()
    async with member(at, "m", FIRST, retry=retry) as (consumer, _):
        running = asyncio.ensure_future(consumer.run(dependency))
        await asyncio.sleep(seconds)
        told = consumer.explain()[0]
        waiting = any("wait for the retry budget" in reason for reason in told.blocked)
        assert waiting == (budget is not None)
        asked, back_at, dependency.away = dependency.asked, loop.time(), False
        await until(lambda: at.watch.base(TOPIC) == 300)
        took = loop.time() - back_at
        assert consumer.explain()[0].blocked == ()
    await running
    assert at.control.records("logs/dlq/1") == []
    return asked, took


@virtual
async def test_a_storm_is_bounded_and_over_as_soon_as_its_cause_is() -> None:
    async with bench() as at:
        asked, took = await asked_in_an_outage(at, RetryBudget(per_second=5.0))
        assert asked <= 300 + 50 + 20 * 5 + 5
        assert took <= 3.0  # what succeeds gives its token back


@virtual
async def test_without_a_budget_there_is_a_storm() -> None:
    """The control: it is the budget that keeps it small."""
    async with bench() as at:
        asked, _ = await asked_in_an_outage(at, None, 4.0)
        assert asked > 2_000


@virtual
async def test_attempts_that_waited_longer_outlive_their_holder() -> None:
    async with bench() as at:
        at.fill(200)
        dependency = Dependency(at)
        dependency.error = LookupError
        budget = RetryBudget(per_second=0.5)
        retry = Retry(max_attempts=1_000, backoff_seconds=NO_WAIT, budget=budget, circuit=None)
        async with member(at, "m", FIRST, retry=retry) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(dependency))
            await asyncio.sleep(10.0)
            await consumer.commit()
            client.kill()
            killed(consumer)
        running.cancel()
        attempts: list[int] = []

        async def handle(record: Record) -> None:
            attempts.append(record.attempt)
            at.sunk(record)

        async with member(at, "n", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base(TOPIC) == 200)
        await running
        assert min(attempts) >= 2 and len(attempts) == 200


@virtual
async def test_what_an_application_brings_back_itself_costs_nothing() -> None:
    async with bench() as at:
        at.fill(500)
        retry = Retry(budget=RetryBudget(share=0.0, per_second=0.001))
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            for record in await take(consumer, 500):
                record.retry(after_seconds=1.0)
            again = await take(consumer, 500, seconds=5.0)
            assert len(again) == 500
            for record in again:
                at.sunk(record)
                record.ack()


@virtual
async def test_at_the_bound_fetching_waits_until_records_return() -> None:
    async with bench() as at:
        at.fill(20_000)
        async with member(at, "m", FIRST) as (consumer, _):
            parked = 0
            while records := await consumer.take_many(1_000, 1.0):
                for record in records:
                    record.retry(after_seconds=60.0)
                parked += len(records)
            assert PARKED_RETRIES_MAX <= parked <= PARKED_RETRIES_MAX + READY_RECORDS_MAX + 2_000
            (told,) = consumer.explain()
            assert (told.parked, told.waiting) == (parked, 0)
            assert told.blocked == (f"{parked:,} records of lane live wait for another attempt: fetching pauses",)
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 20_000, seconds=120.0)
            assert consumer.explain()[0].blocked == ()
        await running


@pytest.mark.parametrize(("field", "value"), [("share", -0.1), ("per_second", 0.0)])
def test_what_is_out_of_range_is_refused(field: str, value: float) -> None:
    with pytest.raises(Invalid) as refused:
        RetryBudget(**{field: value})
    assert refused.value.field == f"retry.budget.{field}"
