"""The line of a history: the segments whose links lead, one to the next, to the events in the event store.

Segments that lead elsewhere are never on it: events that a restored store forgot, or that a deposed leader wrote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.archive.names import SegmentName, short
from braid.kernel.errors import ArchiveDamaged
from braid.kernel.ports import HistoryId, Loaded
from braid.runtime.archive.shelf import Index, Shelf, frame_mark


class SegmentPart(NamedTuple):
    """Events `name.first` to `last` of a segment; later events, if any, are in the next part."""

    name: SegmentName
    last: int

    @property
    def first(self) -> int:
        """Sequence of the first event."""
        return self.name.first

    @property
    def history(self) -> HistoryId:
        """The history that the events belong to."""
        return self.name.history


@dataclass(frozen=True, slots=True)
class Gap:
    """Events of a history that are not kept: `first` to `last`, and the reason."""

    history: HistoryId
    first: int
    last: int
    reason: str


class Hole(NamedTuple):
    """Events that were compacted without a copy, with the links on both sides."""

    gap: Gap
    before: bytes
    after: bytes


async def trace(
    shelf: Shelf, loaded: Loaded, history: HistoryId, holes: Sequence[Hole], without: SegmentName | None = None
) -> Sequence[SegmentPart | Gap]:
    """The archived events of a history before the store's own, oldest first, with gaps where events are missing.

    Args:
        without: A segment that is skipped, here and at peers: other objects may hold its events.

    Raises:
        Unavailable: the archive does not answer.
    """
    if loaded.snapshot is None:
        return ()
    walk = _Walk(shelf, history, await shelf.index(history), holes, without)
    mark = frame_mark(loaded.snapshot)
    link = mark.link if mark else await _unmarked(shelf, walk.index, loaded)
    await walk.back(loaded.snapshot.sequence, short(link) if link else "")
    return walk.found[::-1]


class _Walk:
    """A walk from the newest archived event back to the oldest."""

    def __init__(
        self, shelf: Shelf, history: HistoryId, index: Index, holes: Sequence[Hole], without: SegmentName | None
    ) -> None:
        self.index = index
        self.found: list[SegmentPart | Gap] = []
        self._shelf = shelf
        self._history = history
        self._holes = {hole.gap.last: hole for hole in holes}
        self._without = without

    async def back(self, sequence: int, link: str) -> None:
        while sequence > 0:
            name = await self._ending(self.index, sequence, link) or await self._at_peers(sequence, link)
            if name is not None:
                self.found.append(SegmentPart(name, sequence))
                sequence, link = name.first - 1, name.before
                continue
            sequence, link = self._over_gap(sequence, link)

    async def _ending(self, index: Index, sequence: int, link: str) -> SegmentName | None:
        """The segment whose event `sequence` has this link; if there are several, the one that begins first."""
        exact = [name for name in index.segments.get(sequence, ()) if name.after == link and name != self._without]
        if exact:
            return min(exact, key=lambda name: name.first)
        for name in index.every_segment():
            if name.first <= sequence < name.last and name != self._without and await self._leads(name, sequence, link):
                return name
        return None

    async def _leads(self, name: SegmentName, sequence: int, link: str) -> bool:
        try:
            return short((await self._shelf.open(name)).link_at(sequence)) == link
        except ArchiveDamaged:
            return False

    async def _at_peers(self, sequence: int, link: str) -> SegmentName | None:
        if sequence in self._holes or not link:
            return None
        theirs = await self._shelf.ask_peers(self._history)
        for name in sorted(set(theirs.every_segment()) - {self._without}):
            if name.first <= sequence <= name.last and (name.last > sequence or name.after == link):
                found = await self._shelf.fetch(name)
                if found is not None and short(found.link_at(sequence)) == link:
                    await self._fetch_older(theirs, name)
                    return name
        return None

    async def _fetch_older(self, theirs: Index, name: SegmentName) -> None:
        """Fetches all of a peer's segments that precede this one and are missing here, to avoid one request each."""
        first, link = name.first, name.before
        while first > 1 and await self._ending(self.index, first - 1, link) is None:
            older = await self._ending(theirs, first - 1, link)
            if older is None or await self._shelf.fetch(older) is None:
                return
            first, link = older.first, older.before

    def _over_gap(self, sequence: int, link: str) -> tuple[int, str]:
        """Skips events that are kept nowhere, to the next kept one."""
        hole = self._holes.get(sequence)
        if hole is not None and short(hole.after) == link:
            self.found.append(hole.gap)
            return hole.gap.first - 1, short(hole.before)
        older = [name for name in self.index.every_segment() if name.last < sequence]
        # No link leads over the gap: of several lines the one of the newest incarnation, then what ends last.
        name = max(older, key=lambda each: (each.incarnation, each.last), default=None)
        last = name.last if name else 0
        reason = "no archive that this replica reaches has them" if name else "the archive does not reach back so far"
        self.found.append(Gap(self._history, last + 1, sequence, reason))
        return (last, name.after) if name else (0, "")


async def _unmarked(shelf: Shelf, index: Index, loaded: Loaded) -> bytes | None:
    """The link at a snapshot without a mark: that of a segment that continues into the store's events, or ends at
    it."""
    assert loaded.snapshot is not None
    sequence = loaded.snapshot.sequence
    covering = [name for name in index.every_segment() if name.first <= sequence <= name.last]
    for name in sorted(covering, key=lambda each: (each.incarnation, each.last), reverse=True):
        try:
            found = await shelf.open(name)
        except ArchiveDamaged:
            continue
        beyond = found.events[sequence - name.first + 1 :]
        common = min(len(beyond), len(loaded.events))
        if list(beyond[:common]) == list(loaded.events[:common]):
            return found.link_at(sequence)
    return None
