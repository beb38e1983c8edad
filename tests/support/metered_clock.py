"""A clock that work moves, so that a test can say how long a loop was held without measuring time."""

import asyncio


class MeteredClock:
    """A clock that only `work` moves.

    Attributes:
        longest: Seconds of the most work between two turns of other tasks.
        turns: How often others got their turn.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self.turns = 0
        self._now = 100.0
        self._turned_at = self._now

    def work(self, seconds: float) -> None:
        """Takes so long without a turn for others."""
        self._now += seconds
        self.longest = max(self.longest, self._now - self._turned_at)

    def now_ms(self) -> int:
        """See `Clock`."""
        return round(self._now * 1_000)

    def elapsed(self) -> float:
        """See `Clock`."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """See `Clock`; time passes by work alone."""
        self.turns += 1
        await asyncio.sleep(0)
        self._turned_at = self._now
