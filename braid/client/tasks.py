"""Background tasks of the SDK: an application never waits for one that has died.

`Turns` divides long work in one coroutine, so that other tasks on the event loop run in between.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TypeVar

from braid.kernel.errors import BraidError
from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS, RECORDS_BETWEEN_YIELDS_MAX, YIELD_SECONDS
from braid.kernel.limits.runtime import ROUNDING_SECONDS
from braid.kernel.ports import Clock, DuplexCall, Task, Tasks

T = TypeVar("T")

Run = Callable[[], Coroutine[object, object, object]]


def watched(tasks: Tasks, run: Run, name: str, died: Callable[[BraidError], None]) -> Task:
    """Starts a task; if it dies of an error, `died` is called with it, beside what the host does."""

    async def watch() -> None:
        try:
            await run()
        except Exception as error:
            died(BraidError(f"{name} failed: {type(error).__name__}: {error}"))
            raise

    return tasks.spawn(watch(), name)


async def race(tasks: Tasks, name: str, *runs: Run) -> None:
    """Runs tasks side by side until the first ends, and cancels the others. Raises the error of the first to fail."""
    ended = asyncio.Event()
    errors: list[Exception] = []

    async def take_part(run: Run) -> None:
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - raised below, where somebody sees it
            errors.append(error)
        finally:
            ended.set()

    running = [tasks.spawn(take_part(run), f"{name}-{number}") for number, run in enumerate(runs)]
    try:
        await ended.wait()
    finally:
        for task in running:
            task.cancel()
        for task in running:
            await task.ended()
    if errors:
        raise errors[0]


@contextlib.asynccontextmanager
async def hanging_up(tasks: Tasks, call: DuplexCall) -> AsyncIterator[None]:
    """Ends a stream after its use: in the background when its other side is silent, for that may end nothing either."""
    silent = False
    try:
        yield
    except TimeoutError:
        silent = True
        raise
    finally:
        if silent:
            tasks.spawn(call.close(), "hang-up")
        else:
            await call.close()


async def within(clock: Clock, deadline: Callable[[], float], wait: Callable[[], Awaitable[T]]) -> T:
    """Returns what `wait` returns, before a deadline (`Clock.elapsed`) that may move meanwhile.

    Raises:
        TimeoutError: the deadline passed.
    """
    while (left := deadline() - clock.elapsed()) >= ROUNDING_SECONDS:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                return await wait()
    raise TimeoutError


async def happens(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, at most so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Turns:
    """Counts work done without waiting: after a few milliseconds, or many records, other tasks get a turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin()

    async def done(self) -> None:
        """Counts one record; gives other tasks a turn if that was enough."""
        self._count += 1
        if self._count % RECORDS_BETWEEN_YIELDS:
            return
        lasted = self._clock.elapsed() - self._since
        if self._count >= RECORDS_BETWEEN_YIELDS_MAX or lasted >= YIELD_SECONDS:
            await asyncio.sleep(0)
            self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._since = self._clock.elapsed()
