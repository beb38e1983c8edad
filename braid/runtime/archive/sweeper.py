"""Deletes expired objects from a replica's archive, at intervals.

Wall clocks step. So an object is deleted only after it has looked expired for `ARCHIVE_EXPIRY_SECONDS` of elapsed time,
at every look: a wrong clock that is corrected within a day deletes nothing.
"""

from collections import defaultdict
from collections.abc import Callable

from braid.archive import names
from braid.archive.expiry import expired
from braid.archive.names import BaseName, SegmentName
from braid.kernel.audit.calls import AUDIT
from braid.kernel.errors import Unavailable
from braid.kernel.limits.archive import ARCHIVE_EXPIRY_SECONDS, ARCHIVE_SWEEP_SECONDS
from braid.kernel.ports import Clock, HistoryId
from braid.kernel.timing.days import DAY_MS
from braid.runtime.archive.shelf import Shelf
from braid.runtime.telemetry import Metrics, logger


class Sweeper:
    """Applies an archive's retention; in a shared archive, only while this replica leads."""

    def __init__(
        self,
        shelf: Shelf,
        service: str,
        clock: Clock,
        metrics: Metrics,
        retention_days: float,
        leading: Callable[[], bool],
    ) -> None:
        self.retention_days = retention_days
        self._shelf = shelf
        self._prefixes = (f"{service}/", f"{AUDIT}/")
        self._clock = clock
        self._metrics = metrics
        self._leading = leading
        self._log = logger(service)
        self._since: dict[str, float] = {}

    async def run(self) -> None:
        """Sweeps once per interval until cancelled."""
        while True:
            try:
                await self.sweep()
            except Unavailable as error:
                self._log.warning("the archive cannot be swept", error=str(error))
            await self._clock.sleep(ARCHIVE_SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Deletes what has looked expired for long enough. Raises `Unavailable`."""
        listed = [each for prefix in self._prefixes for each in await self._shelf.store.list(prefix)]
        self._metrics.archive_bytes.set(sum(each.size_bytes for each in listed))
        if self._shelf.shared and not self._leading():
            return
        now = self._clock.elapsed()
        looks = self._expired([each.name for each in listed])
        self._since = {str(name): self._since.get(str(name), now) for name in looks}
        for name in looks:
            if now - self._since[str(name)] >= ARCHIVE_EXPIRY_SECONDS:
                await self._shelf.remove(name)

    def _expired(self, listed: list[str]) -> list[SegmentName | BaseName]:
        histories: dict[HistoryId, list[SegmentName | BaseName]] = defaultdict(list)
        for text in listed:
            name = names.parse(text)
            if name is not None:
                histories[name.history].append(name)
        before_ms = self._clock.now_ms() - int(self.retention_days * DAY_MS)
        return [name for found in histories.values() for name in expired(found, before_ms)]
