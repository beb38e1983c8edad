"""The progress of all groups on one cluster as columns: a row for each group and partition. Pure.

A row's number stays until the row is dropped. Envelopes are kept as they were written, and decoded when lag depends on
them; what lag needs of a simple one then stands in columns, and everything else is left to `policy`.
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.progress.cursors import live_cursor
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import EMPTY, Ranges
from services.lagmon.columns.growing import grown
from services.lagmon.policy import LONG_AGO, Commit, PartitionProgress, RecordProbe

_ENVELOPE: Final = re.compile(rb"b[0-9]{1,4}:")
_NEWEST: Final = b"b1:"
_PARTITION_BITS: Final = 32
_NONE: Final = -1
_NUMBERS: Final = np.dtype(
    [
        ("pair", "i8"), ("partition", "i8"), ("log", "i8"), ("origin", "i8"), ("kind", "i8"),
        ("committed", "i8"), ("time_ms", "i8"), ("heard_at", "f8"),
        ("base", "i8"), ("first_end", "i8"), ("beyond", "i8"), ("claims_end", "i8"),
        ("oldest_ms", "i8"), ("head_ms", "i8"), ("beside", "i8"),
        ("probe_offset", "i8"), ("probe_ms", "i8"), ("probe_at", "f8"),
    ]
)  # fmt: skip


class Kind(IntEnum):
    """Tells how much is known of a row's newest commit."""

    FREE = 0  # no row
    EXPECTED = 1  # a registered group without a commit
    PLAIN = 2  # a commit without an envelope
    UNDECODED = 3  # an envelope that was not needed yet
    SIMPLE = 4  # an envelope whose columns say all that lag needs
    RICH = 5  # an envelope that `policy` must look at: it is split


class PairName(NamedTuple):
    """A group and a topic."""

    group: str
    topic: str


class SavedRows(NamedTuple):
    """The commits of rows, as a checkpoint holds them; `pair` is a place in `pairs`."""

    pairs: Sequence[PairName]
    pair: NDArray[np.int64]
    partitions: NDArray[np.int64]
    origins: NDArray[np.int64]
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    metadata: Sequence[bytes]


class ProgressColumns:
    """The rows of one cluster by number. Columns of envelopes mean something where rows are `SIMPLE` or `PLAIN`.

    Attributes:
        pairs: Groups and topics by number; None where a number is free.
        no_records: By row, offsets found to hold no record of anybody's.
        pair_stamps: By number of a pair, a number that no earlier pair of that number had.
        complete: By pair, how many partitions from 0 on all have rows, where that was found out.
        pair_changes: Grows whenever a pair is added or dropped.
    """

    def __init__(self) -> None:
        self.pairs: list[PairName | None] = []
        self.no_records: dict[int, Ranges] = {}
        self.pair_stamps: NDArray[np.int64] = np.zeros(0, np.int64)
        self.pair_changes = 0
        self.complete: dict[int, int] = {}
        self._pair_numbers: dict[PairName, int] = {}
        self._pair_rows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._free_pairs: list[int] = []
        self._index: dict[int, int] = {}
        self._columns = {name: np.zeros(0, _NUMBERS[name]) for name in _NUMBERS.names or ()}
        self._metadata: NDArray[np.object_] = np.zeros(0, np.object_)
        self._free: list[int] = []
        self._used = 0

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        """Returns a column with all rows, free ones too."""
        return self._columns[name]

    def rows(self) -> NDArray[np.int64]:
        """Returns the numbers of all rows."""
        return np.flatnonzero(self._columns["kind"][: self._used] != Kind.FREE)

    def pair_number(self, pair: PairName) -> int:
        """Returns the number of a group and topic, a new one if they are not known."""
        known = self._pair_numbers.get(pair)
        if known is not None:
            return known
        if self._free_pairs:
            number = self._free_pairs.pop()
            self.pairs[number] = pair
        else:
            number = len(self.pairs)
            self.pairs.append(pair)
            self._pair_rows = grown(self._pair_rows, number + 1, 0)
            self.pair_stamps = grown(self.pair_stamps, number + 1, 0)
        self._pair_numbers[pair] = number
        self.pair_changes += 1
        self.pair_stamps[number] = self.pair_changes
        return number

    def numbers(self, pairs: Iterable[PairName]) -> NDArray[np.int64]:
        """Returns the number of each pair, -1 where it is not known."""
        return np.array([self._pair_numbers.get(pair, _NONE) for pair in pairs], np.int64)

    def row_of(self, pair: PairName, partition: int) -> int:
        """Returns the row of one group and partition, -1 where there is none."""
        number = self._pair_numbers.get(pair)
        return _NONE if number is None else self._index.get(number << _PARTITION_BITS | partition, _NONE)

    def find(self, pairs: NDArray[np.int64], partitions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the row of each pair and partition, -1 where there is none."""
        keys = (pairs << _PARTITION_BITS | partitions).tolist()
        return np.fromiter(map(self._index.get, keys, repeat(_NONE)), np.int64, len(keys))

    def add(self, pairs: NDArray[np.int64], partitions: NDArray[np.int64], logs: Sequence[int]) -> NDArray[np.int64]:
        """Adds rows of keys that have none, without a commit; returns their numbers."""
        count = len(pairs)
        again = [self._free.pop() for _ in range(min(count, len(self._free)))]
        rows = np.array([*again, *range(self._used, self._used + count - len(again))], np.int64)
        self._used += count - len(again)
        self._columns = {name: grown(column, self._used, Kind.FREE) for name, column in self._columns.items()}
        self._metadata = grown(self._metadata, self._used, b"")
        columns = self._columns
        columns["pair"][rows], columns["partition"][rows], columns["log"][rows] = pairs, partitions, logs
        columns["kind"][rows], columns["committed"][rows], columns["time_ms"][rows] = Kind.EXPECTED, _NONE, 0
        columns["origin"][rows], columns["heard_at"][rows] = _NONE, LONG_AGO
        columns["probe_offset"][rows], columns["probe_ms"][rows], columns["probe_at"][rows] = _NONE, _NONE, 0.0
        self._put_plain(rows, np.zeros(count, np.int64))
        self._metadata[rows] = b""
        self._index.update(zip((pairs << _PARTITION_BITS | partitions).tolist(), rows.tolist(), strict=True))
        np.add.at(self._pair_rows, pairs, 1)
        return rows

    def commit(
        self,
        rows: NDArray[np.int64],
        offsets: NDArray[np.int64],
        times_ms: NDArray[np.int64],
        metadata: Sequence[bytes],
        origin: int,
        heard_at: float,
    ) -> None:
        """Writes the newest commits of rows."""
        columns = self._columns
        columns["committed"][rows], columns["time_ms"][rows] = offsets, times_ms
        columns["origin"][rows], columns["heard_at"][rows] = origin, heard_at
        if not any(metadata):
            columns["kind"][rows], self._metadata[rows] = Kind.PLAIN, b""
            self._put_plain(rows, np.maximum(offsets, 0))
            return
        envelopes = [each[:3] == _NEWEST or _ENVELOPE.match(each) is not None for each in metadata]
        kept = np.empty(len(rows), np.object_)
        if all(envelopes):  # what lag needs of them is written when they are decoded
            columns["kind"][rows], kept[:] = Kind.UNDECODED, metadata
        else:
            columns["kind"][rows] = np.where(envelopes, Kind.UNDECODED, Kind.PLAIN)
            kept[:] = [each if is_one else b"" for each, is_one in zip(metadata, envelopes, strict=True)]
            self._put_plain(rows, np.maximum(offsets, 0))
        self._metadata[rows] = kept

    def add_no_record(self, row: int, offset: int) -> None:
        """Notes that no application's record lies at an offset."""
        self.no_records[row] = self.no_records.get(row, EMPTY).add(offset, offset + 1)

    def drop(self, rows: Iterable[int]) -> None:
        """Drops rows, and pairs that have no other."""
        columns = self._columns
        for row in rows:
            pair = int(columns["pair"][row])
            del self._index[pair << _PARTITION_BITS | int(columns["partition"][row])]
            columns["kind"][row], self._metadata[row] = Kind.FREE, b""
            self.no_records.pop(row, None)
            self._free.append(row)
            self._pair_rows[pair] -= 1
            self.complete.pop(pair, None)
            self.release(pair)

    def release(self, pair: int) -> None:
        """Forgets a pair that has no rows."""
        name = self.pairs[pair]
        if name is not None and not self._pair_rows[pair]:
            self.pairs[pair] = None
            self.complete.pop(pair, None)
            del self._pair_numbers[name]
            self._free_pairs.append(pair)
            self.pair_changes += 1
            self.pair_stamps[pair] = self.pair_changes

    def decode(self, rows: NDArray[np.int64]) -> None:
        """Decodes the envelopes of rows whose envelopes were not needed before."""
        columns = self._columns
        for row in rows[columns["kind"][rows] == Kind.UNDECODED].tolist():
            commit = self.commit_of(row)
            assert commit is not None, "it has an envelope"
            simple = _simple(commit.fields)
            columns["kind"][row] = Kind.RICH if simple is None else Kind.SIMPLE
            if simple is not None:
                for name, value in zip(_Simple._fields, simple, strict=True):
                    columns[name][row] = value

    def commit_of(self, row: int) -> Commit | None:
        """Returns the newest commit of a row; None for none."""
        columns = self._columns
        if columns["kind"][row] <= Kind.EXPECTED:
            return None
        return commit_of(
            columns["committed"][row], self._metadata[row], columns["time_ms"][row], columns["heard_at"][row]
        )

    def progress_of(self, row: int) -> PartitionProgress:
        """Returns all that is known of a row."""
        columns = self._columns
        offset, ms = int(columns["probe_offset"][row]), int(columns["probe_ms"][row])
        probe = RecordProbe(offset, None if ms < 0 else ms, float(columns["probe_at"][row])) if offset >= 0 else None
        return PartitionProgress(self.commit_of(row), probe, self.no_records.get(row, EMPTY))

    def metadata(self, rows: NDArray[np.int64]) -> NDArray[np.object_]:
        """Returns the envelopes of rows as they were written, empty for none."""
        found: NDArray[np.object_] = self._metadata[rows]
        return found

    def commits(self) -> "SavedRows":
        """Returns the commits of all rows that have one; rows of a group and topic stand together."""
        columns, rows = self._columns, self.rows()
        rows = rows[columns["kind"][rows] > Kind.EXPECTED]
        rows = rows[np.argsort(columns["pair"][rows], kind="stable")]
        numbers, pair = np.unique(columns["pair"][rows], return_inverse=True)
        pairs = [name for number in numbers.tolist() if (name := self.pairs[number]) is not None]
        return SavedRows(
            pairs,
            pair,
            columns["partition"][rows],
            columns["origin"][rows],
            columns["committed"][rows],
            columns["time_ms"][rows],
            self._metadata[rows].tolist(),
        )

    def _put_plain(self, rows: NDArray[np.int64], base: NDArray[np.int64]) -> None:
        """Writes what a commit of an offset alone claims."""
        columns = self._columns
        for name in ("base", "first_end", "claims_end"):
            columns[name][rows] = base
        columns["beyond"][rows] = columns["beside"][rows] = 0
        columns["oldest_ms"][rows] = columns["head_ms"][rows] = _NONE


class _Simple(NamedTuple):
    """The columns of an envelope that is not split."""

    base: int
    first_end: int
    beyond: int
    claims_end: int
    oldest_ms: int
    head_ms: int
    beside: int


def commit_of(offset: int, metadata: bytes, time_ms: int, heard_at: float) -> Commit:
    """Makes a commit of what a row holds."""
    return Commit(int(offset), metadata.decode(errors="replace"), int(time_ms), float(heard_at))


def _simple(fields: EnvelopeFields) -> _Simple | None:
    """Returns what lag needs of an envelope; None if it is split, or claims nothing from offset 0."""
    if fields.cursors or fields.until is not None or live_cursor(fields) is not None:
        return None
    claims = fields.claims
    first_end = claims.spans[0].end if claims and claims.start == 0 else 0
    oldest, head = fields.oldest_ingested_at_ms, fields.head_ingested_at_ms
    if (oldest is not None and oldest < 0) or (head is not None and head < 0):
        return None
    return _Simple(
        fields.base,
        first_end,
        claims.count - first_end,
        claims.end or 0,
        _NONE if oldest is None else oldest,
        _NONE if head is None else head,
        0 if fields.spill is None else fields.spill.done,
    )
