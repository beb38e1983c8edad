"""Reduces chunks of the offset log to the newest commit of each key, and counts the records by outcome.

Most records of a chunk are replaced by later ones of the same key in the same chunk. So records are gathered by their
raw key first, and only the last of each is read; a raw key is read once and remembered.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from braid.kafka.offset_log.records import OffsetCommit, OffsetKey, read_key, read_value
from braid.kernel.errors import BraidError, Invalid, Unsupported
from braid.kernel.limits.lagmon import OFFSET_DAMAGE_KEPT, OFFSET_KEYS_MAX
from braid.kernel.ports import KafkaRecord

_UNREAD: Final = OffsetKey("", "", -1)  # no key reads so


class Damage(NamedTuple):
    """The place of a record of the offset log that could not be read."""

    partition: int
    offset: int
    reason: str


@dataclass(slots=True)
class OffsetCounts:
    """Numbers of records taken, by outcome.

    Attributes:
        records: All of them.
        replaced: A later one of the same key was in the same chunk.
        commits: Read as the newest of their key.
        tombstones: Said that a commit is gone.
        other: Of another kind than commits, by key version.
        unsupported: Commits of a value version this release does not know.
        damaged: Neither.
    """

    records: int = 0
    replaced: int = 0
    commits: int = 0
    tombstones: int = 0
    other: int = 0
    unsupported: int = 0
    damaged: int = 0


@dataclass(slots=True)
class OffsetTable:
    """Reads the offset log of one cluster, chunk after chunk.

    Attributes:
        counts: What was taken so far.
        damage: The last places that could not be read, newest last.
    """

    counts: OffsetCounts = field(default_factory=OffsetCounts)
    damage: deque[Damage] = field(default_factory=lambda: deque(maxlen=OFFSET_DAMAGE_KEPT))
    _keys: dict[bytes, OffsetKey | None] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def take(self, partition: int, records: Sequence[KafkaRecord]) -> Mapping[OffsetKey, OffsetCommit | None]:
        """Returns the newest commit of each key in a chunk of one partition of the offset log; None where it is gone.

        Never raises: what cannot be read is counted and passed over, and an earlier commit of the same key in the
        chunk stands in for it.
        """
        latest = {record.key: record for record in records}
        counts = self.counts
        counts.records += len(records)
        counts.replaced += len(records) - len(latest)
        found: dict[OffsetKey, OffsetCommit | None] = {}
        unreadable: dict[bytes, OffsetKey] = {}
        known = self._keys.get
        for raw, record in latest.items():
            key = known(raw, _UNREAD) if raw is not None else _UNREAD
            if key is _UNREAD:
                key = self._read_key(partition, record)
            if key is None:
                counts.other += 1
            elif key is not _UNREAD and not self._take_value(partition, key, record, found) and raw is not None:
                unreadable[raw] = key
        if unreadable:
            self._take_earlier(partition, unreadable, records, found)
        return found

    def _take_value(
        self, partition: int, key: OffsetKey, record: KafkaRecord, found: dict[OffsetKey, OffsetCommit | None]
    ) -> bool:
        """Reads a value; returns whether that was possible."""
        if record.value is None:
            self.counts.tombstones += 1
            found[key] = None
            return True
        try:
            found[key] = read_value(record.value)
        except (Invalid, Unsupported) as error:
            self._note(partition, record, error)
            return False
        self.counts.commits += 1
        return True

    def _take_earlier(
        self,
        partition: int,
        unreadable: dict[bytes, OffsetKey],
        records: Sequence[KafkaRecord],
        found: dict[OffsetKey, OffsetCommit | None],
    ) -> None:
        """Takes, for keys whose last record is unreadable, the last readable one before it."""
        last: dict[bytes, int] = {record.key: record.offset for record in records if record.key in unreadable}
        for record in reversed(records):
            raw = record.key
            if raw is None or raw not in unreadable or record.offset == last[raw]:
                continue
            self.counts.replaced -= 1
            if self._take_value(partition, unreadable[raw], record, found):
                del unreadable[raw]

    def _read_key(self, partition: int, record: KafkaRecord) -> OffsetKey | None:
        """Reads a key seen for the first time; `_UNREAD` when it is damaged."""
        if record.key is None:
            self._note(partition, record, Invalid("a record without key"))
            return _UNREAD
        try:
            key = read_key(record.key)
        except Invalid as error:
            self._note(partition, record, error)
            return _UNREAD
        if len(self._keys) >= OFFSET_KEYS_MAX:
            self._keys.clear()
            self._names.clear()
        if key is not None:
            key = OffsetKey(self._interned(key.group), self._interned(key.topic), key.partition)
        self._keys[record.key] = key
        return key

    def _interned(self, name: str) -> str:
        return self._names.setdefault(name, name)

    def _note(self, partition: int, record: KafkaRecord, error: BraidError) -> None:
        if isinstance(error, Unsupported):
            self.counts.unsupported += 1
        else:
            self.counts.damaged += 1
        self.damage.append(Damage(partition, record.offset, error.message))
