"""No task of the SDK dies in silence: what an application calls next raises why it cannot go on."""

import asyncio

import pytest

from braid.client.consuming.fetch_loop import FetchLoop
from braid.client.delivery.lease_work import LeaseWork
from braid.client.tasks import race, within
from braid.kernel.errors import BraidError
from braid.kernel.limits.runtime import ROUNDING_SECONDS
from tests.support.scripted_control import virtual
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop
from tests.unit.client.scripted_member import FIRST, bench, killed, member, take


async def broken() -> None:
    """Dies of something nobody expected."""
    raise RuntimeError("unexpected")


async def what_take_raises(owner: type, name: str, replacement: object, monkeypatch: pytest.MonkeyPatch) -> BraidError:
    """The error that an application gets from `take` once a function of the SDK fails in its task."""
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST) as (consumer, client):
            await take(consumer, 1)
            client.process.tasks._on_failure = lambda _: None  # the host goes on; a service would end
            monkeypatch.setattr(owner, name, replacement)
            at.fill(1)
            with pytest.raises(BraidError) as raised:
                while await consumer.take(20.0) is not None:
                    pass
            killed(consumer)
            return raised.value


def test_an_intake_that_dies_is_told_to_who_takes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(self: FetchLoop) -> None:
        await broken()

    error = run_virtual(what_take_raises(FetchLoop, "_fetch", fetch, monkeypatch))
    assert "intake failed: RuntimeError: unexpected" in str(error)


def test_heartbeats_that_die_are_told_to_who_takes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(self: LeaseWork) -> tuple[int, int]:
        raise RuntimeError("unexpected")

    error = run_virtual(what_take_raises(LeaseWork, "take_load", loads, monkeypatch))
    assert "lease-session failed: RuntimeError: unexpected" in str(error)


@virtual
async def test_a_race_ends_with_the_first_and_ends_the_others() -> None:
    host = VirtualProcess(running_loop(), "process", 0).host
    ended: list[str] = []

    async def slow() -> None:
        try:
            await host.clock.sleep(100.0)
        finally:
            ended.append("slow")

    async def quick() -> None:
        await host.clock.sleep(1.0)

    await race(host.tasks, "race", slow, quick)
    assert (ended, host.clock.elapsed()) == (["slow"], 1.0)
    with pytest.raises(RuntimeError, match="unexpected"):
        await race(host.tasks, "race", slow, broken)
    racing = asyncio.ensure_future(race(host.tasks, "race", slow, slow))
    await asyncio.sleep(1.0)
    racing.cancel()
    await asyncio.wait([racing])
    assert ended == ["slow"] * 4


@virtual
async def test_a_wait_too_short_for_the_clock_ends_without_another() -> None:
    clock = VirtualProcess(running_loop(), "process", 0).host.clock
    begun = clock.elapsed()
    deadline = begun + ROUNDING_SECONDS / 2
    with pytest.raises(TimeoutError):
        await within(clock, lambda: deadline, asyncio.Event().wait)
    assert clock.elapsed() == begun
