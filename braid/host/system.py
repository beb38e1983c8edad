"""The host port over a real process: the kernel's clocks, its random source, asyncio tasks."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from braid.host.processors import system_cpu
from braid.kernel.ids import make_ulid
from braid.kernel.limits.runtime import CLOCK_OFFSET_SECONDS
from braid.kernel.ports import Host

T = TypeVar("T")

EXIT_STATUS: Final = 70  # EX_SOFTWARE of sysexits.h
_ULID_ENTROPY_BYTES: Final = 10
_log = logging.getLogger("braid.host")

OnDeath = Callable[[str, BaseException], None]


class SystemClock:
    """Wall clock, and CLOCK_BOOTTIME for deadlines: it neither steps nor stops in suspend."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def elapsed(self) -> float:
        """Seconds since boot, suspend included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Waits on the running loop."""
        await asyncio.sleep(seconds)


class OffsetClock(SystemClock):
    """A system's clock whose wall time is off by as many milliseconds as a file says. For tests of clock steps."""

    def __init__(self, offset_file: Path) -> None:
        """A file that is not there, or is being written, means no offset."""
        self._offset_file = offset_file
        self._offset_ms = 0
        self._read_at = float("-inf")

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as the file had them at most `CLOCK_OFFSET_SECONDS` ago."""
        if (now := self.elapsed()) - self._read_at >= CLOCK_OFFSET_SECONDS:
            self._read_at, self._offset_ms = now, self._offset()
        return super().now_ms() + self._offset_ms

    def _offset(self) -> int:
        try:
            return int(self._offset_file.read_text())
        except (OSError, ValueError):
            return 0


class SystemRandomness:
    """Randomness from the kernel's random source."""

    def __init__(self) -> None:
        self._source = secrets.SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        return self._source.uniform(low, high)

    def entropy(self, count: int) -> bytes:
        """`count` random bytes."""
        return secrets.token_bytes(count)


class SystemIds:
    """ULIDs of the wall clock and the kernel's random source."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock

    def ulid(self) -> str:
        """A new ULID, 26 characters."""
        return make_ulid(self._clock.now_ms(), secrets.token_bytes(_ULID_ENTROPY_BYTES))


class SystemTask:
    """A handle on an asyncio task."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        """Asks it to end."""
        self._task.cancel()

    async def ended(self) -> None:
        """Waits until it has ended, however."""
        await asyncio.wait((self._task,))


class SystemThreads:
    """A pool of threads for blocking work."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, name)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Calls the function as soon as a thread is free."""
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Takes no more; does not wait for what runs."""
        self._pool.shutdown(wait=False)


class SystemTasks:
    """Asyncio tasks, held strongly until they end. One that dies of an error is logged once and reported."""

    def __init__(self, on_death: OnDeath | None) -> None:
        self._on_death = on_death
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> SystemTask:
        """Starts a task on the running loop."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return SystemTask(task)

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Runs a function in the loop's thread pool."""
        return await asyncio.get_running_loop().run_in_executor(None, function)

    def threads(self, count: int, name: str) -> SystemThreads:
        """A pool of its own: what blocks there for long keeps nothing else waiting."""
        return SystemThreads(count, name)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        _log.error("task %s died", task.get_name(), exc_info=error)
        if self._on_death is not None:
            self._on_death(task.get_name(), error)


def system_host(on_death: OnDeath | None = None, clock_offset_file: Path | None = None) -> Host:
    """The host of this process.

    Args:
        on_death: Called with a task's name and error when it dies of one; a service then ends its process.
        clock_offset_file: See `OffsetClock`.
    """
    clock = OffsetClock(clock_offset_file) if clock_offset_file else SystemClock()
    name = os.uname().nodename
    return Host(clock, SystemRandomness(), SystemIds(clock), SystemTasks(on_death), exit_now, name, system_cpu())


def exit_now(reason: str) -> None:
    """Ends this process with status `EXIT_STATUS`, without waiting for anything that runs in it."""
    _log.critical("the process ends now: %s", reason)
    logging.shutdown()
    os._exit(EXIT_STATUS)
