"""Clock, randomness and tasks of a mesh in memory: time passes only when the test lets it."""

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from braid.kernel.ids import make_ulid
from braid.kernel.ports import Host, Task, Threads

T = TypeVar("T")

START_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_TURNS_PER_TIMER: Final = 20  # of the event loop, for what a timer sets off
_TURNS_AT_THE_END: Final = 100


class ManualClock:
    """A clock that stands still until `advance`. Waits on it end in the order of their deadlines."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now_ms(self) -> int:
        """Wall time, milliseconds since the epoch."""
        return self._start_ms + round(self._now * 1000)

    def elapsed(self) -> float:
        """Seconds that have passed so far."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Waits until this much time has passed."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._timers, (self._now + seconds, self._count, passed))
        await passed

    async def advance(self, seconds: float) -> None:
        """Lets time pass, timer by timer, and runs everything that the timers trigger."""
        until = self._now + seconds
        await _turns(_TURNS_AT_THE_END)
        while self._timers and self._timers[0][0] <= until:
            self._now, _, passed = heapq.heappop(self._timers)
            if not passed.done():
                passed.set_result(None)
                await _turns(_TURNS_PER_TIMER)
        self._now = until
        await _turns(_TURNS_AT_THE_END)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class _Dice:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def entropy(self, count: int) -> bytes:
        return self._random.randbytes(count)


class _Ids:
    def __init__(self, clock: ManualClock, dice: _Dice) -> None:
        self._clock = clock
        self._dice = dice

    def ulid(self) -> str:
        return make_ulid(self._clock.now_ms(), self._dice.entropy(10))


class _Task:
    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()

    async def ended(self) -> None:
        await asyncio.wait((self._task,))


class _Threads:
    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, name)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class KillableTasks:
    """The tasks of one process in memory. A failed one is reported to the loop's exception handler."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], None] = {}

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> Task:
        """Starts a task."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return _Task(task)

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Runs the function inline."""
        await asyncio.sleep(0)
        return function()

    def threads(self, count: int, name: str) -> Threads:
        """Real threads: what runs there takes real time, of which the mesh's clock knows nothing."""
        return _Threads(count, name)

    def kill(self) -> None:
        """Cancels all tasks of the process."""
        for task in list(self._running):
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            facts = {"message": f"task {task.get_name()} died", "exception": error, "task": task}
            task.get_loop().call_exception_handler(facts)


def manual_host(clock: ManualClock, seed: str) -> tuple[Host, KillableTasks]:
    """The host of one process in memory, and a function that kills it."""
    dice, tasks = _Dice(seed), KillableTasks()
    return Host(clock, dice, _Ids(clock, dice), tasks, lambda _: tasks.kill()), tasks
