"""The loop that keeps lag: samples the table once a second, closes a step every ten, writes it, and answers from it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from structlog.stdlib import BoundLogger

from braid.kernel.limits.lagmon.kept_lag import (
    KEPT_LAG_BYTES,
    KEPT_LAG_MEMORY_BYTES,
    KEPT_LAG_PAGE_ROWS,
    KEPT_LAG_SAMPLE_SECONDS,
    KEPT_LAG_TABLE_SECONDS,
    KEPT_LAG_TREND_SECONDS,
    KEPT_LAG_TREND_STEPS,
)
from braid.kernel.limits.lagmon.sampling import LAG_PAUSE_FACTOR
from braid.kernel.ports import Host
from braid.kernel.timing.slices import in_turns
from services.lagmon.kept.chunks import chunk_of
from services.lagmon.kept.files import Files, MemoryFiles
from services.lagmon.kept.past import PastRows, Stretch, read_past, stretches
from services.lagmon.kept.reading import Page, Query, read_page
from services.lagmon.kept.rows import Series, SeriesKey, Step
from services.lagmon.kept.sampling import Sample, Sampler
from services.lagmon.kept.store import KeptStore, sum_of
from services.lagmon.kept.trends import Trend, Trends
from services.lagmon.model.lag import Filter, LagRow
from services.lagmon.policy import Now

Hear = Callable[[Step], None]


class LagTable(Protocol):
    """The lag of all groups at one instant; see `reconciler.term.Table`."""

    @property
    def rows(self) -> Sequence[LagRow]: ...
    @property
    def now(self) -> Now: ...
    @property
    def catching_up(self) -> Collection[str]: ...


class KeptPage(NamedTuple):
    """Series of a range, and the start of the oldest step that this replica keeps at that resolution."""

    page: Page
    since_ms: int | None


class Counts(NamedTuple):
    """Counts of keeping: series of the last sample, rows without room, and steps of the wall clock."""

    series: int
    left_out: int
    clock_steps: int


class Keeper:
    """Keeps the lag that one replica sees."""

    def __init__(
        self,
        host: Host,
        table: Callable[[float], Awaitable[LagTable]],
        log: BoundLogger,
        files: Files | None = None,
        bytes_max: int = KEPT_LAG_BYTES,
    ) -> None:
        """Prepares keeping; without `files` in memory alone, which is bounded tighter.

        `table` returns the lag of all groups, at most so many seconds old.
        """
        self._host = host
        self._table = table
        self._log = log
        kept_in = files or MemoryFiles()
        most = min(bytes_max, KEPT_LAG_MEMORY_BYTES) if kept_in.bounded_by_memory else bytes_max
        self.store = KeptStore(kept_in, most)
        self.counts = Counts(0, 0, 0)
        self._sampler = Sampler()
        self._recent: deque[tuple[float, Step]] = deque(maxlen=KEPT_LAG_TREND_STEPS)
        self._trends = Trends()
        self._listeners: list[Hear] = []
        self._restored = asyncio.Event()
        self._reading = asyncio.Lock()
        self._sampled: Now | None = None
        self._sample_before: Sample | None = None
        self._told = ""

    def listen(self, hear: Hear) -> None:
        """Calls `hear` with every step that is closed from now on, in order."""
        self._listeners.append(hear)

    async def run(self) -> None:
        """Keeps until cancelled."""
        clock = self._host.clock
        await self._host.tasks.run_blocking(partial(self.store.restore, clock.now_ms()))
        self._tell_trouble()
        self._restored.set()
        while True:
            began = clock.elapsed()
            step = await self._sample()
            if step is not None:
                await self._keep(step)
            took = clock.elapsed() - began
            await clock.sleep(max(KEPT_LAG_SAMPLE_SECONDS - took, took * LAG_PAUSE_FACTOR))

    # --- what is asked

    async def page(self, query: Query, after: SeriesKey | None, series_max: int) -> KeptPage:
        """Reads one page of series. One page is read at a time, so that memory stays bounded."""
        await self._restored.wait()
        async with self._reading:
            kept = self.store.resolution(query.step_ms, query.since_ms)
            sources = self.store.sources(kept, query)
            work = partial(read_page, sources, query, after, series_max)
            return KeptPage(await self._host.tasks.run_blocking(work), kept.since_ms)

    async def read(self, wanted: Filter, since_ms: int, until_ms: int, step_ms: int) -> Sequence[Series]:
        """Reads all series that match. `since_ms` and `until_ms` are starts of steps, the second left out."""
        query = Query(wanted.group, wanted.stream, wanted.lane, since_ms, until_ms, step_ms)
        size = max(1, KEPT_LAG_PAGE_ROWS * step_ms // max(step_ms, until_ms - since_ms))
        found: list[Series] = []
        after: SeriesKey | None = None
        while True:
            page = (await self.page(query, after, size)).page
            found += page.series
            if not page.more:
                return found
            after = page.series[-1].key

    async def read_past(self, keys: Sequence[SeriesKey], until_ms: int, take: Callable[[PastRows], None]) -> None:
        """Passes all kept rows of some series to `take`, oldest first and in a thread, up to a time.

        What was kept before a start is there once its files were read.
        """
        await self._restored.wait()

        def read(parts: Sequence[Stretch]) -> None:
            for rows in read_past(parts, keys):
                take(rows)

        async with self._reading:
            await self._host.tasks.run_blocking(partial(read, stretches(self.store, until_ms)))

    def kept_since_ms(self, step_ms: int) -> int | None:
        """Returns the start of the oldest step of the resolution that answers rows of a length; None for none."""
        return self.store.resolution(step_ms, 0).since_ms

    def trend(self, key: SeriesKey) -> Trend | None:
        """Returns how a lane's undone records changed over the last minute; None if that is not known."""
        oldest = self._host.clock.elapsed() - KEPT_LAG_TREND_SECONDS
        steps = [step for at, step in self._recent if at >= oldest]
        if self._trends.steps != steps:
            self._trends = Trends(steps)
        return self._trends.of(key)

    # --- how

    async def _sample(self) -> Step | None:
        table = await self._table(KEPT_LAG_TABLE_SECONDS)
        if table.now == self._sampled:
            return None
        self._sampled = table.now
        sample = Sample(table.now, table.catching_up, self._sample_before)
        await in_turns(self._host.clock, sample.taking(table.rows))
        self._sample_before = sample
        self.counts = self.counts._replace(series=len(sample.lanes), left_out=sample.left_out)
        return await in_turns(self._host.clock, self._sampler.observing(sample))

    async def _keep(self, step: Step) -> None:
        blocking = self._host.tasks.run_blocking
        if step.stepped:
            self.counts = self.counts._replace(clock_steps=self.counts.clock_steps + 1)
            self._log.warning("the wall clock stepped", time_ms=step.time_ms)
        self._recent.append((self._host.clock.elapsed(), step))
        for hear in self._listeners:
            hear(step)
        closed = self.store.add(step)
        if closed is not None:
            self.store.add_sum(await blocking(lambda: sum_of(closed.name, chunk_of(closed.steps))))
        gone = self.store.settle(await blocking(self.store.write))
        if gone:
            await blocking(partial(self.store.remove, gone))
        self._tell_trouble()

    def _tell_trouble(self) -> None:
        """Logs when the disk begins to refuse writes, and when it takes them again."""
        trouble = self.store.health.trouble
        if trouble != self._told:
            self._log.warning("keeping lag", trouble=trouble or "none any more: the disk takes rows again")
            self._told = trouble
