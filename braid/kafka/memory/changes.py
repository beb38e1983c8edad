"""Changes of a cluster in memory, and the tasks that wait for them."""

import asyncio
from collections.abc import Callable
from functools import partial


class Changes:
    """Counts changes, and wakes the tasks that wait for one.

    Attributes:
        changes: So many times anything changed.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._waits = 0
        self._waiting: dict[int, tuple[Callable[[], bool], Callable[[], object]]] = {}

    def when(self, condition: Callable[[], bool], then: Callable[[], object]) -> Callable[[], None]:
        """Calls back once, at the first change (a record, a fault, a topic) after which a condition holds.

        Returns what ends the wait.
        """
        self._waits += 1
        number = self._waits
        self._waiting[number] = (condition, then)
        return lambda: _drop(self._waiting, number)

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits for a change that makes a condition hold. Returns whether one did within so many seconds."""
        if condition():
            return True
        loop = asyncio.get_running_loop()
        came: asyncio.Future[bool] = loop.create_future()
        forget = self.when(condition, partial(_settle, came, True))
        late = loop.call_later(seconds, _settle, came, False)
        try:
            return await came
        finally:
            forget()
            late.cancel()

    def notify(self) -> None:
        """Notes a change: every waiting condition is checked."""
        self.changes += 1
        for number, (condition, then) in tuple(self._waiting.items()):
            if condition():
                self._waiting.pop(number, None)
                then()


def _settle(waiting: asyncio.Future[bool], answer: bool) -> None:
    if not waiting.done():
        waiting.set_result(answer)


def _drop(waiting: dict[int, tuple[Callable[[], bool], Callable[[], object]]], number: int) -> None:
    waiting.pop(number, None)
