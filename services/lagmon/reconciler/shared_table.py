"""One table of lag for all calls at about the same time, because computing it takes long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from braid.kernel.limits.lagmon.sampling import (
    LAG_TABLE_LATE_FACTOR,
    LAG_TABLE_LATE_SECONDS,
    LAG_TABLE_SECONDS,
    LAG_TABLE_SLOW_SECONDS,
)
from braid.kernel.ports import Host
from services.lagmon.policy import table_seconds

T = TypeVar("T")


class SharedTable(Generic[T]):
    """Computes a table when it is asked for and the last one is too old; one at a time.

    Attributes:
        computing: Held while a table is computed; whoever holds it may change what tables are computed from.
    """

    def __init__(self, host: Host, compute: Callable[[], Awaitable[T]]) -> None:
        """`compute` makes a table as of the moment of its call."""
        self._clock = host.clock
        self._tasks = host.tasks
        self._compute = compute
        self.computing = asyncio.Lock()
        self._known: T | None = None
        self._as_of = 0.0
        self._took_seconds = 0.0

    async def present(self, age_seconds: float) -> T:
        """Returns a table at most `age_seconds` old, or older if computing one takes long: see `table_seconds`."""
        async with self.computing:
            known = self._known
            if known is None or self._is_old(age_seconds):
                begun = self._clock.elapsed()
                known = await self._compute()
                self._known, self._as_of, self._took_seconds = known, begun, self._clock.elapsed() - begun
            return known

    async def last(self) -> T:
        """Returns a table as `present` does; if computing one takes long, the last one, unless that is old.

        A newer one is then computed in the background.
        """
        slow = self._took_seconds >= LAG_TABLE_SLOW_SECONDS
        late = max(LAG_TABLE_LATE_SECONDS, self._took_seconds * LAG_TABLE_LATE_FACTOR)
        if self._known is None or not slow or self._age() >= late:
            return await self.present(LAG_TABLE_SECONDS)
        return self._outdated(self._known)

    async def any(self) -> T:
        """Returns the last table however old it is, unless the next one is likely to be there at once."""
        slow = self.computing.locked() or self._took_seconds >= LAG_TABLE_SLOW_SECONDS
        if self._known is not None and slow:
            return self._outdated(self._known)
        return await self.present(LAG_TABLE_SECONDS)

    def _outdated(self, known: T) -> T:
        """Returns the last table, and begins to compute the next one if it is old."""
        if self._is_old(LAG_TABLE_SECONDS) and not self.computing.locked():
            self._tasks.spawn(self._refresh(), "table of lag")
        return known

    async def _refresh(self) -> None:
        await self.present(LAG_TABLE_SECONDS)

    def _is_old(self, age_seconds: float) -> bool:
        return self._age() >= table_seconds(age_seconds, self._took_seconds)

    def _age(self) -> float:
        return self._clock.elapsed() - self._as_of
