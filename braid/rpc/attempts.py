"""Counts the attempts of one call and waits between them."""

from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import BraidError, NotLeader
from braid.kernel.limits.rpc import REDIRECT_WAIT_SECONDS, REDIRECTS_MAX
from braid.kernel.ports import Host


class Attempts:
    """Counts a call's attempts and waits between them, within a deadline."""

    def __init__(self, host: Host, deadline: float) -> None:
        self._host = host
        self._deadline = deadline
        self.count = 0
        self._redirects = 0

    def left(self) -> float:
        return self._deadline - self._host.clock.elapsed()

    async def next(self, error: BraidError) -> None:
        """Returns when the next attempt may start, not before the error's own time; raises the error if no time is
        left for one."""
        self.count += 1
        if isinstance(error, NotLeader) and error.leader and self._redirects < REDIRECTS_MAX:
            self._redirects += 1
            return
        low, high = REDIRECT_WAIT_SECONDS
        longest = min(high, low * 2.0 ** min(self.count, 10))
        wait = retry_seconds(error) + self._host.randomness.uniform(longest / 2, longest)
        if wait >= self.left():
            raise error
        await self._host.clock.sleep(wait)
