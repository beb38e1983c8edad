"""One history as read at one moment: archived parts and gaps, followed by the store's own tail."""

from collections.abc import Callable, Sequence

from braid.archive.names import BaseName, short
from braid.archive.segment import Segment
from braid.kernel.errors import ArchiveDamaged, HistoryHole
from braid.kernel.ports import HistoryId, Loaded, Snapshot
from braid.runtime.archive.line import Gap, SegmentPart
from braid.runtime.archive.shelf import Shelf, frame_mark


class Kept:
    """The kept events of one history, for questions about its past."""

    def __init__(
        self,
        history: HistoryId,
        loaded: Loaded,
        time_of: Callable[[bytes], int],
        line: Sequence[SegmentPart | Gap],
        shelf: Shelf | None,
    ) -> None:
        """Joins the parts. `time_of` reads when an event was decided; `line` is everything before the store's tail,
        oldest first."""
        self.loaded = loaded
        self.history = history
        self._time_of = time_of
        self._line = line
        self._shelf = shelf

    def without(self, error: ArchiveDamaged, before: int | None = None) -> "Kept":
        """Replaces a damaged part by a gap. With `before`, only if the part ends before that event.

        Raises:
            ArchiveDamaged: the part ends later; this is the given error.
        """
        name = error.metadata.get("object", "")
        line = [_damaged(piece, error) if _is(piece, name) and _ends(piece, before) else piece for piece in self._line]
        if line == list(self._line):
            raise error
        return Kept(self.history, self.loaded, self._time_of, line, self._shelf)

    @property
    def gaps(self) -> Sequence[Gap]:
        """The missing ranges, oldest first."""
        return [piece for piece in self._line if isinstance(piece, Gap)]

    @property
    def parts(self) -> Sequence[SegmentPart]:
        """The archived ranges, oldest first."""
        return [piece for piece in self._line if isinstance(piece, SegmentPart)]

    async def damaged(self) -> Sequence[tuple[SegmentPart, ArchiveDamaged]]:
        """Opens every archived part again; returns those that were changed or removed."""
        found: list[tuple[SegmentPart, ArchiveDamaged]] = []
        for piece in self.parts:
            try:
                await self._open_again(piece)
            except ArchiveDamaged as error:
                found.append((piece, error))
        return found

    async def until(self, at_ms: int) -> int:
        """Sequence of the last event that is not later than a moment; 0 for a moment before the first.

        Raises:
            HistoryHole: events that may have happened by then are not kept.
            ArchiveDamaged: an archived event that is needed was changed or removed.
        """
        found = await self.last_not_later(at_ms)
        missing = next((gap for gap in self.gaps if gap.first == found + 1), None)
        if missing is None:
            return found
        mark = frame_mark(self.loaded.snapshot)
        if mark is not None and mark.sequence == missing.last and mark.time_ms <= at_ms:
            return missing.last  # the store's own snapshot is the state after them
        raise hole(missing)

    async def last_not_later(self, at_ms: int) -> int:
        """Like `until`, but ignores gaps."""
        events = self.loaded.events  # read from the end: events before the moment are not decoded
        count = next((n for n in range(len(events), 0, -1) if self._time_of(events[n - 1]) <= at_ms), 0)
        if count:
            return self.loaded.first + count - 1
        for piece in reversed(self._line):
            if isinstance(piece, SegmentPart) and piece.name.earliest_ms <= at_ms:
                segment = await self._open(piece)
                count = count_until(segment.times_ms[: piece.last - piece.first + 1], at_ms)
                if count:
                    return piece.first + count - 1
        return 0

    def run_start(self, target: int) -> int:
        """Sequence of the first event from which everything up to `target` is kept."""
        return max((gap.last + 1 for gap in self.gaps if gap.first <= target), default=1)

    async def base(self, start: int, window: int, target: int) -> Snapshot | None:
        """The newest base from event `start` to `window`; if there is none, the oldest after it.

        Returns:
            None for the initial state.

        Raises:
            HistoryHole: no kept state precedes the events up to `target`.
        """
        before = await self._first_whole(start - 1, window, newest=True)
        if before is not None or start == 1:
            return before
        after = await self._first_whole(window + 1, target, newest=False)
        if after is None:
            raise hole(Gap(self.history, 1, start - 1, "no state is kept that later events could be folded onto"))
        return after

    async def raw(self, first: int, last: int, most: int = 0) -> Sequence[tuple[int, Sequence[bytes]]]:
        """Kept events from `first` to `last`, at most `most` (0 for all); each run with its first sequence."""
        runs: list[tuple[int, Sequence[bytes]]] = []
        left = most or last - first + 1
        for piece in self._line:
            if left <= 0 or isinstance(piece, Gap) or piece.last < first or piece.first > last:
                continue
            begins, ends = max(first, piece.first), min(last, piece.last)
            ends = min(ends, begins + left - 1)
            events = (await self._open(piece)).events[begins - piece.first : ends - piece.first + 1]
            runs.append((begins, events))
            left -= len(events)
        begins = max(first, self.loaded.first)
        ends = min(last, begins + left - 1)
        if left > 0 and begins <= ends:
            runs.append((begins, self.loaded.events[begins - self.loaded.first : ends - self.loaded.first + 1]))
        return runs

    async def _first_whole(self, least: int, most: int, *, newest: bool) -> Snapshot | None:
        """The first undamaged base after an event from `least` to `most` that provably belongs to this history."""
        stored = self.loaded.snapshot
        candidates: list[tuple[int, BaseName | Snapshot]] = []
        if stored is not None and least <= stored.sequence <= most:
            candidates.append((stored.sequence, stored))
        if self._shelf is not None and least <= most:
            bases = await self._shelf.bases(self.history)
            candidates += [(name.sequence, name) for name in bases if least <= name.sequence <= most]
        for _, candidate in sorted(candidates, key=lambda each: each[0], reverse=newest):
            found = candidate if isinstance(candidate, Snapshot) else await self._whole(candidate)
            if found is not None:
                return found
        return None

    async def _whole(self, name: BaseName) -> Snapshot | None:
        """A base, if its event is on this history's line and it is undamaged."""
        assert self._shelf is not None
        link = await self._link_at(name.sequence)
        if link is None or short(link) != name.link:
            return None
        return await self._shelf.open_base(name, link)

    async def _link_at(self, sequence: int) -> bytes | None:
        """The link of an event; None if no part before the store's tail has it."""
        mark = frame_mark(self.loaded.snapshot)
        if mark is not None and mark.sequence == sequence:
            return mark.link
        for piece in self._line:
            if isinstance(piece, SegmentPart) and piece.first - 1 <= sequence <= piece.last:
                try:
                    return (await self._open(piece)).link_at(sequence)
                except ArchiveDamaged:
                    return None
        return None

    async def _open(self, part: SegmentPart) -> Segment:
        assert self._shelf is not None
        return await self._shelf.open(part.name)

    async def _open_again(self, part: SegmentPart) -> Segment:
        assert self._shelf is not None
        return await self._shelf.open_again(part.name)


def _is(piece: SegmentPart | Gap, name: str) -> bool:
    return isinstance(piece, SegmentPart) and str(piece.name) == name


def _ends(piece: SegmentPart | Gap, before: int | None) -> bool:
    return before is None or piece.last < before


def _damaged(piece: SegmentPart | Gap, error: ArchiveDamaged) -> Gap:
    return Gap(piece.history, piece.first, piece.last, error.message)


def count_until(times_ms: Sequence[int], at_ms: int) -> int:
    """The number of events up to a moment, given their times in order: up to the last event that is not later."""
    later = next((back for back, time_ms in enumerate(reversed(times_ms)) if time_ms <= at_ms), len(times_ms))
    return len(times_ms) - later


def hole(gap: Gap) -> HistoryHole:
    """The error for a moment whose events are not kept."""
    facts = {"history": str(gap.history), "first": str(gap.first), "last": str(gap.last)}
    return HistoryHole(
        f"events {gap.first} to {gap.last} of {gap.history} are not kept, so the state of then is not known: "
        f"{gap.reason}",
        field="at_ms",
        remedy="ask for a later moment",
        metadata=facts,
    )
