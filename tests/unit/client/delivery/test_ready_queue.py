"""Records that are taken from their queue ahead, and acknowledgements that are kept: nobody notices either."""

import asyncio

import pytest

from braid.client.delivery.cursor import Cursor
from braid.client.delivery.handler_lanes import HandlerPlace
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.streak import Streak
from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS, YIELD_SECONDS
from tests.support.consumer_parts import ready_queue
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, killed, member, take

BULK = "logs/bulk/1"


@virtual
async def test_a_revoked_lease_waits_only_for_records_handed_out() -> None:
    async with bench() as at:
        at.fill(100)
        async with member(at, "m", FIRST) as (consumer, _):
            [first] = await take(consumer, 1)
            assert len(ready_queue(consumer).run.records) > 50  # taken ahead
            await at.control.revoke(0, FIRST)
            await asyncio.sleep(1.0)
            assert [lease.stage for lease in consumer.leases()] == ["draining"]
            at.sunk(first)
            first.ack()
            await until(lambda: consumer.leases() == [])
            assert await consumer.take(0.5) is None
            assert consumer.in_flight_bytes == 0
        async with member(at, "n", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 100)
        await running
        assert at.offsets()[0] == 0
        assert sorted(at.offsets()) == list(range(100))


@virtual
async def test_a_lanes_later_records_do_not_wait_for_anothers_run() -> None:
    async with bench() as at:
        at.fill(100, channel=BULK)
        async with member(at, "m", FIRST, f"{BULK}/0") as (consumer, _):
            assert [record.lane for record in await take(consumer, 10)] == ["bulk"] * 10
            at.fill(10)
            await asyncio.sleep(1.0)
            records = await take(consumer, 14)
            assert sorted(record.lane for record in records[:8]) == ["bulk"] * 4 + ["live"] * 4
            offsets = [record.offset for record in records if record.lane == "bulk"]
            assert offsets == list(range(10, 10 + len(offsets)))
            killed(consumer)


@virtual
async def test_leaving_an_iteration_leaves_the_next_record_to_the_next() -> None:
    async with bench() as at:
        at.fill(300)
        async with member(at, "m", FIRST) as (consumer, _):
            seen: list[int] = []
            for stop in (1, 6, 206, 300):
                async for record in consumer:
                    at.sunk(record)
                    record.ack()
                    seen.append(record.offset)
                    if len(seen) == stop:
                        break
            assert seen == list(range(300))


@virtual
async def test_a_paused_lane_hands_out_nothing_even_if_taken_ahead() -> None:
    async with bench() as at:
        at.fill(100)
        async with member(at, "m", FIRST) as (consumer, _):
            await take(consumer, 1)
            consumer.pause("live")
            assert await consumer.take(0.5) is None
            consumer.resume("live")
            assert [record.offset for record in await take(consumer, 99)] == list(range(1, 100))
            killed(consumer)


@virtual
async def test_what_is_told_of_a_lease_counts_every_acknowledgement() -> None:
    async with bench() as at:
        at.fill(50)
        async with member(at, "m", FIRST, commit_interval_seconds=100.0) as (consumer, _):
            for record in (await take(consumer, 50))[:-1]:
                at.sunk(record)
                record.ack()
            [lease] = consumer.leases()
            assert (lease.base, lease.in_flight) == (49, 1)
            await consumer.commit()
            assert at.watch.base(TOPIC) == 49
            killed(consumer)


@virtual
async def test_acknowledging_makes_room_at_once_for_a_waiting_reader() -> None:
    async with bench() as at:
        at.fill(60)
        settings = {"commit_interval_seconds": 100.0, "max_in_flight_bytes": 4_000}
        async with member(at, "m", FIRST, **settings) as (consumer, _):
            taken = await take(consumer, 60, seconds=1.0)
            at.fill(1)
            waiting = asyncio.ensure_future(consumer.take(50.0))
            await asyncio.sleep(1.0)
            assert not waiting.done()  # no room
            for record in taken:
                at.sunk(record)
                record.ack()
            assert await waiting is not None
            killed(consumer)


@virtual
async def test_who_had_its_turn_meanwhile_is_not_given_another_one() -> None:
    async with bench() as at:
        at.fill(1_000)
        async with member(at, "m", FIRST) as (consumer, _):
            await asyncio.sleep(1.0)
            place = HandlerPlace(ready_queue(consumer))
            for _ in range(6):
                taken = [place.take_quickly() for _ in range(RECORDS_BETWEEN_YIELDS)]
                assert None not in taken
                await asyncio.sleep(2 * YIELD_SECONDS)  # handlers do
            killed(consumer)


def test_turns_that_are_not_seen_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before."""

    def add(streak: Streak, count: int) -> None:
        streak._count += count

    monkeypatch.setattr(Streak, "add", add)
    with pytest.raises(AssertionError):
        test_who_had_its_turn_meanwhile_is_not_given_another_one()


def test_a_run_that_is_never_recalled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the first test."""
    monkeypatch.setattr(ReadyQueue, "recall", lambda self: None)
    with pytest.raises(AssertionError):
        test_a_revoked_lease_waits_only_for_records_handed_out()


def test_acknowledgements_kept_for_good_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the last ones."""
    monkeypatch.setattr(Cursor, "note_acked", lambda self: None)
    with pytest.raises(AssertionError):
        test_what_is_told_of_a_lease_counts_every_acknowledgement()


class HalfOfLive:
    """A backlog of lane live with half of its turns, which always has room."""

    lane = "live"
    share = 0.5

    def room(self) -> int:
        return 1


@virtual
async def test_a_backlog_is_paused_exactly_while_its_lane_is() -> None:
    """A backlog may end while the lane is paused, and another may begin once the lane is resumed."""
    ready, name = ReadyQueue({}), "live backlog"
    for ends_while_paused in (True, False):
        ready.divide(name, HalfOfLive())
        ready.pause("live")
        assert ready.is_paused(name)
        if ends_while_paused:
            ready.divide(name, None)
        ready.resume("live")
        ready.divide(name, HalfOfLive())
        assert not ready.is_paused(name)
        ready.divide(name, None)
    ready.pause("live")
    ready.divide(name, HalfOfLive())
    assert ready.is_paused(name)
