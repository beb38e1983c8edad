"""Hosts on the loop of virtual time: processes that can be killed and paused, with a clock, dice and ids of their own.

One seed gives one run, byte for byte, in a process started with `PYTHONHASHSEED=0`. `virtual_loop` has the loop.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from braid.kernel.ids import make_ulid
from braid.kernel.ports import Host, Task
from tests.support.inline_threads import InlineThreads
from tests.support.virtual_failures import ProcessKilled as ProcessKilled
from tests.support.virtual_failures import VirtualDeadlock as VirtualDeadlock
from tests.support.virtual_failures import VirtualFailure as VirtualFailure
from tests.support.virtual_handles import tell_end
from tests.support.virtual_loop import START_MS as START_MS
from tests.support.virtual_loop import VirtualTimeLoop as VirtualTimeLoop
from tests.support.virtual_loop import process

T = TypeVar("T")


def process_at_work() -> str:
    """The name of the process whose task runs now; '' outside of all."""
    owner = process.get()
    return owner.name if owner is not None else ""


class ProcessTasks:
    """The tasks of one virtual process: those it spawns, and those they make with asyncio directly.

    `kill` ends them all; from then on every port of the process raises `ProcessKilled`, also inside `finally` blocks,
    so that nothing a killed process still does can reach the outside. A task that dies of an error kills its process,
    then tells `on_failure` (by default the whole run fails).
    """

    def __init__(self, loop: VirtualTimeLoop, name: str, on_failure: Callable[[BaseException], None] | None) -> None:
        self.name = name
        self.alive = True
        self._loop = loop
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._on_failure = on_failure or loop.fail
        self._on_kill: list[Callable[[], None]] = []

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> Task:
        """Starts a task of this process, whichever process runs now."""
        if not self.alive:
            coroutine.close()
            raise ProcessKilled(self.name)
        context = copy_context()
        context.run(process.set, self)
        task = self._loop.create_task(coroutine, name=f"{self.name}/{name}", context=context)
        task.add_done_callback(self._reap)
        return _VirtualTask(self, task)

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Runs the function inline, after everything that is ready."""
        self.check()
        await asyncio.sleep(0)
        self.check()
        return function()

    def threads(self, count: int, name: str) -> InlineThreads:
        """No threads at all: functions run inline."""
        self.check()
        return InlineThreads()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Makes a task die with the process."""
        if self.alive:
            self._tasks[task] = None
        else:
            task.cancel()
        task.add_done_callback(partial(self._loop.forget, self))

    def pause(self) -> None:
        """Stops everything the process runs, as SIGSTOP does; its peers see silence."""
        if self.alive:
            self._loop.pause(self)

    def resume(self) -> None:
        """Goes on; nothing in the process knows but by its clock."""
        self._loop.resume(self)

    def on_kill(self, callback: Callable[[], None]) -> None:
        """Calls back when the process is killed, its tasks cancelled: connections break, sessions go silent."""
        self._on_kill.append(callback)

    def kill(self) -> None:
        """Ends the process now; killing it again changes nothing."""
        if not self.alive:
            return
        self.alive = False
        self.resume()
        for task in list(self._tasks):
            task.cancel()
        for callback in self._on_kill:
            callback()

    def check(self) -> None:
        """Raises `ProcessKilled` when the process is dead."""
        if not self.alive:
            raise ProcessKilled(self.name)

    def forget(self, task: asyncio.Task[Any]) -> None:
        """The task has ended."""
        self._tasks.pop(task, None)

    def _reap(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self.alive:
            self.kill()
            self._on_failure(error)


class _VirtualTask:
    """`kernel.ports.Task` over an asyncio task."""

    def __init__(self, tasks: ProcessTasks, task: asyncio.Task[Any]) -> None:
        self._tasks = tasks
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()

    async def ended(self) -> None:
        over: asyncio.Future[None] = self._task.get_loop().create_future()
        tell = partial(tell_end, over)
        self._task.add_done_callback(tell)
        try:
            await over
        finally:
            self._task.remove_done_callback(tell)


class VirtualClock:
    """The loop's time as one process sees it; `skew_ms` and steps change its wall clock alone."""

    def __init__(self, loop: VirtualTimeLoop, tasks: ProcessTasks, start_ms: int, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        self._loop = loop
        self._tasks = tasks
        self._start_ms = start_ms

    def now_ms(self) -> int:
        if not self._tasks.alive:
            self._tasks.check()
        return self._start_ms + self.skew_ms + round(self._loop.time() * 1000)

    def elapsed(self) -> float:
        if not self._tasks.alive:  # asked at every step: a call less
            self._tasks.check()
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        tasks = self._tasks
        if not tasks.alive:
            tasks.check()
        if seconds <= 0:
            await asyncio.sleep(0)
        else:
            await self._loop.passed(seconds)
        if not tasks.alive:
            tasks.check()


class VirtualRandomness:
    """Seeded dice of one process."""

    def __init__(self, tasks: ProcessTasks, seed: str) -> None:
        self._tasks = tasks
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        if not self._tasks.alive:
            self._tasks.check()
        return self._random.uniform(low, high)

    def entropy(self, count: int) -> bytes:
        self._tasks.check()
        return self._random.randbytes(count)


class _VirtualIds:
    """ULIDs from the virtual clock and the seeded dice."""

    def __init__(self, clock: VirtualClock, randomness: VirtualRandomness) -> None:
        self._clock = clock
        self._randomness = randomness

    def ulid(self) -> str:
        return make_ulid(self._clock.now_ms(), self._randomness.entropy(10))


class VirtualProcess:
    """A process of a simulation: its host, and the power to kill it.

    Args:
        loop: The loop everything runs on.
        name: Names its tasks, and tells its dice from those of other processes of the same seed.
        seed: Seeds its dice.
        start_ms: Wall time at loop time 0, milliseconds since the epoch; None means the loop's.
        skew_ms: How far its wall clock is ahead of that.
        on_failure: Told the error of a task that died, after the process was killed; None fails the run.
    """

    def __init__(
        self,
        loop: VirtualTimeLoop,
        name: str,
        seed: int,
        *,
        start_ms: int | None = None,
        skew_ms: int = 0,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.name = name
        self.tasks = ProcessTasks(loop, name, on_failure)
        self.clock = VirtualClock(loop, self.tasks, loop.start_ms if start_ms is None else start_ms, skew_ms)
        randomness = VirtualRandomness(self.tasks, f"{seed}/{name}")
        ids, host_name = _VirtualIds(self.clock, randomness), name.partition(".")[0]
        self.host = Host(self.clock, randomness, ids, self.tasks, self._exit, host_name)

    @property
    def alive(self) -> bool:
        """Whether it was not killed yet."""
        return self.tasks.alive

    def pause(self) -> None:
        """Pauses a process as SIGSTOP does: it runs nothing, while its clock goes on and messages to it wait."""
        self.tasks.pause()

    def resume(self) -> None:
        """Resumes a process as SIGCONT does."""
        self.tasks.resume()

    def kill(self) -> None:
        """Kills a process as `kill -9` would: its tasks die, and none of its ports works any more."""
        self.tasks.kill()

    def _exit(self, reason: str) -> None:
        self.tasks.kill()

    def on_kill(self, callback: Callable[[], None]) -> None:
        """Calls back when it is killed; store clients and wires register what a kernel would close."""
        self.tasks.on_kill(callback)


def virtual_host(loop: VirtualTimeLoop, seed: int, start_ms: int | None = None) -> Host:
    """The host of a process that is never killed, for tests that need just one."""
    return VirtualProcess(loop, "process", seed, start_ms=start_ms).host


def running_loop() -> VirtualTimeLoop:
    """The virtual loop that runs now. Raises `TypeError` when another kind of loop does."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError(f"{loop!r} is not a VirtualTimeLoop")
    return loop


def run_virtual(coro: Coroutine[Any, Any, T], start_ms: int = START_MS) -> T:
    """Runs a coroutine on a new virtual loop, then cancels what it left behind. Within it, see `running_loop`."""
    loop = VirtualTimeLoop(start_ms)
    try:
        try:
            return loop.run_until_complete(coro)
        finally:
            loop.cancel_all()
    finally:
        loop.close()
