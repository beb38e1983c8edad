"""A look at its own event loop from inside an application process: how many tasks, how late its timers.

It writes a line for every look beside the application's log. A timer is late because something held the event loop, or
because the machine had no core for it. Linux tells the second: how long the thread was ready and waited for a core
(`run_delay` of `/proc/…/schedstat`). Where nothing is known of it, all lateness is the event loop's.
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from braid.kernel.limits.runtime import LOOP_LAG_INTERVAL_SECONDS

SUFFIX: Final = ".loop"
_NS: Final = 1e9


@asynccontextmanager
async def probed(log: Path) -> AsyncIterator[None]:
    """Looks while the block runs."""
    task = asyncio.create_task(_look(log.with_suffix(SUFFIX)))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _look(path: Path) -> None:
    with path.open("a", encoding="utf-8", buffering=1) as file:
        while True:
            before, waited = time.monotonic(), _waited_seconds()
            await asyncio.sleep(LOOP_LAG_INTERVAL_SECONDS)
            late = max(0.0, time.monotonic() - before - LOOP_LAG_INTERVAL_SECONDS)
            line = {
                "at": time.monotonic(),
                "tasks": len(asyncio.all_tasks()),
                "late": late,
                "waited": _waited_seconds() - waited,
            }
            file.write(json.dumps(line) + "\n")


def _waited_seconds() -> float:
    """How long this thread has waited for a core so far."""
    try:
        path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        return int(path.read_text(encoding="ascii").split()[1]) / _NS
    except OSError:
        return 0.0
