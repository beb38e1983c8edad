"""How many records were handed out since everything else on the event loop had its turn."""

import asyncio
from functools import cached_property

from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS, RECORDS_BETWEEN_YIELDS_MAX, YIELD_SECONDS


class Streak:
    """Says when everything else must have a turn: after a few milliseconds, looked at every so many records.

    A count alone would leave those who consume little where everything else takes long: so many records a turn.
    """

    def __init__(self) -> None:
        self._count = 0
        self._look_at = RECORDS_BETWEEN_YIELDS  # of the count: when to look at the time next
        self._rested_at = 0.0

    def add(self, count: int) -> None:
        """So many are handed out. What is called soon from here is called once everything else had its turn."""
        if not self._count:
            self._rested_at = self._loop.time()
            self._loop.call_soon(self.end)
        self._count += count

    def end(self) -> None:
        """Everything else had its turn."""
        self._count, self._look_at = 0, RECORDS_BETWEEN_YIELDS

    @property
    def until_look(self) -> int:
        """How many more records until the time is looked at."""
        left = self._look_at - self._count
        return left if left > 0 else 0  # `max` takes longer, for each record

    def must_end(self) -> bool:
        """Whether everything else must have a turn."""
        if self._count < self._look_at:
            return False
        lasted = self._loop.time() - self._rested_at
        if self._count >= RECORDS_BETWEEN_YIELDS_MAX or lasted >= YIELD_SECONDS:
            return True
        self._look_at = self._count + RECORDS_BETWEEN_YIELDS
        return False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The consumer's, for good: asking which one runs is a system call, up to Python 3.11."""
        return asyncio.get_running_loop()
