"""A member divides its handlers as the assigner says: live, within its bound, and by its own settings otherwise."""

import asyncio
from collections import Counter

import pytest

from braid.api.assigner.v1 import join_pb2
from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.work_division import handlers_of
from braid.client.records.record import Record
from braid.kernel.capabilities import WORK_DIVISION
from braid.kernel.errors import Invalid
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, Bench, bench, member

BULK = "logs/bulk/1"


class Handling:
    """Handlers that wait until they are let go, counted by lane."""

    def __init__(self, at: Bench) -> None:
        self.at = at
        self.now: Counter[str] = Counter()
        self.free = asyncio.Event()

    async def __call__(self, record: Record) -> None:
        self.now[record.lane] += 1
        try:
            await self.free.wait()
            await asyncio.sleep(0.001)
            self.at.sunk(record)
        finally:
            self.now[record.lane] -= 1

    async def round(self) -> None:
        """Ends what is handled, and waits until handlers have taken the next records."""
        self.free.set()
        await asyncio.sleep(0.0005)
        self.free.clear()
        await asyncio.sleep(0.1)


@virtual
async def test_shares_are_applied_live_and_taken_back() -> None:
    async with bench() as at:
        at.fill(2_000)
        at.fill(2_000, channel=BULK)
        async with member(at, "m", FIRST, f"{BULK}/0", concurrency=10) as (consumer, _):
            handling = Handling(at)
            running = asyncio.ensure_future(consumer.run(handling))
            await until(lambda: sum(handling.now.values()) == 10)
            assert handling.now == {"live": 5, "bulk": 5}
            await at.control.divide(0, 7, {"live": 4, "bulk": 1})
            await handling.round()
            assert handling.now == {"live": 8, "bulk": 2}
            for revision, shares in ((7, {"live": 1, "bulk": 4}), (6, {"live": 1, "bulk": 4}), (8, {"live": 0})):
                await at.control.divide(0, revision, shares)
                await handling.round()
                assert handling.now == {"live": 8, "bulk": 2}, "told twice, late, or what makes no sense"
            await at.control.divide(0, 9)
            await handling.round()
            assert handling.now == {"live": 5, "bulk": 5}
            handling.free.set()
            running.cancel()


@virtual
async def test_handlers_grow_within_the_bound_and_shrink_again() -> None:
    async with bench() as at:
        at.fill(3_000)
        async with member(at, "m", FIRST, concurrency=4, max_concurrency=7) as (consumer, _):
            hello = at.control.members[0].hello
            assert (hello.handlers, hello.max_handlers) == (4, 7) and WORK_DIVISION in hello.capabilities
            handling = Handling(at)
            running = asyncio.ensure_future(consumer.run(handling))
            await until(lambda: handling.now["live"] == 4)
            for revision, factor, handlers in ((1, 2.0, 7), (2, 0.0, 4), (3, 1.5, 6), (4, 1_000.0, 7), (5, -3.0, 4)):
                await at.control.divide(0, revision, concurrency=factor)
                await handling.round()
                assert handling.now["live"] == handlers, f"a factor of {factor}"
            handling.free.set()
            await until(lambda: len(at.sink) == 3_000)
            assert sorted(at.offsets()) == list(range(3_000)), "each record once"
            await consumer.close()
            await asyncio.wait_for(running, 5.0)


@virtual
async def test_a_welcome_says_how_work_is_divided() -> None:
    async with bench() as at:
        at.fill(3_000)
        at.control.division = join_pb2.WorkDivision(revision=3, concurrency=2.0)
        async with member(at, "m", FIRST, concurrency=4, max_concurrency=8) as (consumer, _):
            handling = Handling(at)
            running = asyncio.ensure_future(consumer.run(handling))
            await until(lambda: handling.now["live"] == 8)
            at.control.division = None  # an older assigner leads now: it says nothing
            at.control.network.kill("control")
            await at.control.start()
            await until(lambda: len(at.control.members) == 2)
            await asyncio.sleep(0.5)
            await handling.round()
            assert handling.now["live"] == 4
            handling.free.set()
            running.cancel()


@virtual
async def test_handlers_of_a_lane_of_their_own_are_never_divided() -> None:
    async with bench() as at:
        settings = {"lanes": {"live": 1, "bulk": 1}, "concurrency": {"live": 2, "bulk": 2}}
        async with member(at, "m", FIRST, **settings):
            assert WORK_DIVISION not in at.control.members[0].hello.capabilities


def test_a_bound_below_the_concurrency_is_refused() -> None:
    for settings in ({"concurrency": 8, "max_concurrency": 7}, {"concurrency": {"live": 1}, "max_concurrency": 7}):
        with pytest.raises(Invalid) as refused:
            ConsumerSettings(("logs",), "g", lanes={"live": 1}, **settings)
        assert refused.value.field == "max_concurrency"


def test_a_factor_is_kept_within_what_the_member_declares() -> None:
    settings = ConsumerSettings(("logs",), "g", concurrency=4, max_concurrency=7)
    asked = (0.0, -1.0, 1.0, 1.2, 2.0, 1e9)
    assert [handlers_of(settings, factor) for factor in asked] == [4, 4, 4, 5, 7, 7]
    assert handlers_of(ConsumerSettings(("logs",), "g", concurrency=4), 2.0) == 4, "no bound is declared"
