"""Reduces parts of the offset log to the newest commit of each key, and counts the records by outcome.

Keys are not read one by one: a group's keys of one topic differ in their last four bytes alone, the partition. So what
is before them is read once, and looked up afterwards. Of the records of one key only the last one's value is read.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import compress, repeat
from sys import intern
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kafka.offset_log.commits import CommitColumns, OffsetPair
from braid.kafka.offset_log.records import OffsetCommit, read_key, read_value
from braid.kafka.offset_log.values import read_values
from braid.kernel.errors import BraidError, Invalid, Unsupported
from braid.kernel.limits.lagmon.sampling import OFFSET_DAMAGE_KEPT, OFFSET_PAIRS_MAX
from braid.kernel.record_columns import Cells, RecordColumns, pieces_at, pieces_in

_Ints = NDArray[np.int64]
_VERSION: Final = np.dtype(">i2")
_PARTITION: Final = np.dtype(">i4")
_VERSION_MAX: Final = 1  # of the keys of commits
_KEY_BYTES_MIN: Final = 10  # version, two empty strings, partition
_PARTITION_BITS: Final = 32
_PARTITION_MASK: Final = (1 << _PARTITION_BITS) - 1
_UNREAD: Final = -1  # the number of a pair not met before
_DAMAGED: Final = -2
_NO_PARTITION: Final = bytes(_PARTITION.itemsize)
_NEWEST_KEY: Final = b"\0\1"


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
    """Reads the offset log of one cluster, part after part.

    Attributes:
        counts: What was taken so far.
        damage: The last places that could not be read, newest last.
    """

    counts: OffsetCounts = field(default_factory=OffsetCounts)
    damage: deque[Damage] = field(default_factory=lambda: deque(maxlen=OFFSET_DAMAGE_KEPT))
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _pairs: list[OffsetPair] = field(default_factory=list)

    @property
    def remembered(self) -> int:
        """The number of groups and topics that were read once and are looked up since."""
        return len(self._pairs)

    def take(self, partition: int, part: RecordColumns) -> CommitColumns:
        """Returns the newest commit of each key in records of one partition of the offset log.

        Never raises: what cannot be read is counted and passed over, and an earlier commit of the same key in the
        part stands in for it.
        """
        if len(self._pairs) >= OFFSET_PAIRS_MAX:
            self._numbers.clear()
            self._pairs.clear()
        self.counts.records += len(part)
        rows, keys = self._keys(partition, part)
        order = np.argsort(keys, kind="stable")
        rows, keys = rows[order], keys[order]
        last = np.ones(len(keys), np.bool_)
        last[:-1] = keys[1:] != keys[:-1]
        self.counts.replaced += len(keys) - int(last.sum())
        return self._values(partition, part, rows, last, keys[last])

    def _keys(self, partition: int, part: RecordColumns) -> tuple[_Ints, _Ints]:
        """Returns the rows that are commits, and for each a number that its group, topic and partition have alone."""
        starts, sizes = part.keys
        there = sizes >= _VERSION.itemsize
        versions = np.zeros(len(part), np.int64)
        versions[there] = pieces_at(part.data, starts[there], _VERSION)
        other = versions > _VERSION_MAX
        usual = ~other & (versions >= 0) & (sizes >= _KEY_BYTES_MIN)
        self.counts.other += int(other.sum())
        rows = np.flatnonzero(usual)
        starts, sizes = starts[rows], sizes[rows]
        partitions = pieces_at(part.data, starts + sizes - _PARTITION.itemsize, _PARTITION).astype(np.int64)
        names = Cells(starts + _VERSION.itemsize, sizes - _VERSION.itemsize - _PARTITION.itemsize)
        numbers = self._pair_numbers(part.data, names)
        good = (numbers >= 0) & (partitions >= 0)
        usual[rows[~good]] = False
        for row in np.flatnonzero(~(usual | other)).tolist():
            self._note(partition, int(part.offsets[row]), _why_not(part.cell(part.keys, row)))
        return rows[good], (numbers << _PARTITION_BITS | partitions)[good]

    def _pair_numbers(self, data: memoryview, names: Cells) -> _Ints:
        """Returns the number of each group and topic; their names stand alike in keys of both versions."""
        raws = [raw or b"" for raw in pieces_in(data, names)]
        found = np.fromiter(map(self._numbers.get, raws, repeat(_UNREAD)), np.int64, len(raws))
        unread = np.flatnonzero(found == _UNREAD).tolist()
        if unread:
            new = {raw: self._read_pair(raw) for raw in dict.fromkeys(raws[row] for row in unread)}
            found[unread] = [new[raws[row]] for row in unread]
        return found

    def _read_pair(self, raw: bytes) -> int:
        """Reads a group and a topic met for the first time. What is damaged is not remembered."""
        try:
            key = read_key(_NEWEST_KEY + raw + _NO_PARTITION)
        except Invalid:
            return _DAMAGED
        assert key is not None, "its version is a commit's"
        number = self._numbers[raw] = len(self._pairs)
        self._pairs.append(OffsetPair(intern(key.group), intern(key.topic)))
        return number

    def _values(
        self, partition: int, part: RecordColumns, rows: _Ints, last: NDArray[np.bool_], keys: _Ints
    ) -> CommitColumns:
        """Reads the last value of each key; where that is not possible, the last readable one before it."""
        values = part.values.of(rows[last])
        gone = values.sizes == -1
        found = read_values(part.data, values)
        metadata = _metadata(part.data, found.metadata)
        kept = np.ones(len(keys), np.bool_)
        ends = np.flatnonzero(last)
        for at in np.flatnonzero(~found.read & ~gone).tolist():
            first = int(ends[at - 1]) + 1 if at else 0
            commit = self._last_readable(partition, part, rows[first : int(ends[at]) + 1])
            kept[at] = commit is not None
            gone[at] = commit is None or commit.is_gone
            if commit is not None and commit.value is not None:
                found.offsets[at], found.times_ms[at] = commit.value.offset, commit.value.commit_time_ms
                metadata[at] = commit.value.metadata.encode()
        if not kept.all():
            keys, gone, metadata = keys[kept], gone[kept], list(compress(metadata, kept.tolist()))
        self.counts.tombstones += int(gone.sum())
        self.counts.commits += len(gone) - int(gone.sum())
        numbers = keys >> _PARTITION_BITS
        pairs, pair = np.unique(numbers, return_inverse=True)
        return CommitColumns(
            [self._pairs[number] for number in pairs.tolist()],
            pair,
            keys & _PARTITION_MASK,
            gone,
            found.offsets[kept],
            found.times_ms[kept],
            metadata,
        )

    def _last_readable(self, partition: int, part: RecordColumns, rows: _Ints) -> "_Last | None":
        """Reads the records of one key one by one, from the last one on."""
        for turn, row in enumerate(reversed(rows.tolist())):
            self.counts.replaced -= min(turn, 1)
            value = part.cell(part.values, row)
            if value is None:
                return _Last(True, None)
            try:
                return _Last(False, read_value(value))
            except (Invalid, Unsupported) as error:
                self._note(partition, int(part.offsets[row]), error)
        return None

    def _note(self, partition: int, offset: int, error: BraidError) -> None:
        if isinstance(error, Unsupported):
            self.counts.unsupported += 1
        else:
            self.counts.damaged += 1
        self.damage.append(Damage(partition, offset, error.message))


class _Last(NamedTuple):
    """The newest readable record of a key: a tombstone, or a commit."""

    is_gone: bool
    value: OffsetCommit | None


def _metadata(data: memoryview, cells: Cells) -> list[bytes]:
    """Returns the bytes of each metadata; empty for those that were not read."""
    found: list[bytes] = [b""] * len(cells.starts)
    there = np.flatnonzero(cells.sizes > 0)
    if len(there) == len(found):
        return [piece or b"" for piece in pieces_in(data, cells)]
    for row, piece in zip(there.tolist(), pieces_in(data, cells.of(there)), strict=True):
        found[row] = piece or b""
    return found


def _why_not(key: bytes | None) -> BraidError:
    """Returns why a key that is no commit's cannot be read."""
    if key is None:
        return Invalid("a record without key")
    try:
        read_key(key)
    except Invalid as error:
        return error
    return Invalid("the key is not a commit's")
