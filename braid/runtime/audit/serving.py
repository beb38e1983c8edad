"""Records of calls as any replica lists and watches them: those of all replicas of all services, from the store."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from braid.api.mesh.v1.event_pb2 import EventFilter
from braid.kernel.audit.calls import AUDIT, CallRecorded, Outcome
from braid.kernel.ports import Clock, EventStore, HistoryId
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.shelf import Shelf
from braid.runtime.audit.codec import KINDS
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.histories.past import Listed, PastReader, Verified


class EventSource(Protocol):
    """Histories as `ListEvents` and `WatchEvents` read them: see `Aggregates`."""

    @property
    def revision(self) -> int:
        """The store's revision up to which they are known."""
        ...

    def histories(self, prefix: str = "") -> Sequence[HistoryId]:
        """Known ones, sorted, under `<kind>/<id>`, `<kind>`, or '' for all."""
        ...

    async def listed(self, history: HistoryId, first: int, most: int, *, until_ms: int = 0, latest: int = 0) -> Listed:
        """A part of a history, and what is missing of it."""
        ...

    def watch_events(self, prefix: str, after_revision: int) -> AsyncIterator[RecordedEvent]:
        """Events that are appended after a revision. Never ends by itself."""
        ...


class AuditHistories:
    """`EventSource` of the audit histories, as they are at one moment."""

    def __init__(
        self, store: EventStore, shelf: Shelf | None, clock: Clock, known: Sequence[HistoryId], revision: int
    ) -> None:
        self._store = store
        self._past = PastReader(store, shelf, ArchiveLog(store, AUDIT, clock))
        self._known = [each for each in known if each.kind in KINDS]  # those of a later release are passed over
        self.revision = revision

    def histories(self, prefix: str = "") -> Sequence[HistoryId]:
        """See `EventSource.histories`."""
        return [each for each in self._known if _within(each, prefix)]

    async def listed(self, history: HistoryId, first: int, most: int, *, until_ms: int = 0, latest: int = 0) -> Listed:
        """See `EventSource.listed`."""
        return await self._past.listed(history, KINDS[history.kind], first, most, until_ms, latest)

    async def verified(self, history: HistoryId, names_only: bool) -> Verified:
        """Missing and changed archived records of a history: see `PastReader.verified`."""
        return await self._past.verified(history, KINDS[history.kind], names_only)

    async def watch_events(self, prefix: str, after_revision: int) -> AsyncIterator[RecordedEvent]:
        """See `EventSource.watch_events`."""
        async for batch in self._store.watch(AUDIT, after_revision):
            kind = KINDS.get(batch.history.kind)
            if kind is None or not _within(batch.history, prefix):
                continue
            for sequence, data in enumerate(batch.events, batch.first):
                yield RecordedEvent(batch.history, sequence, batch.revision, *kind.codec.decode(data), data)


def matches(wanted: EventFilter, record: RecordedEvent) -> bool:
    """Whether an event is one of those that are wanted."""
    if wanted.actor and record.context.actor != wanted.actor:
        return False
    if record.context.now_ms < wanted.since_ms:
        return False
    if not (wanted.rpc or wanted.refused):
        return True
    if not isinstance(record.event, CallRecorded):
        return False
    call = record.event.call
    return wanted.rpc in ("", call.rpc) and (not wanted.refused or call.outcome is Outcome.REFUSED)


def _within(history: HistoryId, prefix: str) -> bool:
    kind, _, id = prefix.partition("/")
    return (not kind or history.kind == kind) and (not id or history.id == id)
