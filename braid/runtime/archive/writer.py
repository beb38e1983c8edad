"""Writes events to the archive before snapshots replace them in the store, and saves those snapshots.

Events are compacted only once they are archived, unless more of them wait in the store than `ARCHIVE_BACKLOG_…` allows.
Then the oldest are compacted anyway, after the hole is noted (`ArchiveLog`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from braid.archive.chain import Mark, links, root
from braid.archive.names import BaseName, short
from braid.archive.segment import cut
from braid.kernel.errors import Conflict, Fenced, Unavailable
from braid.kernel.limits.archive import ARCHIVE_BACKLOG_BYTES_MAX, ARCHIVE_BACKLOG_EVENTS_MAX
from braid.kernel.ports import EventStore, HistoryId, Host, Loaded, Snapshot
from braid.runtime.archive.line import Gap, Hole, trace
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.shelf import Index, Shelf, frame_mark
from braid.runtime.histories.fold import PinnedState
from braid.runtime.histories.kinds import Kind, Leadership
from braid.runtime.telemetry import Metrics, logger

_REASON_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class _Tail:
    """Events that the store still has, with their times and links.

    Attributes:
        before: The link of the event before the first.
        links: The link of each event.
        mark: The store snapshot's mark for the event before the first.
    """

    first: int
    events: Sequence[bytes]
    times_ms: Sequence[int]
    before: bytes
    links: Sequence[bytes]
    mark: Mark | None

    def link_at(self, sequence: int) -> bytes:
        """The link of one of the events, or of the one before the first."""
        return self.links[sequence - self.first] if sequence >= self.first else self.before

    def mark_at(self, sequence: int) -> Mark | None:
        """The mark for a snapshot at one of the events, or just before the first one."""
        if not self.first <= sequence < self.first + len(self.events):
            return self.mark if sequence == self.first - 1 else None
        return Mark(sequence, self.times_ms[sequence - self.first], self.link_at(sequence))


class SnapshotWriter:
    """Saves due snapshots; if there is an archive, after their events are in it."""

    def __init__(
        self,
        store: EventStore,
        host: Host,
        service: str,
        metrics: Metrics,
        shelf: Shelf | None,
        log: ArchiveLog,
        incarnation: Callable[[], int],
    ) -> None:
        self._store = store
        self._host = host
        self._metrics = metrics
        self._shelf = shelf
        self._notes = log
        self._incarnation = incarnation
        self._log = logger(service)
        self.failing_reason = ""  # why this replica's archive took nothing the last time
        self._epoch = 0  # of the leadership under which the notes were last brought up to date
        self._locks: dict[HistoryId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.backlog_events_max = ARCHIVE_BACKLOG_EVENTS_MAX

    def follows(self) -> bool:
        """Whether a follower archives too, into its own archive."""
        return self._shelf is not None and not self._shelf.shared

    async def interval_ended(
        self,
        history: HistoryId,
        kind: Kind[object, object, object],
        pinned: PinnedState | None,
        leadership: Leadership | None,
    ) -> None:
        """Archives the events since the last interval, then saves the snapshot that is due.

        Args:
            pinned: The state of the snapshot, if one is due.
            leadership: This replica's leadership; None at a follower, which archives and saves nothing in the store.
        """
        try:
            async with self._locks[history]:
                mark = await self._archived(history, kind, pinned, leadership) if self._shelf else None
                if pinned is not None and (self._shelf is None or mark is not None):
                    await self._keep_state(history, pinned, mark, leadership)
        except (Unavailable, Fenced, Conflict) as error:  # the next one covers this one
            sequence = pinned.sequence if pinned else 0
            self._log.warning("snapshot not saved", history=str(history), sequence=sequence, error=str(error))

    async def _keep_state(
        self, history: HistoryId, pinned: PinnedState, mark: Mark | None, leadership: Leadership | None
    ) -> None:
        pieces: list[bytes] = []
        for piece in pinned.pieces():
            pieces.append(piece)
            await self._host.clock.sleep(0)  # others get their turn
        snapshot = pinned.framed(pieces, mark)
        if mark is not None:
            await self._keep_base(history, mark, snapshot)
        if leadership is not None:
            await self._store.save_snapshot(history, snapshot, leadership.leader.fence)

    async def _keep_base(self, history: HistoryId, mark: Mark, snapshot: Snapshot) -> None:
        """Writes a base, which only makes answers cheaper: without it the previous base is folded from."""
        assert self._shelf is not None
        name = BaseName(history, mark.sequence, mark.time_ms, short(mark.link), self._incarnation())
        try:
            await self._shelf.keep_base(name, snapshot.data)
        except Unavailable as error:
            self._log.warning("base not archived", history=str(history), sequence=mark.sequence, error=str(error))

    async def _archived(
        self,
        history: HistoryId,
        kind: Kind[object, object, object],
        pinned: PinnedState | None,
        leadership: Leadership | None,
    ) -> Mark | None:
        """Archives the store's tail of events.

        Returns:
            The mark for the snapshot; None if nothing is due or it may not be saved.
        """
        loaded = await self._store.load(history)
        tail = await self._tail(loaded, history, kind)
        mark = tail.mark_at(pinned.sequence) if pinned is not None else None
        try:
            await self._write(history, tail)
        except Unavailable as error:
            return mark if await self._failed(history, tail, mark, str(error), leadership) else None
        await self._worked(leadership)
        return mark

    async def _tail(self, loaded: Loaded, history: HistoryId, kind: Kind[object, object, object]) -> _Tail:
        before = await self._anchor(loaded, history)
        times_ms = [kind.codec.decode(data)[1].now_ms for data in loaded.events]
        every = list(links(before, loaded.first, loaded.events))
        return _Tail(loaded.first, loaded.events, times_ms, before, every, frame_mark(loaded.snapshot))

    async def _anchor(self, loaded: Loaded, history: HistoryId) -> bytes:
        """The link before the store's first event.

        A snapshot of a release without an archive has no mark. Then this archive's own chain continues, or a new one
        begins.
        """
        if loaded.snapshot is None:
            return root(history)
        mark = frame_mark(loaded.snapshot)
        if mark is None and self._shelf is not None:
            line = await trace(self._shelf, loaded, history, ())
            newest = line[-1] if line else None
            if newest is not None and not isinstance(newest, Gap):
                return (await self._shelf.open(newest.name)).link_at(newest.last)
        return mark.link if mark else root(history, loaded.snapshot.sequence)

    async def _write(self, history: HistoryId, tail: _Tail) -> None:
        """Writes the events of the tail that the archive lacks. Raises `Unavailable`."""
        assert self._shelf is not None
        index = await self._shelf.index(history, fresh=True)  # an archive that was lost gets what the store still has
        start = _archived_until(index, tail) + 1 - tail.first
        segments = cut(
            history,
            tail.link_at(tail.first + start - 1),
            tail.first + start,
            tail.events[start:],
            tail.times_ms[start:],
            self._incarnation(),
        )
        for made in segments:
            await self._shelf.keep(made)
            self._metrics.archived_events.inc(len(made.events))

    async def _failed(
        self, history: HistoryId, tail: _Tail, due: Mark | None, reason: str, leadership: Leadership | None
    ) -> bool:
        """Notes that the archive rejects events. Returns whether the snapshot is saved anyway."""
        self.failing_reason = reason[:_REASON_MAX]
        self._metrics.archive_failing.set(1)
        self._metrics.archive_failures.inc()
        self._log.error("not archived", history=str(history), waiting_events=len(tail.events), error=reason)
        if leadership is None:
            return False
        await self._notes.failed(history, reason, leadership)
        size = sum(map(len, tail.events))
        if due is None or (len(tail.events) <= self.backlog_events_max and size <= ARCHIVE_BACKLOG_BYTES_MAX):
            return False
        first = await self._first_not_archived(history, tail)
        if first <= due.sequence:
            gap = Gap(history, first, due.sequence, f"compacted without a copy: {reason}"[:_REASON_MAX])
            await self._notes.not_archived(Hole(gap, tail.link_at(first - 1), due.link), leadership)
            self._metrics.archive_holes.inc(due.sequence - first + 1)
        return True

    async def _first_not_archived(self, history: HistoryId, tail: _Tail) -> int:
        assert self._shelf is not None
        try:
            return _archived_until(await self._shelf.index(history), tail) + 1
        except Unavailable:
            return tail.first

    async def _worked(self, leadership: Leadership | None) -> None:
        """Notes that the archive accepts events again, even after another leader's failure."""
        if leadership is not None and (self.failing_reason or self._epoch != leadership.epoch):
            await self._notes.resumed(leadership)
            self._epoch = leadership.epoch
        self.failing_reason = ""
        self._metrics.archive_failing.set(0)


def _archived_until(index: Index, tail: _Tail) -> int:
    """Sequence of the last tail event that the archive has on this line; the one before the tail if none."""
    last = tail.first + len(tail.events) - 1
    for sequence in range(last, tail.first - 1, -1):
        link = short(tail.link_at(sequence))
        if any(name.after == link for name in index.segments.get(sequence, ())):
            return sequence
    return tail.first - 1
