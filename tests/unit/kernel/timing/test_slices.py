"""Long loops in slices: others get their turn, and not more often than they need it."""

import asyncio

import pytest

from braid.kernel.limits.runtime import SLICE_SECONDS
from braid.kernel.timing.slices import Slices
from tests.support.metered_clock import MeteredClock


async def worked(clock: MeteredClock, steps: int, seconds: float) -> None:
    """A loop of steps that take equally long."""
    slices = Slices(clock)
    for _ in range(steps):
        clock.work(seconds)
        await slices.turn()


@pytest.mark.parametrize("seconds", [0.0001, 0.003, 0.05])
def test_a_slice_takes_its_time_and_at_most_a_step_more(seconds: float) -> None:
    clock = MeteredClock()
    asyncio.run(worked(clock, 1_000, seconds))
    assert SLICE_SECONDS <= clock.longest + 1e-9 <= SLICE_SECONDS + seconds + 2e-9
    assert clock.turns <= 1_000 * seconds / SLICE_SECONDS + 1


def test_a_short_loop_gives_no_turn() -> None:
    clock = MeteredClock()
    asyncio.run(worked(clock, 9, SLICE_SECONDS / 10))
    assert clock.turns == 0


def test_time_that_others_took_is_not_of_the_next_slice() -> None:
    clock = MeteredClock()

    async def scenario() -> None:
        slices = Slices(clock)
        clock.work(SLICE_SECONDS)
        asyncio.get_running_loop().call_soon(clock.work, 1.0)
        await slices.turn()
        clock.work(SLICE_SECONDS / 2)
        await slices.turn()

    asyncio.run(scenario())
    assert clock.turns == 1
