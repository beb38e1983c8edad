"""States of many histories at one moment, and which of them are not known.

A history whose events are not kept becomes a gap: it hides nothing but itself. Reads only.
"""

import asyncio
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from braid.api.mesh.v1.event_pb2 import EventGap
from braid.kernel.errors import ArchiveDamaged, Exhausted, HistoryHole, Invalid
from braid.kernel.limits.archive import PAST_AHEAD_MS_MAX, PAST_LIST_HISTORIES, PAST_STATES_MAX
from braid.kernel.limits.runtime import LOADS_AT_ONCE
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Kind
from braid.runtime.histories.past import Past

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")


class PastStates(NamedTuple, Generic[S]):
    """States at a moment by id, in order; histories whose state then is not known; and the next page's token."""

    states: dict[str, S]
    gaps: list[EventGap]
    next_page_token: str = ""


def check_moment(at_ms: int, now_ms: int) -> None:
    """Raises `Invalid` for a moment that none can be asked about: none at all, or one that has not been."""
    if at_ms <= 0:
        raise Invalid("a moment is after the year 1970", field="at_ms")
    if at_ms > now_ms + PAST_AHEAD_MS_MAX:
        raise Invalid("this moment has not been yet", field="at_ms", remedy="ask for one before now")


async def states_at(aggregates: Aggregates, kind: Kind[S, C, E], at_ms: int) -> PastStates[S]:
    """The states of all histories of a kind at a moment, those of deleted objects included.

    Raises:
        Exhausted: there are too many to be read at once.
        Unavailable: the archive does not answer.
    """
    ids = [history.id for history in aggregates.histories(kind.name)]
    if len(ids) > PAST_STATES_MAX:
        message = f"{len(ids)} histories of {kind.name}s are more than the {PAST_STATES_MAX} that are read at once"
        raise Exhausted(message, field="at_ms", remedy=f"ask for one {kind.name} at a time")
    return await _read(aggregates, kind, ids, at_ms)


async def states_page(aggregates: Aggregates, kind: Kind[S, C, E], at_ms: int, size: int, token: str) -> PastStates[S]:
    """The same of the histories after a token, by id; a page reads a bounded number of them.

    Raises:
        Invalid: the size is negative.
        Unavailable: the archive does not answer.
    """
    if size < 0:
        raise Invalid(f"a page of {size} items", field="page_size", remedy="use 0 for the default")
    size = min(size or PAST_LIST_HISTORIES, PAST_LIST_HISTORIES)
    left = [history.id for history in aggregates.histories(kind.name) if history.id > token]
    found = await _read(aggregates, kind, left[:size], at_ms)
    return found._replace(next_page_token=left[size - 1] if len(left) > size else "")


async def _read(aggregates: Aggregates, kind: Kind[S, C, E], ids: Sequence[str], at_ms: int) -> PastStates[S]:
    states: dict[str, S] = {}
    gaps: list[EventGap] = []
    for start in range(0, len(ids), LOADS_AT_ONCE):
        some = ids[start : start + LOADS_AT_ONCE]
        for id, found in zip(
            some, await asyncio.gather(*(_one(aggregates, kind, id, at_ms) for id in some)), strict=True
        ):
            if isinstance(found, EventGap):
                gaps.append(found)
            else:
                states[id] = found.state
    return PastStates(states, gaps)


async def _one(aggregates: Aggregates, kind: Kind[S, C, E], id: str, at_ms: int) -> Past[S] | EventGap:
    try:
        return await aggregates.past(kind, id, at_ms)
    except (HistoryHole, ArchiveDamaged) as error:
        told = error.metadata
        first, last = int(told.get("first", 0)), int(told.get("last", 0))
        return EventGap(history=told["history"], first=first, last=last, reason=error.message)
