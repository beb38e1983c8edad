"""A consumer that would dead-letter too much of a lane stops with the lane: nothing is lost, and others go on."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.consumer_settings import DeadLetterLimits, Retry
from braid.client.delivery.dead_letter_limit import LaneBrake
from braid.client.records.record import Record
from braid.kernel.errors import Invalid
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import LIVE, TOPIC, Bench, bench, member

FIRST = f"{LIVE}/0"
BULK = "logs/bulk/1"
FEW = Retry(max_attempts=1, dead_letters=DeadLetterLimits(in_a_row=3))


class Deploy:
    """A handler that fails on everything of lane `live` until it is mended."""

    def __init__(self, at: Bench) -> None:
        self.at = at
        self.mended = False
        self.failures: Counter[int] = Counter()

    async def __call__(self, record: Record) -> None:
        if record.lane == "live" and not self.mended:
            self.failures[record.offset] += 1
            raise ValueError("a bad deploy")
        await self.at.handle(record)


@virtual
async def test_a_bad_deploy_stops_only_its_lane_until_it_is_fixed() -> None:
    async with bench() as at:
        at.fill(50)
        deploy = Deploy(at)
        async with member(at, "m", FIRST, f"{BULK}/0", retry=FEW, concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(deploy))
            await until(lambda: consumer.stopped() != {})
            at.fill(20, channel=BULK)
            await until(lambda: len(at.offsets("braid.logs.bulk.1")) == 20)
            assert consumer.stopped() == {"live": "3 records in a row would be dead-lettered"}
            letters = at.control.records("logs/dlq/1")
            assert [letter.value for letter in letters] == [b"0", b"1", b"2"]
            for offset in range(3):
                at.watch.done("east", TOPIC, 0, offset)
            await until(lambda: at.watch.base(TOPIC) == 3)
            assert max(deploy.failures.values()) == 1

            deploy.mended = True
            consumer.resume("live")
            assert consumer.stopped() == {}
            await until(lambda: at.watch.base(TOPIC) == 50)
        await running
        assert sorted(at.offsets()) == list(range(3, 50))
        assert len(at.control.records("logs/dlq/1")) == 3


@virtual
async def test_what_waits_goes_to_the_next_holder_with_its_attempts() -> None:
    async with bench() as at:
        at.fill(10)
        deploy = Deploy(at)
        async with member(at, "m", FIRST, retry=FEW, concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(deploy))
            await until(lambda: consumer.stopped() != {})
            for offset in range(3):
                at.watch.done("east", TOPIC, 0, offset)
        await running
        deploy.mended = True
        attempts: dict[int, int] = {}

        async def noted(record: Record) -> None:
            attempts[record.offset] = record.attempt
            await deploy(record)

        async with member(at, "n", FIRST, retry=FEW) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(noted))
            await until(lambda: at.watch.base(TOPIC) == 10)
        await running
        assert attempts == {3: 2, **dict.fromkeys(range(4, 10), 1)}


@virtual
async def test_without_limits_everything_is_dead_lettered() -> None:
    """The control: it is the limit that stops the lane."""
    async with bench() as at:
        at.fill(50)
        for offset in range(50):
            at.watch.done("east", TOPIC, 0, offset)
        retry = Retry(max_attempts=1, dead_letters=None)
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(Deploy(at)))
            await until(lambda: len(at.control.records("logs/dlq/1")) == 50)
            assert consumer.stopped() == {}
        await running


@virtual
async def test_by_hand_and_in_batches_counts_too() -> None:
    async with bench() as at:
        at.fill(20)
        for offset in range(20):
            at.watch.done("east", TOPIC, 0, offset)
        async with member(at, "m", FIRST, retry=FEW) as (consumer, _):
            for _ in range(3):
                record = await consumer.take(5.0)
                assert record is not None
                record.dead_letter("odd")
            async for batch in consumer.batches(4):
                batch.ack()
                break
            for _ in range(4):  # the row was broken: three more may be
                record = await consumer.take(5.0)
                assert record is not None
                record.dead_letter("odd")
            assert await consumer.take(1.0) is None
            assert set(consumer.stopped()) == {"live"}


settled = st.lists(st.integers(0, 6), max_size=300)  # records done before each letter


@given(settled, st.integers(1, 20), st.floats(0.05, 1.0), st.integers(1, 60))
def test_it_stops_exactly_where_counting_everything_would(
    before: list[int], in_a_row: int, ratio: float, window: int
) -> None:
    told: list[str] = []
    brake = LaneBrake(DeadLetterLimits(in_a_row, ratio, window), told.append)
    outcomes: list[bool] = []  # True for a letter
    for done in before:
        outcomes += [False] * done
        brake.done += done
        recent = [*outcomes, True][-window:]
        row = next((n for n, letter in enumerate(reversed(outcomes)) if not letter), len(outcomes)) + 1
        wanted = row <= in_a_row and sum(recent) <= ratio * window
        assert brake.allows() is wanted
        if not wanted:
            assert len(told) == 1
            assert not brake.allows()
            return
        outcomes.append(True)
    assert told == []


def test_limits_are_checked_where_they_are_given() -> None:
    for field, limits in {
        "in_a_row": {"in_a_row": 0},
        "ratio": {"ratio": 0.0},
        "window": {"window": 0},
    }.items():
        with pytest.raises(Invalid) as refused:
            DeadLetterLimits(**limits)  # type: ignore[arg-type]  # one of them at a time
        assert refused.value.field == f"retry.dead_letters.{field}"
