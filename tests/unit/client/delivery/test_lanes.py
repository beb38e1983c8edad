"""Lanes of one consumer: what befalls one of them, or floods it, leaves the others what is theirs."""

import asyncio
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.consumer_settings import ConsumerSettings, Retry
from braid.client.delivery import fetch_pauses, handler_lanes
from braid.client.delivery.handler_lanes import ANY, roles
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.records.batch import Batch
from braid.client.records.record import Record
from braid.kernel.errors import Invalid, Retryable
from braid.kernel.round_robin import RoundRobin
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, Bench, bench, killed, member

BULK = "logs/bulk/1"
BULK_FIRST = f"{BULK}/0"


def test_too_many_retries_of_one_lane_stop_fetching_only_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_pauses, "PARKED_RETRIES_MAX", 300)

    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at.fill(5_000, channel=BULK)

            async def handle(record: Record) -> None:
                if record.lane == "bulk" and record.offset % 2:
                    raise Retryable("away")
                await at.handle(record)

            retry = Retry(circuit=None)
            async with member(at, "m", FIRST, BULK_FIRST, retry=retry) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await until(lambda: any("wait for another attempt" in str(told) for told in consumer.explain()))
                at.fill(1_000)
                await until(lambda: len(at.offsets()) == 1_000, seconds=10.0)
                live, bulk = sorted(consumer.explain(), key=lambda told: told.lease, reverse=True)
                assert live.blocked == ()
                assert any("records of lane bulk wait for another attempt" in reason for reason in bulk.blocked)
                killed(consumer)
            running.cancel()

    scenario()


def test_a_bound_on_retries_that_stops_every_lane_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before."""
    block = MemoryBound.block

    def block_all(self: MemoryBound, name: str, blocked: bool) -> None:
        for lane in ("live", "bulk"):
            block(self, lane, blocked)

    monkeypatch.setattr(MemoryBound, "block", block_all)
    with pytest.raises(AssertionError):
        test_too_many_retries_of_one_lane_stop_fetching_only_there(monkeypatch)


@virtual
async def test_lanes_get_as_many_batched_records_as_their_shares_say() -> None:
    async with bench() as at:
        at.fill(20_000, channel=BULK)
        taken = {"live": 0, "bulk": 0}

        async def handle(batch: Batch) -> None:
            taken[batch.lease.name.split("/")[1]] += len(batch)
            await asyncio.sleep(0.01)
            for record in batch.unsettled():
                at.sunk(record)
                record.ack()

        async def trickle() -> None:
            while True:  # more than is handled, in small pieces
                at.fill(20)
                await asyncio.sleep(0.001)

        async with member(at, "m", FIRST, BULK_FIRST, concurrency=1) as (consumer, _):
            running = [asyncio.ensure_future(consumer.run_batches(handle)), asyncio.ensure_future(trickle())]
            await until(lambda: taken["bulk"] > 6_000)
            before = dict(taken)
            await until(lambda: taken["bulk"] > 18_000)
            live, bulk = taken["live"] - before["live"], taken["bulk"] - before["bulk"]
            assert 0.7 <= live / bulk <= 1.4
            killed(consumer)
        for each in running:
            each.cancel()


def test_batches_that_count_as_one_record_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before."""
    monkeypatch.setattr(RoundRobin, "charge", lambda self, more, *, lent: None)
    with pytest.raises(AssertionError):
        test_lanes_get_as_many_batched_records_as_their_shares_say()


async def waited_by_live(at: Bench, **settings: object) -> list[float]:
    """How long records of live waited that came one by one, where slow ones of bulk had every handler they may have."""
    at.fill(2_000, channel=BULK)
    loop, waited = asyncio.get_running_loop(), list[float]()

    async def handle(record: Record) -> None:
        if record.lane == "bulk":
            await asyncio.sleep(30.0)
        else:
            waited.append(loop.time() - sent_at)
        at.sunk(record)

    async with member(at, "m", FIRST, BULK_FIRST, **settings) as (consumer, _):
        running = asyncio.ensure_future(consumer.run(handle))
        await asyncio.sleep(5.0)
        for number in range(1, 11):
            sent_at = loop.time()
            at.fill(1)
            await until(lambda wanted=number: len(waited) == wanted, seconds=100.0)  # type: ignore[misc]
        killed(consumer)
    running.cancel()
    return waited


@virtual
async def test_no_lane_waits_for_slow_handlers_of_another() -> None:
    async with bench() as at:
        assert max(await waited_by_live(at, lanes={"live": 8, "bulk": 2}, concurrency=10)) < 0.5
        at.watch.untrue.clear()


def test_handlers_that_are_not_divided_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before."""
    monkeypatch.setattr(handler_lanes, "HANDLERS_PER_LANE_MIN", 1_000)
    with pytest.raises(AssertionError):
        test_no_lane_waits_for_slow_handlers_of_another()


@virtual
async def test_shares_divide_handlers_and_lend_all_but_one_a_lane() -> None:
    async with bench() as at:
        at.fill(2_000, channel=BULK)
        at_once: Counter[str] = Counter()

        async def handle(record: Record) -> None:
            at_once[record.lane] += 1
            await asyncio.sleep(1.0)
            at_once[record.lane] -= 1
            at.sunk(record)

        async with member(at, "m", FIRST, BULK_FIRST, lanes={"live": 8, "bulk": 2}, concurrency=10) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(3.5)
            assert at_once == {"bulk": 9}, "all but the one that live keeps"
            at.fill(300)
            await asyncio.sleep(0.1)
            assert at_once["live"] == 1
            await asyncio.sleep(3.0)
            assert at_once == {"live": 8, "bulk": 2}, "what was lent is back"
            consumer.pause("bulk")
            await asyncio.sleep(3.0)
            assert +at_once == {"live": 9}
            consumer.resume("bulk")
            await asyncio.sleep(3.0)
            assert at_once == {"live": 8, "bulk": 2}
            killed(consumer)
        running.cancel()


async def at_most_at_once(at: Bench, **settings: object) -> dict[str, int]:
    """How many handlers each lane had at once at most, of which there was first one, then both."""
    at.fill(300, channel=BULK)
    at_once, most = Counter[str](), Counter[str]()

    async def handle(record: Record) -> None:
        at_once[record.lane] += 1
        most[record.lane] = max(most[record.lane], at_once[record.lane])
        await asyncio.sleep(1.0)
        at_once[record.lane] -= 1
        at.sunk(record)

    async with member(at, "m", FIRST, BULK_FIRST, lanes={"live": 1, "bulk": 1}, **settings) as (consumer, _):
        running = asyncio.ensure_future(consumer.run(handle))
        await asyncio.sleep(3.5)
        at.fill(300)
        await asyncio.sleep(3.5)
        killed(consumer)
    running.cancel()
    return dict(most)


@virtual
async def test_lanes_with_handlers_of_their_own_never_have_more() -> None:
    async with bench() as at:
        assert await at_most_at_once(at, concurrency={"live": 8, "bulk": 3}) == {"live": 8, "bulk": 3}
        at.watch.untrue.clear()


@virtual
async def test_shared_handlers_exceed_what_lanes_would_have_alone() -> None:
    """The control for the test before."""
    async with bench() as at:
        assert (await at_most_at_once(at, concurrency=11))["bulk"] == 10
        at.watch.untrue.clear()


def test_handlers_by_lane_are_for_the_lanes_that_are_consumed() -> None:
    with pytest.raises(Invalid, match="spare is not named in both") as refused:
        ConsumerSettings(("logs",), "g", lanes={"live": 1}, concurrency={"live": 1, "spare": 1})
    assert refused.value.field == "concurrency"
    with pytest.raises(Invalid, match="live is not named in both"):
        ConsumerSettings(("logs",), "g", concurrency={"live": 1})
    with pytest.raises(Invalid, match="at least 1") as refused:
        ConsumerSettings(("logs",), "g", lanes={"live": 1}, concurrency={"live": 0})
    assert refused.value.field == "concurrency.live"


@virtual
async def test_batches_and_what_few_handlers_take_come_of_all_lanes() -> None:
    async with bench() as at:
        at.fill(100)
        at.fill(100, channel=BULK)

        async def handle(batch: Batch) -> None:
            await asyncio.sleep(0.1)
            for record in batch.unsettled():
                at.sunk(record)
                record.ack()

        for name, concurrency in (("few", 1), ("many", 20)):
            async with member(at, name, FIRST, BULK_FIRST, concurrency=concurrency) as (consumer, _):
                running = asyncio.ensure_future(consumer.run_batches(handle, max_records=10))
                before = len(at.sink)
                await until(lambda: len(at.sink) >= before + 100)  # noqa: B023 - waited for at once
                at.fill(50)
                at.fill(50, channel=BULK)
            await running
        assert len(at.offsets()) + len(at.offsets("braid.logs.bulk.1")) == len(set(at.sink))


@pytest.mark.parametrize("ordering", ["none", "partition"])
@pytest.mark.parametrize("ownership", ["at_least_once", "exclusive"])
@pytest.mark.parametrize("concurrency", [1, 3, 4, 9])
def test_all_records_of_all_lanes_are_handled_whoever_takes_them(
    ordering: str, ownership: str, concurrency: int
) -> None:
    @virtual
    async def scenario() -> None:
        async with bench() as at:
            dice, failed = Random(concurrency), set[tuple[str, int]]()

            async def handle(record: Record) -> None:
                await asyncio.sleep(dice.choice((0.0, 0.001, 0.2)))
                if dice.random() < 0.1 and (record.lane, record.offset) not in failed:
                    failed.add((record.lane, record.offset))
                    raise Retryable("away")
                at.sunk(record)

            settings: dict[str, object] = {"ordering": ordering, "ownership": ownership, "concurrency": concurrency}
            async with member(at, "m", FIRST, BULK_FIRST, lanes={"live": 3, "bulk": 1}, **settings) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                for _ in range(20):
                    at.fill(dice.randrange(12))
                    at.fill(dice.randrange(12), channel=BULK)
                    lane = dice.choice(("live", "bulk"))
                    consumer.pause(lane)
                    await asyncio.sleep(dice.random())
                    consumer.resume(lane)
                    await asyncio.sleep(dice.random())
                await until(lambda: not any(told.waiting + told.parked + told.handled for told in consumer.explain()))
            await running
            for topic in ("braid.logs.live.1", "braid.logs.bulk.1"):
                found = at.offsets(topic)
                assert (found if ordering == "partition" else sorted(found)) == list(range(len(found)))
                assert len(found) > 50

    scenario()


@given(st.integers(1, 200), st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1))
def test_every_handler_has_a_role_and_every_lane_keeps_one(handlers: int, shares: dict[str, int]) -> None:
    found = roles(handlers, shares)
    assert len(found) == handlers
    if len(shares) == 1 or handlers < 2 * len(shares):
        assert set(found) == {ANY}
        return
    parts = Counter(role.lane for role in found)
    assert parts.keys() == shares.keys()
    assert Counter(role.lane for role in found if not role.helps) == dict.fromkeys(shares, 1)
    whole = sum(shares.values())
    for lane, share in shares.items():
        assert parts[lane] <= handlers * share / whole + 1
        assert parts[lane] == 1 or parts[lane] >= handlers * share / whole - len(shares)
