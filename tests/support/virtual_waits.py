"""Runs an asynchronous test on virtual time, and waits in it for what is to come true."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from braid.kernel.errors import BraidError
from tests.support.virtual_time import run_virtual


def virtual(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Runs an asynchronous test on a virtual loop of its own."""

    @functools.wraps(test)
    def run() -> None:
        run_virtual(test())

    del run.__wrapped__  # pytest must not see the coroutine function
    return run


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits, in virtual time, for a condition; fails when it does not come true in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, f"not true within {seconds} s"
        await asyncio.sleep(0.005)


async def settled(awaitables: Sequence[Awaitable[object]]) -> list[object]:
    """Results, or the errors Braid raised."""
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, BraidError):
            raise outcome
    return list(outcomes)
