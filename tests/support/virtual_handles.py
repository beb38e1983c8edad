"""Futures, tasks and callbacks of the loop on virtual time: repeatable hashes, and no more than it needs."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class SequencingLoop(asyncio.BaseEventLoop):
    """A loop that numbers what it makes."""

    def next_sequence(self) -> int:
        """The next number of creation, shared by timers, futures and tasks."""
        raise NotImplementedError


class SequencedFuture(asyncio.Future[T]):
    """Hashes to a number, so that sets of futures iterate alike in every run. Few are ever hashed."""

    _sequence = 0

    def __hash__(self) -> int:
        if not self._sequence:
            loop = self.get_loop()
            assert isinstance(loop, SequencingLoop), "no other loop makes these"
            self._sequence = loop.next_sequence()
        return self._sequence


class SequencedTask(asyncio.Task[T]):
    """Hashes to its number of creation, so that sets of tasks iterate alike in every run."""

    def __init__(
        self, coro: Coroutine[Any, Any, T], loop: "SequencingLoop", name: object, context: Context | None
    ) -> None:
        self._sequence = loop.next_sequence()  # asyncio hashes the task while it is being made
        super().__init__(coro, loop=loop, name=str(name or f"task-{self._sequence}"), context=context)

    def __hash__(self) -> int:
        return self._sequence


class Handle(asyncio.TimerHandle):
    """A callback, without asyncio's bookkeeping for a debug mode that is never on here; the loop knows its time."""

    __slots__ = ()
    _callback: Callable[..., object] | None

    def __init__(self, callback: Callable[..., object], args: Sequence[object], context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context

    def cancel(self) -> None:
        """See `asyncio.Handle`."""
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        """See `asyncio.Handle`."""
        return self._callback is None

    def __repr__(self) -> str:
        return f"<{self._callback or 'cancelled'}>"


def tell_end(waiting: asyncio.Future[None], ended: asyncio.Task[Any]) -> None:
    """Ends a wait for a task's end, unless it was given up."""
    if not waiting.done():
        waiting.set_result(None)
