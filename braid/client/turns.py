"""Long work in one coroutine, in turns: everything else on the event loop gets its own in between."""

import asyncio

from braid.kernel import limits
from braid.kernel.ports import Clock


class Turns:
    """Counts what was done without waiting: after a few milliseconds, or many records, others have a turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin()

    async def done(self) -> None:
        """One record was worked on; waits for others where that was enough of them."""
        self._count += 1
        if self._count % limits.RECORDS_BETWEEN_YIELDS:
            return
        lasted = self._clock.elapsed() - self._since
        if self._count >= limits.RECORDS_BETWEEN_YIELDS_MAX or lasted >= limits.YIELD_SECONDS:
            await asyncio.sleep(0)
            self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._since = self._clock.elapsed()
