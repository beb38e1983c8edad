"""The newest events of many histories that match a filter, now or up to a moment, found without reading all of them."""

import asyncio
from collections.abc import Sequence
from heapq import nlargest
from typing import NamedTuple

from braid.api.mesh.v1.event_pb2 import EventFilter
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import EVENTS_FIRST_READ, EVENTS_READ_GROWTH, EVENTS_SEARCHED_MAX, LOADS_AT_ONCE
from braid.kernel.ports import HistoryId
from braid.runtime.archive.line import Gap
from braid.runtime.audit.serving import matches
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import RecordedEvent


class Newest(NamedTuple):
    """The newest events that match, newest first.

    Attributes:
        events: The events.
        gaps: What is not kept of the histories that were read, as far back as they were read.
        since_ms: All matching events from this moment on are included; 0 if none was left out.
    """

    events: Sequence[RecordedEvent]
    gaps: Sequence[Gap]
    since_ms: int


async def newest_events(
    aggregates: Aggregates, prefix: str, most: int, until_ms: int = 0, wanted: EventFilter | None = None
) -> Newest:
    """Lists the newest events under a prefix that match; those up to a moment if `until_ms` is set.

    Without a filter, the newest `most` events are in the `most` histories that were appended to last. Most often they
    are in the first few of those. So these are read first, until the next one ended before the oldest event that is
    wanted. With a filter, histories are read further back, until enough was found or a bounded number of events was
    looked at. Up to a moment, the end there of every history that goes on after it is read first, for that may be any
    event. A leader's clock that was set back hides what it appended before from this, not from lists of single
    histories.

    Raises:
        CorruptHistory: an event does not decode.
        Unavailable: the archive does not answer.
    """
    wanted = wanted or EventFilter()
    order = _last_appended_first(aggregates, prefix, until_ms, None if wanted.actor else most + 1)
    search = _Search(aggregates, most, until_ms, wanted)
    for start in range(0, len(order), LOADS_AT_ONCE):
        some = order[start : start + LOADS_AT_ONCE]
        if search.ends_before(aggregates.pasts.last_ms(some[0])):
            break
        await asyncio.gather(*map(search.read, some))
        search.trim()
    return search.found()


class _Search:
    """Reads histories from their ends, and knows how far back all that matches was found."""

    def __init__(self, aggregates: Aggregates, most: int, until_ms: int, wanted: EventFilter) -> None:
        self._aggregates = aggregates
        self._most = most + 1  # the extra one is the newest that is left out
        self._until_ms = until_ms
        self._wanted = wanted
        self._events: list[RecordedEvent] = []
        self._gaps: dict[tuple[HistoryId, int], Gap] = {}
        self._looked = 0  # number of events
        self._enough_ms = 0  # enough events were found that are not older
        self._unread_ms = 0  # before the end of this moment, not everything was looked at

    @property
    def _spent(self) -> bool:
        return self._looked >= EVENTS_SEARCHED_MAX

    def ends_before(self, last_ms: int) -> bool:
        """Whether histories that ended by `last_ms` need not be read; 0 stands for an unknown moment."""
        if not last_ms or 0 < self._until_ms <= last_ms:
            return False
        if last_ms < max(self._wanted.since_ms, self._enough_ms):
            return True
        if self._spent:
            self._unread_ms = max(self._unread_ms, last_ms)
        return self._spent

    async def read(self, history: HistoryId) -> None:
        """Reads a history from its end, or from the moment, as far back as is needed."""
        first = before = matching = 0
        size = min(self._most, EVENTS_FIRST_READ)
        while True:
            listed = await self._aggregates.listed(
                history, first, size, until_ms=self._until_ms, latest=0 if first else size
            )
            events = [each for each in listed.events if not before or each.sequence < before]
            found = [each for each in events if matches(self._wanted, each)]
            self._gaps.update(((history, gap.last), gap) for gap in listed.gaps)  # seen again, it begins earlier
            self._events += found
            self._looked += len(events)
            matching += len(found)
            before = events[0].sequence if events else first
            if before <= 1 or (events and self._stops(events[0].context.now_ms, matching)):
                return
            size = min(EVENTS_READ_GROWTH * size, PAGE_SIZE_MAX)
            first = max(1, before - size)

    def _stops(self, oldest_ms: int, matching: int) -> bool:
        """Whether a history needs no further reading, given the time of the oldest event that was read."""
        if matching >= self._most or oldest_ms < max(self._wanted.since_ms, self._enough_ms):
            return True
        if self._spent:
            self._unread_ms = max(self._unread_ms, oldest_ms)
        return self._spent

    def trim(self) -> None:
        """Forgets what is older than the newest that are wanted."""
        self._events.sort(key=lambda each: (-each.context.now_ms, each.history, -each.sequence))
        del self._events[self._most :]
        if len(self._events) == self._most:
            self._enough_ms = self._events[-1].context.now_ms

    def found(self) -> Newest:
        """Returns the events of the time that was searched in all histories."""
        left_ms = self._unread_ms
        if len(self._events) == self._most:
            left_ms = max(left_ms, self._events.pop().context.now_ms)
        events = [each for each in self._events if each.context.now_ms > self._unread_ms]
        return Newest(events, list(self._gaps.values()), left_ms + 1 if left_ms else 0)


def _last_appended_first(aggregates: Aggregates, prefix: str, until_ms: int, most: int | None) -> Sequence[HistoryId]:
    """Histories whose last append has no known time or was after the moment, then the most recently appended ones."""
    first, later = list[HistoryId](), list[HistoryId]()
    for each in aggregates.histories(prefix):
        at_ms = aggregates.pasts.last_ms(each)
        (first if not at_ms or 0 < until_ms <= at_ms else later).append(each)
    return [*first, *nlargest(len(later) if most is None else most, later, key=aggregates.pasts.last_ms)]
