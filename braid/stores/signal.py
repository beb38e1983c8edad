"""A signal that wakes the tasks of one loop that wait for a change."""

import asyncio


class Signal:
    """Wakes every waiting task at the next `notify`; a notification without waiting tasks is forgotten."""

    def __init__(self) -> None:
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._next = 0

    def notify(self) -> None:
        """Wakes all who wait now."""
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_seconds: float | None = None) -> None:
        """Waits for the next `notify`, or until the timeout."""
        self._next += 1
        mine, waiter = self._next, asyncio.get_running_loop().create_future()
        self._waiters[mine] = waiter
        try:
            await asyncio.wait([waiter], timeout=timeout_seconds)
        finally:
            del self._waiters[mine]
