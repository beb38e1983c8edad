"""Waiting between attempts: exponential, jittered, bounded. No decisions about what to attempt."""

from braid.kernel.limits.runtime import STORE_RETRY_SECONDS
from braid.kernel.ports import Host


class Backoff:
    """Grows from the first to the longest wait; each wait is drawn between half and all of it."""

    def __init__(self, host: Host, bounds_seconds: tuple[float, float] = STORE_RETRY_SECONDS) -> None:
        self._host = host
        self._bounds = bounds_seconds
        self._next = bounds_seconds[0]

    def reset(self) -> None:
        """An attempt succeeded: begin with the shortest wait again."""
        self._next = self._bounds[0]

    async def wait(self, told_seconds: float = 0.0) -> None:
        """Waits before the next attempt, after the time that a refusal told."""
        wait, self._next = self._next, min(self._next * 2, self._bounds[1])
        await self._host.clock.sleep(told_seconds + self._host.randomness.uniform(wait / 2, wait))
