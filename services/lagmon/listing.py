"""Asks other services again and again."""

import contextlib
from collections.abc import Awaitable, Callable

from braid.kernel.errors import BraidError
from braid.kernel.ports import Host


async def ask_every(host: Host, seconds: float, ask: Callable[[], Awaitable[None]]) -> None:
    """Asks until cancelled; without an answer it asks again as late as with one."""
    while True:
        with contextlib.suppress(BraidError):  # it does not answer now: what is known stands
            await ask()
        await host.clock.sleep(seconds)
