"""Keyed tasks of one term of leadership, and a signal that many tasks can wait for. No rules."""

import asyncio
from collections.abc import Callable, Coroutine

from braid.kernel.ports import Host, Task


class KeyedTasks:
    """Runs at most one task per key, and ends them all with the term."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks: dict[str, Task] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def busy(self, key: str) -> bool:
        """Whether the key's task is still running."""
        return key in self._tasks

    def start(self, key: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Starts the key's task, unless one runs."""
        if key not in self._tasks:
            self._tasks[key] = self._host.tasks.spawn(self._run(key, work), key)

    async def _run(self, key: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
        try:
            await work()
        finally:
            self._tasks.pop(key, None)

    async def stop(self) -> None:
        """Cancels all tasks and waits until they ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.ended()
        self._tasks.clear()


class Signal:
    """Wakes every task that waits for it. Take `next()` before reading the state it announces, so that no change is
    missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def fire(self) -> None:
        """Announces a change to all waiters."""
        fired, self._event = self._event, asyncio.Event()
        fired.set()

    def next(self) -> asyncio.Event:
        """An event that the next `fire` sets."""
        return self._event


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, at most this long; returns whether it was set."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return False
    return True
