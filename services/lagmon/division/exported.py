"""Rows of one cluster as this replica shares them, in versions: all of them, or what changed since one. Pure."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.division import LAG_SHARE_METADATA_BYTES, LAG_SHARE_PAIRS, LAG_SHARE_ROWS
from services.lagmon.columns.lags import LagColumns, Lags
from services.lagmon.columns.pairs import PairKey
from services.lagmon.division.shared_rows import Seen, SharedNumbers, changed_rows, shared_numbers
from services.lagmon.policy import Now

_Ints = NDArray[np.int64]


class SharedRows(NamedTuple):
    """Some rows of one cluster, in one message.

    Attributes:
        places: Which rows they are.
        pair, partition: Their subjects.
        numbers, metadata: What is shared of them.
    """

    places: _Ints
    pair: _Ints
    partition: _Ints
    numbers: SharedNumbers
    metadata: Sequence[bytes]


class SharedPairs(NamedTuple):
    """Some of the groups and topics of one cluster, in order, in one message. All of them come before any rows."""

    keys: Sequence[PairKey]


class ExportedCluster:
    """The shared rows of one cluster.

    Attributes:
        version: Of the newest change.
        seen: When ends of logs were seen.
        size: Rows.
    """

    def __init__(self, after: int = 0) -> None:
        """Shares nothing yet; its versions are greater than `after`, so that none was another's before."""
        self.version = after
        self.seen = Seen(0, 0)
        self.size = 0
        self._shape_version = 0
        self._columns: LagColumns | None = None
        self._numbers: SharedNumbers | None = None
        self._changed: _Ints = np.zeros(0, np.int64)

    def take(self, columns: LagColumns, now: Now) -> None:
        """Takes in a newer reading."""
        numbers, self.seen = shared_numbers(columns.lags, now)
        before, known = self._columns, self._numbers
        self._columns = columns
        if before is None or known is None or not _same_shape(before, columns):
            self.version += 1
            self._shape_version, self._numbers, self.size = self.version, numbers, len(columns)
            self._changed = np.full(len(columns), self.version)
            return
        changed = changed_rows(known, numbers)
        differs: NDArray[np.bool_] = before.lags.metadata != columns.lags.metadata
        changed |= differs
        if changed.any():
            self.version += 1
            self._changed[changed] = self.version
            self._numbers = SharedNumbers._make(
                np.where(changed, new, old) for old, new in zip(known, numbers, strict=True)
            )

    def needs_all(self, version: int) -> bool:
        """Whether one that has a version must be sent all rows: rows came or went since, or it has nothing."""
        return version < self._shape_version or version > self.version

    def since(self, version: int) -> Iterator[SharedPairs | SharedRows]:
        """Returns what one lacks that has a version, in messages of bounded size: pairs first, if it needs all.

        What it yields is as of now, however late it is asked for.
        """
        columns, numbers = self._columns, self._numbers
        if columns is None or numbers is None:
            return iter(())
        if self.needs_all(version):
            return chain(_pairs(columns.keys), _rows(columns.lags, numbers, np.arange(len(columns))))
        return _rows(columns.lags, numbers, np.flatnonzero(self._changed > version))


def _pairs(keys: Sequence[PairKey]) -> Iterator[SharedPairs]:
    return (SharedPairs(keys[at : at + LAG_SHARE_PAIRS]) for at in range(0, len(keys), LAG_SHARE_PAIRS))


def _rows(lags: Lags, numbers: SharedNumbers, places: _Ints) -> Iterator[SharedRows]:
    for part in _parts(places, lags.metadata[places]):
        chosen = SharedNumbers._make(column[part] for column in numbers)
        yield SharedRows(part, lags.pair[part], lags.partition[part], chosen, lags.metadata[part].tolist())


def _same_shape(before: LagColumns, after: LagColumns) -> bool:
    """Whether both have the same rows in the same order."""
    return (
        len(before) == len(after)
        and np.array_equal(before.lags.pair, after.lags.pair)
        and np.array_equal(before.lags.partition, after.lags.partition)
        and (before.keys is after.keys or before.keys == after.keys)
    )


def _parts(places: _Ints, metadata: NDArray[np.object_]) -> Iterator[_Ints]:
    """Splits rows where a message has enough of them, or of their envelopes."""
    sizes = np.fromiter(map(len, metadata), np.int64, len(metadata))
    number = np.maximum(np.cumsum(sizes) // LAG_SHARE_METADATA_BYTES, 0)
    cuts = set(np.flatnonzero(number[1:] != number[:-1]) + 1) | set(range(0, len(places), LAG_SHARE_ROWS))
    starts = sorted(cuts - {0, len(places)})
    for first, end in zip([0, *starts], [*starts, len(places)], strict=True):
        if end > first:
            yield places[first:end]
