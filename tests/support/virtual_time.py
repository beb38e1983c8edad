"""A deterministic event loop on virtual time, and hosts on it: nothing waits, nothing is random, no socket exists.

One seed gives one run, byte for byte, in a process started with `PYTHONHASHSEED=0`. What a test needs of asyncio that
reaches outside (sockets, signals, subprocesses) is absent on purpose and raises `NotImplementedError`.
"""

import asyncio
import gc
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from braid.kernel.ids import make_ulid
from braid.kernel.ports import Host, Task
from tests.support.inline_threads import InlineThreads
from tests.support.virtual_failures import ProcessKilled as ProcessKilled
from tests.support.virtual_failures import VirtualDeadlock as VirtualDeadlock
from tests.support.virtual_failures import VirtualFailure as VirtualFailure
from tests.support.virtual_handles import Handle, SequencedFuture, SequencedTask, SequencingLoop, tell_end

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STEPS_PER_INSTANT_MAX: Final = 1_000_000  # more callbacks without time passing is a livelock
STEPS_PER_COLLECTION: Final = 200_000  # bounds what reference cycles hold
CANCEL_ROUNDS_MAX: Final = 100  # a task may well swallow some cancellations
_owner: ContextVar["ProcessTasks | None"] = ContextVar("virtual process", default=None)


class VirtualTimeLoop(SequencingLoop):
    """Runs what is ready in order of scheduling; when nothing is, time jumps to the next timer (ties: first set first).

    The base class brings `run_until_complete` and the like; all that waits or orders is replaced here.
    """

    _stopping: bool  # of the base class: the loop is to end after what runs now

    def __init__(self, start_ms: int = START_MS) -> None:
        super().__init__()
        self.start_ms = start_ms
        self.steps = 0
        self._now = 0.0
        self._sequence = 0
        self._livelock_at = STEPS_PER_INSTANT_MAX  # steps, unless time passes
        self._collect_at = STEPS_PER_COLLECTION
        self._due: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle | asyncio.Future[None]]] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._failure: BaseException | None = None
        self._held: dict[ProcessTasks, deque[Handle]] = {}  # what paused processes will run once resumed

    # --- time and scheduling

    def next_sequence(self) -> int:
        """The next number of creation, shared by timers, futures and tasks."""
        self._sequence += 1
        return self._sequence

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Runs the callback in this instant, after what is ready already."""
        handle = Handle(callback, args, context)
        self._due.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules a callback as `call_soon` does: there are no other threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs the callback `delay` virtual seconds from now."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs the callback at a virtual time."""
        timer = Handle(callback, args, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, timer))
        return timer

    def passed(self, seconds: float) -> asyncio.Future[None]:
        """Done in so many virtual seconds, unless it is cancelled: what most of a run waits for, at least cost."""
        future: asyncio.Future[None] = SequencedFuture(loop=self)
        self._sequence += 1
        heapq.heappush(self._timers, (self._now + seconds, self._sequence, future))
        return future

    # --- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        """A future with a repeatable hash."""
        return SequencedFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """A task with a repeatable hash; it belongs to the virtual process whose task makes it."""
        if not asyncio.iscoroutine(coro):
            raise TypeError(f"{coro!r} is not a coroutine")
        task: asyncio.Task[T] = SequencedTask(coro, self, name, context)
        self._tasks[task] = None
        owner = _owner.get() if context is None else context.get(_owner)
        if owner is None:
            task.add_done_callback(self._forget_task)
        else:
            owner.adopt(task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def forget(self, owner: "ProcessTasks", task: asyncio.Task[Any]) -> None:
        """A process's task has ended."""
        self._tasks.pop(task, None)
        owner.forget(task)

    def run_in_executor(self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Runs the function inline and returns its result as a finished future."""
        future: asyncio.Future[T] = self.create_future()
        future.set_result(func(*args))
        return future

    # --- running

    def run_forever(self) -> None:
        """Runs until `stop`. The collector runs at fixed steps meanwhile, since finalizers can schedule things."""
        collects = gc.isenabled()
        gc.disable()
        try:
            super().run_forever()
        finally:
            if collects:
                gc.enable()

    def _run_once(self) -> None:
        """Runs what is ready in this instant, and what that makes ready, unless one of it stops the loop."""
        due, held = self._due, self._held
        if not due:
            self._jump()
        while due and not self._stopping:
            self.steps += 1
            handle = due.popleft()
            callback = handle._callback
            if callback is None or (held and self._hold(handle)):
                continue
            try:
                handle._context.run(callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio does it; it ends the run below
                self.fail(error)
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise VirtualFailure(f"died with nobody to see it at {self._now}s: {failure!r}") from failure
            if self.steps > self._livelock_at:
                self._livelock_at += STEPS_PER_INSTANT_MAX
                raise VirtualDeadlock(f"too many callbacks ran at {self._now}s: time does not pass")
        if self.steps >= self._collect_at:
            self._collect_at += STEPS_PER_COLLECTION
            gc.collect()

    def pause(self, tasks: "ProcessTasks") -> None:
        """Holds what a process would run from now on, its timers included, until `resume`."""
        self._held.setdefault(tasks, deque())

    def resume(self, tasks: "ProcessTasks") -> None:
        """Runs what was held, in order. Fine for a process that is not paused."""
        self._due.extend(self._held.pop(tasks, ()))

    def _hold(self, handle: Handle) -> bool:
        owner: ProcessTasks | None = handle._context.get(_owner)
        held = None if owner is None else self._held.get(owner)
        if held is not None:
            held.append(handle)
        return held is not None

    def _jump(self) -> None:
        """Time passes up to the next timer. Cancelled ones are dropped when they come first."""
        timers, due = self._timers, self._due
        while timers and not (due and timers[0][0] > self._now):
            when, _, timer = heapq.heappop(timers)
            if timer.cancelled():
                continue
            if when > self._now:
                self._now = when
                self._livelock_at = self.steps + STEPS_PER_INSTANT_MAX
            if isinstance(timer, Handle):
                due.append(timer)
            else:
                timer.set_result(None)  # whoever awaits it is ready now
        if not due:
            waiting = ", ".join(task.get_name() for task in self._tasks)
            raise VirtualDeadlock(f"nothing is ready and no timer is set at {self._now}s; waiting: {waiting}")

    def close(self) -> None:
        """Forgets everything scheduled."""
        self._due.clear()
        self._timers.clear()
        super().close()

    def cancel_all(self) -> None:
        """Cancels every task and runs until all have ended. Raises `VirtualDeadlock` when some refuse to."""
        for _ in range(CANCEL_ROUNDS_MAX):
            left = list(self._tasks)
            if not left:
                return
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.wait(left, timeout=1.0))
        raise VirtualDeadlock("cancelled again and again, and still run: " + ", ".join(t.get_name() for t in left))

    # --- failures and debugging

    def fail(self, error: BaseException) -> None:
        """Makes the run raise `VirtualFailure` from `error` after the running callback."""
        self._failure = self._failure or error

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ends the run with errors that asyncio would only log."""
        self.fail(context.get("exception") or RuntimeError(str(context["message"])))

    get_debug = bool  # always off; asyncio asks for every future and task, and a type is the cheapest answer

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: every generator dropped while the loop ran was closed then."""


# --- processes -------------------------------------------------------------------------------------------------------


def process_at_work() -> str:
    """The name of the process whose task runs now; '' outside of all."""
    owner = _owner.get()
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
        context.run(_owner.set, self)
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
