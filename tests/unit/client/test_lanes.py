"""Lanes of one consumer: what befalls one of them, or floods it, leaves the others what is theirs."""

import asyncio

import pytest

from braid.client.columns import Batch
from braid.client.memory import MemoryBound
from braid.client.record import Record
from braid.client.round_robin import RoundRobin
from braid.client.settings import Retry
from braid.kernel import limits
from braid.kernel.errors import Retryable
from tests.support.scripted_control import until, virtual
from tests.unit.client.consuming import FIRST, bench, killed, member

BULK = "logs/bulk/1"
BULK_FIRST = f"{BULK}/0"


def test_retries_of_one_lane_that_are_too_many_stop_the_fetching_of_that_lane_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PARKED_RETRIES_MAX", 300)

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
        test_retries_of_one_lane_that_are_too_many_stop_the_fetching_of_that_lane_alone(monkeypatch)


@virtual
async def test_batches_of_lanes_are_as_many_records_as_their_shares_say() -> None:
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
        test_batches_of_lanes_are_as_many_records_as_their_shares_say()
