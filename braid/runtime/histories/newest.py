"""The newest events of many histories, found without reading all of them."""

import asyncio
from heapq import nlargest

from braid.kernel.limits.runtime import LOADS_AT_ONCE
from braid.kernel.ports import HistoryId
from braid.runtime.archive.line import Gap
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.histories.past import Listed


async def newest_events(aggregates: Aggregates, prefix: str, most: int) -> Listed:
    """Lists the newest events of the histories under a prefix, newest first.

    The newest `most` events are in the `most` histories that were appended to last, and most often in the first few of
    them: those are read first, until the next one ended before the oldest event that is wanted. A leader's clock that
    was set back hides what it appended before from this, not from lists of single histories.

    Raises:
        CorruptHistory: an event does not decode.
        Unavailable: the archive does not answer.
    """
    found: list[RecordedEvent] = []
    gaps: list[Gap] = []
    wanted = _last_appended_first(aggregates, prefix, most)
    for start in range(0, len(wanted), LOADS_AT_ONCE):
        some = wanted[start : start + LOADS_AT_ONCE]
        if len(found) >= most and 0 < aggregates.pasts.last_ms(some[0]) < found[most - 1].context.now_ms:
            break
        for listed in await asyncio.gather(*(aggregates.listed(each, 0, most, latest=most) for each in some)):
            found += listed.events
            gaps += listed.gaps
        found.sort(key=lambda each: (-each.context.now_ms, each.history, -each.sequence))
        del found[most:]
    return Listed(found, gaps)


def _last_appended_first(aggregates: Aggregates, prefix: str, most: int) -> list[HistoryId]:
    """Histories whose last append has no known time, then the most recently appended ones."""
    histories, last_ms = aggregates.histories(prefix), aggregates.pasts.last_ms
    unknown = [each for each in histories if not last_ms(each)]
    return [*unknown, *nlargest(most, (each for each in histories if last_ms(each)), key=last_ms)]
