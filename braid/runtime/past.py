"""Histories as they were at a moment: which events count, the state they are folded onto, and what is not kept.

A moment ends with the last event, in the history's order, whose time is not later: order decides, because wall clocks
of leaders step. Nothing is folded onto an empty state unless the history's first event is among what is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from braid.kernel.errors import HistoryHole
from braid.kernel.ports import Clock, EventStore, HistoryId
from braid.runtime.fold import Fold
from braid.runtime.kinds import AnyKind, Kind, RecordedEvent

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")

_COMPACTED: Final = "a snapshot took their place in the store"


@dataclass(frozen=True, slots=True)
class Past(Generic[S]):
    """A history up to a moment.

    Attributes:
        before: The state that the first of `events` changed; the initial state where `kept_from` is 1.
        events: The newest events up to the moment that are kept, in order.
        kept_from: Sequence of the first of them (also when there is none yet); 1 when nothing is missing before.
        state: The state at the moment.
    """

    before: S
    events: Sequence[RecordedEvent]
    kept_from: int
    state: S


@dataclass(frozen=True, slots=True)
class Gap:
    """Events of a history that are not kept: `first` to `last`, and why."""

    history: HistoryId
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of a history: its events in order, and what is missing before and among them."""

    events: Sequence[RecordedEvent]
    gaps: Sequence[Gap] = ()


class PastReader:
    """Answers what a history was; reads the event store alone, changes nothing."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def at(self, history: HistoryId, kind: Kind[S, C, E], at_ms: int = 0) -> Past[S]:
        """A history up to a moment, or up to its head where `at_ms` is 0.

        Raises:
            HistoryHole: the moment lies before what is kept.
            CorruptHistory: the snapshot or an event does not decode.
        """
        now_ms = self._clock.now_ms()
        loaded = await self._store.load(history)
        fold = Fold(history, kind.erased())
        if loaded.snapshot is not None:
            fold.restore_snapshot(loaded.snapshot)
        before = cast("S", fold.state)
        events = fold.decode(loaded.first, loaded.events, loaded.revision)
        count = count_until(events, at_ms) if at_ms else len(events)
        if not count and loaded.first > 1 and (events or 0 < at_ms < now_ms):
            raise hole(history, 1, loaded.first - 1, events[0].context.now_ms if events else now_ms)
        fold.apply(loaded.first, loaded.events[:count], loaded.revision)
        return Past(before, events[:count], loaded.first, cast("S", fold.state))

    async def listed(
        self, history: HistoryId, kind: AnyKind, first: int, most: int, until_ms: int = 0, latest: int = 0
    ) -> Listed:
        """At most `most` events from sequence `first` on, up to a moment where `until_ms` is given.

        A `first` of 0 begins with the oldest, or where `latest` is given so many events before the end.

        Raises:
            CorruptHistory: an event does not decode.
        """
        loaded = await self._store.load(history)
        events = recorded(history, kind, loaded.first, loaded.events)
        end = loaded.first + (count_until(events, until_ms) if until_ms else len(events))
        start = first or (max(1, end - latest) if latest else 1)
        gaps = [Gap(history, start, loaded.first - 1, _COMPACTED)] if start < loaded.first else []
        start = max(start, loaded.first)
        return Listed(events[start - loaded.first : min(start + most, end) - loaded.first], gaps)


def recorded(history: HistoryId, kind: AnyKind, first: int, events: Sequence[bytes]) -> Sequence[RecordedEvent]:
    """Events as they were recorded; their revision is 0 (not kept). Raises `CorruptHistory`."""
    codec = kind.erased().codec
    return [
        RecordedEvent(history, sequence, 0, *codec.decode(data), data) for sequence, data in enumerate(events, first)
    ]


def count_until(events: Sequence[RecordedEvent], at_ms: int) -> int:
    """How many of the events had happened at a moment: up to the last whose time is not later."""
    later = next((back for back, event in enumerate(reversed(events)) if event.context.now_ms <= at_ms), len(events))
    return len(events) - later


def hole(history: HistoryId, first: int, last: int, kept_from_ms: int) -> HistoryHole:
    """What is raised for a moment whose events are not kept."""
    facts = {"history": str(history), "first": str(first), "last": str(last), "kept_from_ms": str(kept_from_ms)}
    return HistoryHole(
        f"events {first} to {last} of {history} are not kept, so nobody can tell what was true then",
        field="at_ms",
        remedy="ask for a later moment",
        metadata=facts,
    )
