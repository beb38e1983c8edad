"""Lanes of one consumer: what befalls one of them, or floods it, leaves the others what is theirs."""

import asyncio

import pytest

from braid.client.memory import MemoryBound
from braid.client.record import Record
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
