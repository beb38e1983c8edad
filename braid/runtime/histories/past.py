"""Past states of histories: which events count at a moment, the state they are folded onto, and what is missing.

A moment includes all events up to the last one, in the history's order, whose time is not later. Order decides, because
wall clocks of leaders step. Events are folded onto an empty state only if the history's first event is kept.

Events that the store no longer has come from the archive, if there is one. Readers see no difference.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from braid.archive.chain import root
from braid.archive.names import SegmentName, short
from braid.kernel.errors import ArchiveDamaged, HistoryHole
from braid.kernel.limits.archive import ARCHIVE_SEGMENT_EVENTS, PAST_STORY_EVENTS
from braid.kernel.ports import EventStore, HistoryId, Loaded
from braid.runtime.archive.kept import Kept
from braid.runtime.archive.line import Gap, SegmentPart, trace
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.shelf import Shelf, frame_mark
from braid.runtime.histories.fold import Fold
from braid.runtime.histories.kinds import AnyKind, Kind, RecordedEvent

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")

_COMPACTED: Final = "a snapshot took their place in the store, and no archive is set"


@dataclass(frozen=True, slots=True)
class Past(Generic[S]):
    """A history up to a moment.

    Attributes:
        before: The state before the first of `events`; the initial state if `kept_from` is 1.
        events: The newest events up to the moment, in order; a bounded number.
        kept_from: Sequence of the first of them (also if there is none yet); 1 if nothing comes before.
        state: The state at the moment.
    """

    before: S
    events: Sequence[RecordedEvent]
    kept_from: int
    state: S


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of a history: its events in order, and the gaps before and among them."""

    events: Sequence[RecordedEvent]
    gaps: Sequence[Gap] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """The number of a history's archived events, and which are missing or changed."""

    events: int
    problems: Sequence[Gap]


class PastReader:
    """Reads past states from the event store and the archive. Writes nothing except objects fetched from peers."""

    def __init__(
        self,
        store: EventStore,
        shelf: Shelf | None,
        log: ArchiveLog,
        followed: Callable[[HistoryId], Fold | None] = lambda history: None,
    ) -> None:
        """Reads from these. `followed` returns a history as this replica has it in memory."""
        self._store = store
        self._followed = followed
        self._shelf = shelf
        self._log = log

    async def at(self, history: HistoryId, kind: Kind[S, C, E], at_ms: int = 0) -> Past[S]:
        """Returns a history up to a moment, or up to its head if `at_ms` is 0.

        Raises:
            HistoryHole: the moment lies in or before what is not kept.
            ArchiveDamaged: an archived event that is needed was changed or removed.
            CorruptHistory: the snapshot or an event does not decode.
            Unavailable: the archive does not answer.
        """
        return await self._at(await self._store.load(history), history, kind, at_ms)

    async def at_many(
        self, histories: Sequence[HistoryId], kind: Kind[S, C, E], at_ms: int
    ) -> Sequence[Past[S] | HistoryHole | ArchiveDamaged]:
        """Returns several histories as `at` does, or why one is not known. The caller bounds their number.

        Raises:
            CorruptHistory: a snapshot or an event does not decode.
            Unavailable: the archive does not answer.
        """

        async def one(history: HistoryId, loaded: Loaded) -> Past[S] | HistoryHole | ArchiveDamaged:
            try:
                return await self._at(loaded, history, kind, at_ms)
            except (HistoryHole, ArchiveDamaged) as error:
                return error

        loads = await self._store.load_many(histories)
        return await asyncio.gather(*map(one, histories, loads))

    def last_ms(self, history: HistoryId) -> int:
        """When a history was appended to last, as this replica has it in memory; 0 where that is not known."""
        fold = self._followed(history)
        return 0 if fold is None else fold.time_ms

    async def unchanged(self, histories: Sequence[HistoryId], at_ms: int) -> dict[HistoryId, object]:
        """The states at a moment of those histories to which nothing was appended since, as they are in memory.

        The store says where each history ends: a replica that is behind answers for none that it does not know whole.
        """
        found: dict[HistoryId, object] = {}
        for history, head in zip(histories, await self._store.heads(histories), strict=True):
            fold = self._followed(history)
            if fold is not None and fold.sequence == head and 0 < fold.time_ms <= at_ms:
                found[history] = fold.state
        return found

    async def _at(self, loaded: Loaded, history: HistoryId, kind: Kind[S, C, E], at_ms: int) -> Past[S]:
        kept = await self._joined(loaded, history, kind.erased())
        target = await kept.until(at_ms) if at_ms else kept.loaded.sequence
        while True:
            try:
                return await self._folded(kept, kind, target)
            except ArchiveDamaged as error:  # where only the story needs it, the story begins after it
                kept = await self._replaced(kept, kind.erased(), error) or kept.without(error, before=target)

    async def _folded(self, kept: Kept, kind: Kind[S, C, E], target: int) -> Past[S]:
        start = kept.run_start(target)
        window = (target - PAST_STORY_EVENTS) // ARCHIVE_SEGMENT_EVENTS * ARCHIVE_SEGMENT_EVENTS
        fold = Fold(kept.history, kind.erased())
        base = await kept.base(start, max(start - 1, window), target)
        if base is not None:
            fold.restore_snapshot(base)
        for first, events in await kept.raw(fold.sequence + 1, window):
            fold.apply(first, events, 0)
        before, kept_from = cast("S", fold.state), fold.sequence + 1
        told: list[RecordedEvent] = []
        for first, events in await kept.raw(kept_from, target):
            told += fold.apply(first, events, 0)
        return Past(before, told, kept_from, cast("S", fold.state))

    async def listed(
        self, history: HistoryId, kind: AnyKind, first: int, most: int, until_ms: int = 0, latest: int = 0
    ) -> Listed:
        """Lists at most `most` events from sequence `first` on, up to a moment if `until_ms` is given.

        A `first` of 0 begins with the oldest event, or with `latest` that many events before the end. Changed or
        removed events appear as a gap, with the sequence in its reason.

        Raises:
            CorruptHistory: an event does not decode.
            Unavailable: the archive does not answer.
        """
        kept = await self._kept(history, kind.erased())
        while True:
            try:
                return await _part(kept, kind, first, most, until_ms, latest)
            except ArchiveDamaged as error:
                kept = await self._replaced(kept, kind.erased(), error) or kept.without(error)

    async def verified(self, history: HistoryId, kind: AnyKind, names_only: bool) -> Verified:
        """Reads all archived events of a history again; with `names_only` checks only names. Raises `Unavailable`.

        Objects that peers have undamaged are fetched from them, and count as sound. Events older than the archive or
        its retention do not count as missing.
        """
        kept = await self._kept(history, kind.erased())
        events = sum(part.last - part.first + 1 for part in kept.parts)
        problems = [gap for gap in kept.gaps if not await self._is_as_set(kept, gap)]
        for part, error in () if names_only else await kept.damaged():
            if await self._replaced(kept, kind.erased(), error) is None:
                first, last = int(error.metadata["first"]), int(error.metadata["last"])
                problems.append(Gap(history, first, min(last, part.last), error.message))
                events -= part.last - part.first + 1
        return Verified(events, sorted(problems, key=lambda gap: gap.first))

    async def _is_as_set(self, kept: Kept, gap: Gap) -> bool:
        """Whether a gap is expected: at the beginning, before the archive was set or where retention removed events."""
        if gap.first > 1 or self._shelf is None:
            return gap.first == 1
        snapshot, begins = kept.loaded.snapshot, short(root(kept.history, gap.last))
        if kept.parts and kept.parts[0].name.before == begins:
            return True
        if not kept.parts and snapshot is not None and frame_mark(snapshot) is None:
            return True
        return await self._shelf.may_have_expired(kept.history, gap.last)

    async def _replaced(self, kept: Kept, kind: Kind[object, object, object], error: ArchiveDamaged) -> Kept | None:
        """The history without a damaged object, which is removed if other objects, here or at peers, hold its events.

        Replicas that were away begin their segments at other events, so the same events have other names there.
        """
        part = next((part for part in kept.parts if str(part.name) == error.metadata.get("object")), None)
        if part is None or self._shelf is None:
            return None
        await self._shelf.index(kept.history, fresh=True)  # where one is gone, others may be
        found = await self._kept(kept.history, kind, without=part.name)
        if any(gap.first <= part.last and gap.last >= part.first for gap in found.gaps):
            return None
        await self._shelf.remove(part.name)
        return found

    async def _kept(
        self, history: HistoryId, kind: Kind[object, object, object], without: SegmentName | None = None
    ) -> Kept:
        return await self._joined(await self._store.load(history), history, kind, without)

    async def _joined(
        self, loaded: Loaded, history: HistoryId, kind: Kind[object, object, object], without: SegmentName | None = None
    ) -> Kept:
        """A history as the store has it, with what is archived of it."""
        line: Sequence[SegmentPart | Gap] = ()
        if loaded.snapshot is not None and self._shelf is None:
            line = [Gap(history, 1, loaded.snapshot.sequence, _COMPACTED)]
        elif loaded.snapshot is not None and self._shelf is not None:
            holes = [hole for hole in (await self._log.read()).holes if hole.gap.history == history]
            line = await trace(self._shelf, loaded, history, holes, without)
        return Kept(history, loaded, lambda data: kind.codec.decode(data)[1].now_ms, line, self._shelf)


async def _part(kept: Kept, kind: AnyKind, first: int, most: int, until_ms: int, latest: int) -> Listed:
    end = await kept.last_not_later(until_ms) if until_ms else kept.loaded.sequence
    start = first or (max(1, end - latest + 1) if latest else 1)
    events: list[RecordedEvent] = []
    for begins, some in await kept.raw(start, end, most):
        events += recorded(kept.history, kind, begins, some)
    # Up to where something was looked for: a page that is full says nothing of what follows it. Of what is not kept
    # behind the last event that is known to be not later, some may have happened by then, too.
    until = events[-1].sequence if len(events) >= most else max(end + bool(until_ms), start)
    gaps = [gap for gap in kept.gaps if gap.first <= until and gap.last >= start]
    return Listed(events, [Gap(kept.history, max(gap.first, start), gap.last, gap.reason) for gap in gaps])


def recorded(history: HistoryId, kind: AnyKind, first: int, events: Sequence[bytes]) -> Sequence[RecordedEvent]:
    """The recorded events of an append; their revision is 0 (not kept). Raises `CorruptHistory`."""
    codec = kind.erased().codec
    return [
        RecordedEvent(history, sequence, 0, *codec.decode(data), data) for sequence, data in enumerate(events, first)
    ]
