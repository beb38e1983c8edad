"""An application's handler: a coroutine function, called on the loop, or an ordinary function, called in a thread.

Whoever settles records in a thread settles them on the loop: work on a lease is nobody's but its loop's.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from braid.client.records.record import Record
from braid.kernel import limits
from braid.kernel.errors import Invalid, checked_wait
from braid.kernel.ports import Tasks, Threads

if TYPE_CHECKING:
    from braid.client.delivery.partition_work import PartitionWork

Tell = Callable[[Callable[[], None]], object]


class Handled(Protocol):
    """What a handler is called with: a record or a batch."""

    @property
    def work(self) -> "PartitionWork":
        """Whose it is."""
        ...

    def ack(self) -> None:
        """All that was not settled is done."""
        ...

    def abandon(self) -> None:
        """All that was not settled is handled by somebody else."""
        ...


X = TypeVar("X", bound=Handled)


class ThreadRecord(Record):
    """A record that is settled from any thread; its fate is decided some time soon."""

    __slots__ = ("_record", "_tell")

    def __init__(self, record: Record, tell: Tell) -> None:
        """Settles `record` itself, so that who handed it out knows of it; `tell` runs a function on its loop."""
        super().__init__(record.raw, record.work)
        self._record = record
        self._tell = tell

    @property
    def settled(self) -> bool:
        """See `braid.Record.settled`."""
        return self._record.settled

    def ack(self) -> None:
        """See `braid.Record.ack`."""
        self._tell(self._record.ack)

    def retry(self, after_seconds: float = 0.0) -> None:
        """See `braid.Record.retry`; what is wrong with the wait is raised here, where somebody hears of it."""
        self._tell(partial(self._record.retry, checked_wait(after_seconds)))

    def postpone(self, after_seconds: float) -> None:
        """See `braid.Record.postpone`."""
        self._tell(partial(self._record.postpone, checked_wait(after_seconds)))

    def reject(self, reason: str) -> None:
        """See `braid.Record.reject`."""
        self._tell(lambda: self._record.reject(reason))

    def dead_letter(self, error: BaseException | str) -> None:
        """See `braid.Record.dead_letter`."""
        self._tell(lambda: self._record.dead_letter(error))


def is_asynchronous(handler: Callable[..., object]) -> bool:
    """Whether a handler is a coroutine function, or an object with one as its `__call__`."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


class InThreads(Generic[X]):
    """Makes a coroutine function of an ordinary one."""

    def __init__(self, handler: Callable[[X], object], for_thread: Callable[[X, Tell], X], threads: Threads) -> None:
        """`for_thread` makes of what is handled something that may be settled in a thread."""
        self._handler = handler
        self._for_thread = for_thread
        self._threads = threads
        self._tell = asyncio.get_running_loop().call_soon_threadsafe

    async def __call__(self, item: X) -> None:
        """Calls the handler in a thread. That cannot be cancelled: this ends when the handler does, and as it does."""
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
    """The threads a handler needs; None for a coroutine function. Raises `Invalid` for more than may be."""
    if is_asynchronous(handler):
        return None
    if count > limits.HANDLER_THREADS_MAX:
        raise Invalid(
            f"{count} handlers at once would be as many threads; at most {limits.HANDLER_THREADS_MAX} may be",
            field="concurrency",
            remedy="lower it, or give a coroutine function",
        )
    return tasks.threads(count, "braid-handler")
