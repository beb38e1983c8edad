"""One audit history of one replica: records wait here until they are appended, and old ones are cut off."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from braid.kernel.audit.calls import AUDIT, AuditRecord
from braid.kernel.audit.retention import kept
from braid.kernel.errors import Conflict
from braid.kernel.limits.access.audit import AUDIT_BUFFER_RECORDS_MAX, AUDIT_SLACK
from braid.kernel.limits.store import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from braid.kernel.ports import EventStore, HistoryId, Loaded
from braid.rpc.audit_records import encoded, parse, read_record
from braid.runtime.archive.writer import SnapshotWriter
from braid.runtime.audit.codec import COUNTS, UnknownRecord
from braid.runtime.histories.fold import PinnedState
from braid.runtime.histories.kinds import Kind, Leadership

_ATTEMPTS_MAX: Final = 3  # of an append that comes second: this process alone writes, so once is rare already


class AuditHistory:
    """A history that one replica writes, and nobody else."""

    def __init__(
        self,
        store: EventStore,
        kind: Kind[None, AuditRecord, AuditRecord | UnknownRecord],
        id: str,
        instance: str,
        snapshots: SnapshotWriter,
        records: int,
    ) -> None:
        """Keeps about `records` of them in the store; `snapshots` takes the others to the archive, if there is one."""
        self.history = HistoryId(AUDIT, kind.name, id)
        self._store = store
        self._kind = kind
        self._instance = instance
        self._snapshots = snapshots
        self._records = records
        self._waiting: deque[AuditRecord] = deque()
        self._sequence = 0
        self._size = 0
        self._known = False

    @property
    def waiting(self) -> int:
        """How many records are not written yet."""
        return len(self._waiting)

    @property
    def too_long(self) -> bool:
        """Whether the store has more of it than it is to keep."""
        return self._size > self._records * (1 + AUDIT_SLACK)

    def add(self, records: Iterable[AuditRecord]) -> list[AuditRecord]:
        """Takes records that are to be written. Returns the oldest, if too many wait: those are lost."""
        self._waiting.extend(records)
        return [self._waiting.popleft() for _ in range(len(self._waiting) - AUDIT_BUFFER_RECORDS_MAX)]

    def doubt(self) -> None:
        """Another process may have written meanwhile: the history is read again before the next append."""
        self._known = False

    async def write(self, leadership: Leadership) -> None:
        """Appends all that waits, in their order. What was not known to be appended is looked for first.

        Raises:
            Fenced: the leadership is over.
            Unavailable: the store does not answer; what is left waits on.
        """
        conflicts = 0
        while self._waiting:
            if not self._known:
                await self._read()
                continue
            batch = self._batch()
            self._known = False
            try:
                appended = await self._store.append(self.history, batch, self._sequence, leadership.leader.fence)
            except Conflict:
                conflicts += 1
                if conflicts == _ATTEMPTS_MAX:
                    raise
                continue
            self._advance(len(batch), appended.sequence)

    async def cut(self, leadership: Leadership, oldest_ms: int) -> None:
        """Cuts off what is too much, or older than a time. Raises as `write` does."""
        loaded = await self._store.load(self.history)
        self._size = len(loaded.events)
        until = await self._compacted(loaded, leadership, oldest_ms) if self._kind is COUNTS else 0
        until = until or self._until(loaded, oldest_ms)
        if until >= loaded.first:
            kind = self._kind.erased()
            pinned = PinnedState(kind, until, None, ())
            await self._snapshots.interval_ended(self.history, kind, pinned, leadership)
            self._size = len((await self._store.load(self.history)).events)

    def _until(self, loaded: Loaded, oldest_ms: int) -> int:
        """Sequence of the last event that goes; before the first where none does."""
        if self._kind is COUNTS:
            return loaded.first - 1
        until = max(loaded.first - 1, loaded.sequence - self._records)
        for sequence, data in enumerate(loaded.events, loaded.first):
            if parse(data).metadata.time_ms >= oldest_ms:
                return max(until, sequence - 1)
        return loaded.sequence

    async def _compacted(self, loaded: Loaded, leadership: Leadership, oldest_ms: int) -> int:
        """Writes counts that are kept again, each once, behind all others. Returns what may go then; 0 for nothing."""
        found = [record for data in loaded.events if (record := read_record(parse(data))) is not None]
        chosen = kept(found, self._records, oldest_ms)
        if len(chosen) == len(loaded.events):
            return 0
        self._waiting.extendleft(reversed(chosen))
        await self.write(leadership)
        return loaded.sequence

    async def _read(self) -> None:
        """Reads where the history ends. Of what waits, the first records may be there already."""
        loaded = await self._store.load(self.history)
        new = loaded.events[max(0, self._sequence + 1 - loaded.first) :] if self._sequence else ()
        there = 0
        for data, record in zip(new, list(islice(self._waiting, len(new))), strict=False):
            if data != encoded(record, self._instance):
                break
            there += 1
        for _ in range(there):
            self._waiting.popleft()
        self._sequence, self._size, self._known = loaded.sequence, len(loaded.events), True

    def _batch(self) -> Sequence[bytes]:
        batch: list[bytes] = []
        size = 0
        for record in islice(self._waiting, APPEND_EVENTS_MAX):
            data = encoded(record, self._instance)
            size += len(data)
            if size > APPEND_BYTES_MAX:
                break
            batch.append(data)
        return batch

    def _advance(self, count: int, sequence: int) -> None:
        for _ in range(count):
            self._waiting.popleft()
        self._sequence, self._known = sequence, True
        self._size += count
