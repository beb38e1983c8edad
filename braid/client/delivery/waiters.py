"""Handlers that wait for a record, by lane, and the order in which they are woken. No I/O."""

import asyncio
from collections import deque
from collections.abc import Callable


class Waiters:
    """Handlers that wait for records of any lane, and by lane those that take only that lane's.

    Attributes:
        of_any_lane: Whether somebody waits who takes records of any lane.
    """

    __slots__ = ("_any", "_keepers", "of_any_lane")

    def __init__(self) -> None:
        """Begins without waiting handlers."""
        self._any: deque[asyncio.Future[None]] = deque()
        self._keepers: dict[str, deque[asyncio.Future[None]]] = {}
        self.of_any_lane = False

    async def wait(self, lane: str, not_taken: Callable[[], None]) -> None:
        """Waits to be woken for a lane's records or, with an empty name, for records of any lane.

        `not_taken` is called if a handler that was woken is cancelled before it could take its record.
        """
        waiting = self._keepers.setdefault(lane, deque()) if lane else self._any
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(woken)
        self.of_any_lane = bool(self._any)
        try:
            await woken
        except asyncio.CancelledError:
            if woken.done() and not woken.cancelled():
                not_taken()
            elif woken in waiting:
                waiting.remove(woken)
                self.of_any_lane = bool(self._any)
            raise

    def wake(self, lane: str = "", count: int = 1) -> None:
        """Wakes up to `count` handlers that may take a lane's records; first those that take no others."""
        for waiting in (self._keepers.get(lane), self._any):
            while count and waiting and _wake_first(waiting):
                count -= 1
        self.of_any_lane = bool(self._any)

    def wake_all(self) -> None:
        """Wakes every handler that waits."""
        for waiting in (self._any, *self._keepers.values()):
            while _wake_first(waiting):
                pass
        self.of_any_lane = False


def _wake_first(waiting: deque[asyncio.Future[None]]) -> bool:
    """Wakes the first handler in a queue; returns whether there was one."""
    while waiting:
        woken = waiting.popleft()
        if not woken.done():
            woken.set_result(None)
            return True
    return False
