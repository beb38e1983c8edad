"""A deterministic event loop on virtual time: nothing waits, nothing is random, no socket exists.

What a test needs of asyncio that reaches outside (sockets, signals, subprocesses) is absent on purpose and raises
`NotImplementedError`.
"""

import asyncio
import gc
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, Unpack

from tests.support.virtual_failures import VirtualDeadlock, VirtualFailure
from tests.support.virtual_handles import Handle, SequencedFuture, SequencedTask, SequencingLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STEPS_PER_INSTANT_MAX: Final = 1_000_000  # more callbacks without time passing is a livelock
STEPS_PER_COLLECTION: Final = 200_000  # bounds what reference cycles hold
CANCEL_ROUNDS_MAX: Final = 100  # a task may well swallow some cancellations


class Owner(Protocol):
    """The virtual process of a task, as the loop knows it: `virtual_time.ProcessTasks`."""

    @property
    def name(self) -> str:
        """The name of the process."""
        ...

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Makes a task die with the process."""
        ...

    def forget(self, task: asyncio.Task[Any]) -> None:
        """Notes that a task has ended."""
        ...


process: Final[ContextVar[Owner | None]] = ContextVar("virtual process", default=None)


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
        self._held: dict[Owner, deque[Handle]] = {}  # what paused processes will run once resumed

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
        """Does what `call_soon` does: there are no other threads."""
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
        owner = process.get() if context is None else context.get(process)
        if owner is None:
            task.add_done_callback(self._forget_task)
        else:
            owner.adopt(task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def forget(self, owner: Owner, task: asyncio.Task[Any]) -> None:
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

    def pause(self, tasks: Owner) -> None:
        """Holds what a process would run from now on, its timers included, until `resume`."""
        self._held.setdefault(tasks, deque())

    def resume(self, tasks: Owner) -> None:
        """Runs what was held, in order. Fine for a process that is not paused."""
        self._due.extend(self._held.pop(tasks, ()))

    def _hold(self, handle: Handle) -> bool:
        owner: Owner | None = handle._context.get(process)
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
        """Ends the run with the error that asyncio would log."""
        self.fail(context.get("exception") or RuntimeError(str(context["message"])))

    get_debug = bool  # always off; asyncio asks for every future and task, and a type is the cheapest answer

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: every generator dropped while the loop ran was closed then."""
