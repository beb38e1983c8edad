"""An application's handler: a coroutine function, called on the loop, or an ordinary function, called in a thread.

A record that is settled in a thread is settled on the loop, because only the loop touches the work on a lease.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Generic

from braid.client.handling.cpu_samples import CpuSamples
from braid.client.records.handled import Tell, X
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import HANDLER_THREADS_MAX
from braid.kernel.ports import Tasks, Threads

if TYPE_CHECKING:
    pass


def is_asynchronous(handler: Callable[..., object]) -> bool:
    """Whether a handler is a coroutine function, or an object with one as its `__call__`."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


class InThreads(Generic[X]):
    """Turns an ordinary function into a coroutine function that runs it in a thread."""

    def __init__(
        self,
        handler: Callable[[X], object],
        for_thread: Callable[[X, Tell], X],
        threads: Threads,
        samples: CpuSamples | None = None,
    ) -> None:
        """`for_thread` wraps a record or batch so that it may be settled in a thread; `samples` measures the calls."""
        self._handler = handler if samples is None else partial(samples.call, handler)
        self._for_thread = for_thread
        self._threads = threads
        self._tell = asyncio.get_running_loop().call_soon_threadsafe

    async def __call__(self, item: X) -> None:
        """Calls the handler in a thread.

        A thread cannot be cancelled, so this ends when the handler does, with its result.
        """
        given = self._for_thread(item, self._tell)
        called = asyncio.ensure_future(self._threads.run(partial(copy_context().run, self._call, given)))
        while not called.done():
            with contextlib.suppress(asyncio.CancelledError):  # whoever cancelled looks at the task
                await asyncio.wait((called,))
        result = called.result()
        if inspect.isawaitable(result):  # an ordinary function around a coroutine
            await result

    def _call(self, given: X) -> object:
        """Calls the handler, in its thread. No future can hold a `StopIteration`: it becomes what PEP 479 makes of it.

        That is a `RuntimeError`, as in coroutine functions.
        """
        try:
            return self._handler(given)
        except StopIteration as error:
            raise RuntimeError("the handler raised StopIteration") from error


def open_threads(tasks: Tasks, handler: Callable[..., object], count: int) -> Threads | None:
    """Opens the threads that a handler needs; None for a coroutine function. Raises `Invalid` for too many."""
    if is_asynchronous(handler):
        return None
    if count > HANDLER_THREADS_MAX:
        raise Invalid(
            f"{count} handlers at once need {count} threads, more than {HANDLER_THREADS_MAX}",
            field="concurrency",
            remedy="lower it, or give a coroutine function",
        )
    return tasks.threads(count, "braid-handler")
