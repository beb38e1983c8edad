"""A replica's archived objects: the index by history, and segments and bases opened and checked.

Objects that are missing or damaged here are fetched from peers, checked like any others, and kept.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from braid.archive import names, segment
from braid.archive.chain import Mark
from braid.archive.names import BaseName, SegmentName
from braid.archive.segment import Segment
from braid.kernel.errors import ArchiveDamaged, BraidError, CorruptHistory, NotFound
from braid.kernel.limits.archive import ARCHIVE_OPEN_SEGMENTS, ARCHIVE_PEERS_AGAIN_SECONDS, ARCHIVE_RETENTION_DAYS
from braid.kernel.ports import ArchiveStore, Clock, HistoryId, Snapshot
from braid.kernel.timing.days import DAY_MS
from braid.runtime.histories.fold import open_frame

N = TypeVar("N", SegmentName, BaseName)

Peers = Callable[[], Awaitable[Sequence[ArchiveStore]]]
_SHARED_INDEX_SECONDS: Final = 2.0  # others write to a shared archive: an index of it is read again after this


async def no_peers() -> Sequence[ArchiveStore]:
    """Returns no peer archives, for a replica without peers."""
    return ()


@dataclass
class Index:
    """Names of one history's archived objects.

    Attributes:
        segments: By the sequence of their last event.
        bases: In order of sequence.
        read_at: When they were read, on `Clock.elapsed`.
    """

    segments: dict[int, list[SegmentName]] = field(default_factory=dict)
    bases: list[BaseName] = field(default_factory=list)
    read_at: float = 0.0

    def add(self, name: SegmentName | BaseName) -> None:
        """Adds a name, unless it is known."""
        if isinstance(name, BaseName):
            if name not in self.bases:
                self.bases = sorted([*self.bases, name], key=lambda each: each.sequence)
        elif name not in (ending := self.segments.setdefault(name.last, [])):
            ending.append(name)

    def remove(self, name: SegmentName | BaseName) -> None:
        """Removes a name."""
        if isinstance(name, BaseName):
            self.bases = [each for each in self.bases if each != name]
        else:
            self.segments[name.last] = [each for each in self.segments.get(name.last, []) if each != name]

    def every_segment(self) -> Iterable[SegmentName]:
        """All segments of the history."""
        return (name for ending in self.segments.values() for name in ending)


class Shelf:
    """A replica's archive on top of its object store."""

    def __init__(
        self,
        store: ArchiveStore,
        clock: Clock,
        peers: Peers = no_peers,
        retention_days: float = ARCHIVE_RETENTION_DAYS,
    ) -> None:
        self.store = store
        self.retention_days = retention_days
        self._clock = clock
        self._peers = peers
        self._indices: dict[HistoryId, Index] = {}
        self._at_peers: dict[HistoryId, Index] = {}
        self._open: OrderedDict[SegmentName, Segment] = OrderedDict()

    @property
    def shared(self) -> bool:
        """Whether all replicas of the service see the same objects."""
        return self.store.shared

    async def index(self, history: HistoryId, *, fresh: bool = False) -> Index:
        """Names of a history's objects; with `fresh`, read again now."""
        found = self._indices.get(history)
        now = self._clock.elapsed()
        if found is None or fresh or (self.shared and now - found.read_at > _SHARED_INDEX_SECONDS):
            listed = await self.store.list(names.prefix(history))
            found = Index(read_at=now)
            _fill(found, history, (each.name for each in listed))
            self._indices[history] = found
        return found

    async def may_have_expired(self, history: HistoryId, last: int) -> bool:
        """Whether retention may have removed events up to `last`: then a base from before that time stands for them."""
        before_ms = self._clock.now_ms() - int(self.retention_days * DAY_MS)
        return any(base.sequence >= last and base.time_ms < before_ms for base in (await self.index(history)).bases)

    async def keep(self, made: Segment) -> None:
        """Writes a segment to the store. Raises `Unavailable`."""
        await self.store.put(str(made.name), segment.encode(made))
        (await self.index(made.history)).add(made.name)

    async def keep_base(self, name: BaseName, data: bytes) -> None:
        """Writes a base to the store. Raises `Unavailable`."""
        index = await self.index(name.history)
        if name not in index.bases:
            await self.store.put(str(name), data)
            index.add(name)

    async def remove(self, name: SegmentName | BaseName) -> None:
        """Removes an object from the store."""
        await self.store.delete(str(name))
        if name.history in self._indices:
            self._indices[name.history].remove(name)
        if isinstance(name, SegmentName):
            self._open.pop(name, None)

    async def open(self, name: SegmentName) -> Segment:
        """Opens a segment and checks every link of it.

        Raises:
            ArchiveDamaged: neither this object nor a peer's holds the events in its name.
        """
        found = self._open.get(name)
        if found is None:
            try:
                found = segment.decode(await self.store.get(str(name)), name)
            except (NotFound, ArchiveDamaged) as error:
                found = await self._from_peers(name, error)
            self._open[name] = found
            while len(self._open) > ARCHIVE_OPEN_SEGMENTS:
                self._open.popitem(last=False)
        return found

    async def open_again(self, name: SegmentName) -> Segment:
        """Opens a segment like `open`, but reads the object even if it is known."""
        self._open.pop(name, None)
        return await self.open(name)

    async def open_base(self, name: BaseName, link: bytes) -> Snapshot | None:
        """Opens a base; None unless it is undamaged, here or at a peer, and belongs to the event with this link."""
        for store in (self.store, *await self._others()):
            try:
                base = Snapshot(name.sequence, await store.get(str(name)))
                mark = open_frame(base).mark
            except (BraidError, ValueError):  # gone, damaged, or never a base
                continue
            if mark is not None and mark.link == link:
                if store is not self.store:
                    await self.keep_base(name, base.data)
                return base
        return None

    async def ask_peers(self, history: HistoryId) -> Index:
        """Names of a history's objects at peers; recent answers are reused."""
        found, now = self._at_peers.get(history), self._clock.elapsed()
        if found is not None and now < found.read_at + ARCHIVE_PEERS_AGAIN_SECONDS:
            return found
        found = self._at_peers[history] = Index(read_at=now)
        for peer in await self._others():
            try:
                listed = await peer.list(names.prefix(history))
            except BraidError:
                continue
            _fill(found, history, (each.name for each in listed))
        return found

    async def bases(self, history: HistoryId) -> Sequence[BaseName]:
        """Bases here and, by their last answers, at peers; in order of sequence."""
        theirs = self._at_peers.get(history)
        found = {*(await self.index(history)).bases, *(theirs.bases if theirs else ())}
        return sorted(found, key=lambda each: each.sequence)

    async def fetch(self, name: SegmentName) -> Segment | None:
        """Fetches a segment from peers, checks and keeps it; None if no peer has it undamaged."""
        try:
            return await self._from_peers(name, NotFound(f"no peer has {name}"))
        except (ArchiveDamaged, NotFound):
            return None

    async def _from_peers(self, name: SegmentName, error: BraidError) -> Segment:
        for peer in await self._others():
            try:
                found = segment.decode(await peer.get(str(name)), name)
            except BraidError:
                continue
            await self.keep(found)
            return found
        if isinstance(error, NotFound):
            raise segment.damaged(name, name.first, name.last, "its object is gone") from error
        raise error

    async def _others(self) -> Sequence[ArchiveStore]:
        return () if self.shared else await self._peers()


def _fill(index: Index, history: HistoryId, found: Iterable[str]) -> None:
    bases: list[BaseName] = []
    for text in found:
        name = names.parse(text)
        if name is None or name.history != history:
            continue
        if isinstance(name, BaseName):
            bases.append(name)
        else:
            index.add(name)
    index.bases = sorted({*index.bases, *bases}, key=lambda each: each.sequence)


def frame_mark(snapshot: Snapshot | None) -> Mark | None:
    """The mark in a snapshot; None if it has none."""
    if snapshot is None:
        return None
    try:
        return open_frame(snapshot).mark
    except CorruptHistory:
        return None
