"""The newest events of many histories, now or up to a moment, found without reading all of them."""

import asyncio
from collections.abc import Sequence
from heapq import nlargest

from braid.kernel.limits.runtime import LOADS_AT_ONCE
from braid.kernel.ports import HistoryId
from braid.runtime.archive.line import Gap
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.histories.past import Listed


async def newest_events(aggregates: Aggregates, prefix: str, most: int, until_ms: int = 0) -> Listed:
    """Lists the newest events of the histories under a prefix, newest first; those up to a moment if `until_ms` is set.

    The newest `most` events are in the `most` histories that were appended to last, and most often in the first few of
    them: those are read first, until the next one ended before the oldest event that is wanted. Up to a moment, every
    history that goes on after it is read first, for it may end there with any event. A leader's clock that was set back
    hides what it appended before from this, not from lists of single histories.

    Raises:
        CorruptHistory: an event does not decode.
        Unavailable: the archive does not answer.
    """
    found: list[RecordedEvent] = []
    gaps: list[Gap] = []
    wanted = _last_appended_first(aggregates, prefix, most, until_ms)
    for start in range(0, len(wanted), LOADS_AT_ONCE):
        some = wanted[start : start + LOADS_AT_ONCE]
        if len(found) >= most and 0 < aggregates.pasts.last_ms(some[0]) < found[most - 1].context.now_ms:
            break
        listing = (aggregates.listed(each, 0, most, until_ms=until_ms, latest=most) for each in some)
        for listed in await asyncio.gather(*listing):
            found += listed.events
            gaps += listed.gaps
        found.sort(key=lambda each: (-each.context.now_ms, each.history, -each.sequence))
        del found[most:]
    return Listed(found, gaps)


def _last_appended_first(aggregates: Aggregates, prefix: str, most: int, until_ms: int) -> Sequence[HistoryId]:
    """Histories whose last append has no known time or was after the moment, then the most recently appended ones."""
    histories, last_ms = aggregates.histories(prefix), aggregates.pasts.last_ms
    first, later = list[HistoryId](), list[HistoryId]()
    for each in histories:
        at_ms = last_ms(each)
        (first if not at_ms or 0 < until_ms < at_ms else later).append(each)
    return [*first, *nlargest(most, later, key=last_ms)]
