"""Counts the records handed out since other tasks of the event loop had a turn."""

import asyncio
from functools import cached_property

from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS, RECORDS_BETWEEN_YIELDS_MAX, YIELD_SECONDS


class Streak:
    """Says when everything else must have a turn: after a few milliseconds, looked at every so many records.

    A count alone would leave those who consume little where everything else takes long: so many records a turn.
    """

    def __init__(self) -> None:
        self._count = 0
        self._look_at = RECORDS_BETWEEN_YIELDS  # the count at which to check the time next
        self._rested_at = 0.0

    def add(self, count: int) -> None:
        """Counts records that are handed out.

        A callback is scheduled that ends the streak once other tasks had a turn.
        """
        if not self._count:
            self._rested_at = self._loop.time()
            self._loop.call_soon(self.end)
        self._count += count

    def end(self) -> None:
        """Ends the streak: other tasks had a turn."""
        self._count, self._look_at = 0, RECORDS_BETWEEN_YIELDS

    @property
    def until_look(self) -> int:
        """How many more records may be handed out before the time is checked."""
        left = self._look_at - self._count
        return left if left > 0 else 0  # `max` takes longer, for each record

    def must_end(self) -> bool:
        """Whether other tasks must have a turn."""
        if self._count < self._look_at:
            return False
        lasted = self._loop.time() - self._rested_at
        if self._count >= RECORDS_BETWEEN_YIELDS_MAX or lasted >= YIELD_SECONDS:
            return True
        self._look_at = self._count + RECORDS_BETWEEN_YIELDS
        return False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The consumer's event loop, kept because asking which one runs is a system call up to Python 3.11."""
        return asyncio.get_running_loop()
