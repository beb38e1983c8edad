"""How much memory all processes of a run hold, looked at every few seconds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import psutil

_LOOK_SECONDS: Final = 2.0


@asynccontextmanager
async def watching_memory(told: Callable[[int], None]) -> AsyncIterator[None]:
    """Tells within, again and again, how many bytes this process and all below it hold together."""

    async def watch() -> None:
        while True:
            told(await asyncio.to_thread(held_bytes))
            await asyncio.sleep(_LOOK_SECONDS)

    watching = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        if not watching.cancelled():
            watching.result()


def held_bytes() -> int:
    """Bytes held by this process and all below it. What several share counts once, where the system tells (Linux)."""
    me = psutil.Process()
    return sum(map(_held_by, [me, *me.children(recursive=True)]))


def _held_by(process: psutil.Process) -> int:
    try:
        found = process.memory_full_info()
    except psutil.Error:  # it has just ended, or is another user's
        return 0
    return int(getattr(found, "pss", found.rss))
