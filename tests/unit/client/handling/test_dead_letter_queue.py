"""Dead letters while their lane is away: one is tried at a time, so many are held, and records beside them go on."""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

import pytest

from braid.client.consumer_settings import Retry
from braid.client.consuming.consumer import Consumer
from braid.client.delivery import fetch_pauses
from braid.client.delivery.fetch_pauses import FetchPauses
from braid.client.handling.dead_letter_queue import DeadLetterQueue
from braid.client.handling.dead_letters import DeadLetters
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Headers, Receipt
from braid.client.records.record import Record
from braid.kernel.errors import BraidError, DeliveryUnknown
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import VirtualFailure, run_virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member

RECORDS = 6_000
HELD = 40


class Lane:
    """The dlq lane as producers meet it.

    Attributes:
        away: It cannot be written.
        most: How many letters were sent at once while it was away, from the first failure on.
        tries: How many were sent and failed.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away = True
        self.most = self.tries = self._sending = 0
        honest = Producer.send_dead_letter

        async def send(
            producer: Producer, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int
        ) -> Receipt:
            self._sending += 1
            self.most = max(self.most, self._sending) if self.away and self.tries else self.most
            try:
                await asyncio.sleep(0.5)
                if self.away:
                    self.tries += 1
                    raise DeliveryUnknown("nobody answers")
                return await honest(producer, value, key, headers, timestamp_ms)
            finally:
                self._sending -= 1

        monkeypatch.setattr(Producer, "send_dead_letter", send)


async def fail_odd(at: Bench, record: Record) -> None:
    """A handler that gives up every odd record."""
    await asyncio.sleep(0.01)
    if record.offset % 2:
        raise ValueError("odd")
    at.sunk(record)


def tasks_named(part: str) -> int:
    """How many tasks of a name there are now."""
    return sum(part in task.get_name() for task in asyncio.all_tasks())


async def fill_up(at: Bench, consumer: Consumer) -> Sequence[str]:
    """Half of all records become dead letters while the lane is away: returns what blocks the lease, once it does."""
    await until(lambda: any("to be copied to the dlq lane" in each for each in blocked(consumer)))
    await until(lambda: consumer.explain()[0].waiting == consumer.explain()[0].handled == 0)
    await until(lambda: any("cannot be written" in each for each in blocked(consumer)))
    assert tasks_named("dead-letter") == 1
    return blocked(consumer)


def blocked(consumer: Consumer) -> Sequence[str]:
    """The reasons that keep the only lease from more work; empty before the consumer has it."""
    return [reason for lease in consumer.explain() for reason in lease.blocked]


async def away_and_back(lane: Lane) -> None:
    """The story."""
    async with bench() as at:
        at.fill(RECORDS)
        retry = Retry(max_attempts=1, dead_letters=None)
        async with member(at, "m", FIRST, retry=retry, concurrency=100) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(partial(fail_odd, at)))
            reasons = await fill_up(at, consumer)
            held = consumer.explain()[0].copying
            assert f"{held:,} records of lane live wait to be copied to the dlq lane: fetching pauses" in reasons
            assert "dead letters of stream logs cannot be written: nobody answers" in reasons
            done = len(at.sink)
            assert HELD <= held == done < RECORDS / 2, "the partition went on around them, until it was too much"
            await asyncio.sleep(60.0)
            assert len(at.sink) == done
            assert (lane.most, 20 < lane.tries < 100) == (1, True)
            lane.away = False
            await until(lambda: at.watch.base(TOPIC) == RECORDS, seconds=60.0)
            assert not blocked(consumer)
        await running
        offsets = sorted(int(dict(each.headers)["braid-dl-offset"]) for each in at.control.records("logs/dlq/1"))
        assert offsets == list(range(1, RECORDS, 2))
        assert consumer.in_flight_bytes == 0


def test_one_letter_probes_an_absent_lane_and_the_rest_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_pauses, "DEAD_LETTERS_HELD_MAX", HELD)
    run_virtual(away_and_back(Lane(monkeypatch)))


def test_letters_without_a_bound_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before: nobody hears how many are held."""
    monkeypatch.setattr(fetch_pauses, "DEAD_LETTERS_HELD_MAX", HELD)
    monkeypatch.setattr(FetchPauses, "copied", lambda self, lane, count, size: None)
    with pytest.raises(AssertionError):
        run_virtual(away_and_back(Lane(monkeypatch)))


def test_a_storm_of_letters_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the same: a failure changes nothing about how many are sent."""

    def go_on(self: DeadLetterQueue, failure: BraidError) -> None:
        self._trouble, self._room = str(failure), HELD

    monkeypatch.setattr(fetch_pauses, "DEAD_LETTERS_HELD_MAX", HELD)
    monkeypatch.setattr(DeadLetterQueue, "_note_failure", go_on)
    with pytest.raises(AssertionError):
        run_virtual(away_and_back(Lane(monkeypatch)))


@virtual
async def test_a_silent_lane_is_reported_long_before_sends_give_up() -> None:
    async with bench() as at:
        at.fill(2)
        at.control.clusters["west"].pause()
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(partial(fail_odd, at)))
            await until(lambda: bool(blocked(consumer)), seconds=10.0)
            assert blocked(consumer) == ["dead letters of stream logs cannot be written: no acknowledgement for 5 s"]
            at.control.clusters["west"].resume()
            await until(lambda: at.watch.base(TOPIC) == 2)
            assert not blocked(consumer)
        await running


def test_letters_of_a_lease_that_is_gone_are_held_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with bench() as at:
            at.fill(100)
            async with member(at, "m", FIRST, retry=Retry(max_attempts=1, dead_letters=None)) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(partial(fail_odd, at)))
                await until(lambda: len(at.sink) == 50)
                assert consumer.in_flight_bytes > 0
                await at.control.revoke(-1, FIRST, deadline_ms=1_000)
                await until(lambda: not consumer.leases())
                await until(lambda: consumer.in_flight_bytes == 0, seconds=5.0)
                assert not any(consumer._dead_letters._counts.values())
                await until(lambda: not consumer._dead_letters._queues, seconds=5.0)
                killed(consumer)
            running.cancel()

    Lane(monkeypatch)
    run_virtual(run())


def test_a_closing_consumer_leaves_no_letter_behind_in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with bench() as at:
            at.fill(10)
            async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(partial(fail_odd, at)))
                await until(lambda: len(at.sink) == 5)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            assert tasks_named("dead-letter") == 0
            assert not consumer._dead_letters._queues

    Lane(monkeypatch)
    run_virtual(run())


def test_what_goes_wrong_in_writing_letters_ends_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose letter is nobody's business any more would hold its partition up for ever."""

    async def broken(self: DeadLetters, record: Record, headers: Headers) -> None:
        raise RuntimeError("a bug")

    async def run() -> None:
        async with bench() as at:
            at.fill(10)
            async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
                await consumer.run(partial(fail_odd, at))

    monkeypatch.setattr(DeadLetters, "_send", broken)
    with pytest.raises(VirtualFailure, match="a bug"):
        run_virtual(run())
