"""States of many histories at one moment, and which of them are not known.

A history whose events are not kept becomes a gap: it hides nothing but itself. Reads only.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

from braid.api.mesh.v1.event_pb2 import EventGap
from braid.kernel.errors import ArchiveDamaged, Exhausted, HistoryHole, Invalid
from braid.kernel.limits.archive import (
    PAST_AHEAD_MS_MAX,
    PAST_LIST_HISTORIES,
    PAST_LOADS_TOGETHER,
    PAST_STATES_MAX,
)
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.ports import HistoryId
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
    histories = aggregates.histories(kind.name)
    known = await aggregates.pasts.unchanged(histories, at_ms)
    changed = len(histories) - len(known)
    if changed > PAST_STATES_MAX:
        message = f"{changed} {kind.name}s changed since then: more than the {PAST_STATES_MAX} that are read at once"
        raise Exhausted(message, field="at_ms", remedy=f"ask for one {kind.name} at a time")
    return await _read(aggregates, kind, histories, known, at_ms)


async def whole_states_at(aggregates: Aggregates, kind: Kind[S, C, E], at_ms: int) -> dict[str, S]:
    """The same by id, for an answer that needs them all.

    Raises:
        HistoryHole: events that decide the answer are not kept.
        ArchiveDamaged: one of them was changed or removed.
        Exhausted: there are too many to be read at once.
        Unavailable: the archive does not answer.
    """
    found = await states_at(aggregates, kind, at_ms)
    for gap in found.gaps:  # it raises why, or was mended meanwhile
        id = gap.history.split("/", 2)[2]
        found.states[id] = (await aggregates.past(kind, id, at_ms)).state
    return found.states


async def states_page(aggregates: Aggregates, kind: Kind[S, C, E], at_ms: int, size: int, token: str) -> PastStates[S]:
    """The same of the histories after a token, by id; a page reads a bounded number of them.

    Raises:
        Invalid: the size is negative.
        Unavailable: the archive does not answer.
    """
    if size < 0:
        raise Invalid(f"a page of {size} items", field="page_size", remedy="use 0 for the default")
    size = min(size or PAGE_SIZE_MAX, PAGE_SIZE_MAX)
    left = [history for history in aggregates.histories(kind.name) if history.id > token]
    known = await aggregates.pasts.unchanged(left[:size], at_ms)
    unknown = [history for history in left[:size] if history not in known]
    if len(unknown) > PAST_LIST_HISTORIES:
        size = left.index(unknown[PAST_LIST_HISTORIES])
    found = await _read(aggregates, kind, left[:size], known, at_ms)
    return found._replace(next_page_token=left[size - 1].id if len(left) > size else "")


async def _read(
    aggregates: Aggregates,
    kind: Kind[S, C, E],
    histories: Sequence[HistoryId],
    known: Mapping[HistoryId, object],
    at_ms: int,
) -> PastStates[S]:
    """The states of histories in their order: those that are known, and the others from the store, some at a time."""
    read: dict[HistoryId, Past[S] | HistoryHole | ArchiveDamaged] = {}
    unknown = [history for history in histories if history not in known]
    for start in range(0, len(unknown), PAST_LOADS_TOGETHER):
        some = unknown[start : start + PAST_LOADS_TOGETHER]
        read |= zip(some, await aggregates.pasts.at_many(some, kind, at_ms), strict=True)
    states: dict[str, S] = {}
    gaps: list[EventGap] = []
    for history in histories:
        found = read.get(history)
        if isinstance(found, HistoryHole | ArchiveDamaged):
            gaps.append(_gap(found))
        else:
            states[history.id] = cast("S", known[history]) if found is None else found.state
    return PastStates(states, gaps)


def _gap(error: HistoryHole | ArchiveDamaged) -> EventGap:
    told = error.metadata
    first, last = int(told.get("first", 0)), int(told.get("last", 0))
    return EventGap(history=told["history"], first=first, last=last, reason=error.message)
