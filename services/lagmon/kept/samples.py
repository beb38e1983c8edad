"""One sample of all lanes of all groups, as columns: the largest lag, and sums of undone records and of ends. Pure."""

from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass, field
from itertools import compress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_SERIES_MAX
from braid.kernel.timing.slices import finished
from services.lagmon.columns.gathered import channel_columns
from services.lagmon.columns.lags import Lags
from services.lagmon.columns.lanes import LaneRows, LaneTable, lane_rows, number_lanes
from services.lagmon.kept.rows import Flag, KeyTable
from services.lagmon.model.lag import LagRow, Source
from services.lagmon.policy import Now

_Ints = NDArray[np.int64]
_Hashes = NDArray[np.uint64]
_MIXED: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # the odd numbers of SplitMix64
_SHIFT: Final = np.uint64(31)


class LaneSamples(NamedTuple):
    """All partitions of each lane as its group consumes it, at one instant; columns by lane.

    Attributes:
        rows: Partitions.
        seconds: The largest lag.
        records, ends: Sums of undone records and of the logs' ends.
        partitions: The same for the same partitions: a sum of hashes.
        flags: What was seen, as the number of a `Flag`.
    """

    rows: _Ints
    seconds: NDArray[np.float64]
    records: _Ints
    ends: _Ints
    partitions: _Hashes
    flags: _Ints

    @classmethod
    def none(cls, lanes: int) -> "LaneSamples":
        """Returns lanes without rows."""
        kinds = (np.int64, np.float64, np.int64, np.int64, np.uint64, np.int64)
        return cls._make(np.zeros(lanes, kind) for kind in kinds)

    def of(self, chosen: NDArray[np.bool_]) -> "LaneSamples":
        """Returns some of the lanes."""
        return LaneSamples._make(column[chosen] for column in self)


@dataclass(slots=True)
class Sample:
    """All lanes at one instant.

    Attributes:
        now: The instant.
        catching_up: Clusters whose offsets were not read to their end: nothing is known of their rows.
        before: The sample before, whose names are used again where they are the same.
        lanes: The series that have rows, sorted.
        values: Of each of them.
        left_out: Rows of series that found no room.
    """

    now: Now
    catching_up: Collection[str] = ()
    before: "Sample | None" = None
    lanes: KeyTable = field(default_factory=KeyTable)
    values: LaneSamples = field(default_factory=lambda: LaneSamples.none(0))
    left_out: int = 0
    _table: LaneTable = field(default_factory=LaneTable)
    _there: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def add(self, rows: Iterable[LagRow]) -> None:
        """Takes all rows of single partitions. Topics that are no channel of the mesh are not kept."""
        finished(self.taking(rows))

    def taking(self, rows: Iterable[LagRow]) -> Generator[None, None, None]:
        """Takes all rows as `add` does, yielding where others may get their turn."""
        parts, before, self.before = channel_columns(rows), self.before, None
        table = yield from number_lanes(parts, before._table if before is not None else LaneTable())
        found = LaneSamples.none(len(table.names))
        for each in lane_rows(table, parts):
            lanes = table.parts[each.part]
            away = lanes.keys[0].cluster in self.catching_up
            _add(found, each, _flags(each.lags, catching_up=away), _hashes(each.lags, lanes.hashes))
            yield
        there = found.rows > 0
        over = np.flatnonzero(there)[KEPT_LAG_SERIES_MAX:]
        self.left_out = int(found.rows[over].sum())
        there[over] = False
        self._table, self._there = table, there
        if before is not None and before._table is table and np.array_equal(before._there, there):
            self.lanes = before.lanes
        else:
            self.lanes = KeyTable(compress(table.names, there))
        self.values = found if there.all() else found.of(there)


def _add(found: LaneSamples, each: LaneRows, flags: _Ints, hashes: _Hashes) -> None:
    """Adds consecutive rows; a lane comes once in them, and in several clusters perhaps."""
    lanes, firsts, lags = each.lanes, each.firsts, each.lags
    add, most = np.add.reduceat, np.maximum.reduceat
    found.rows[lanes] += np.diff(np.append(firsts, len(lags.pair)))
    found.seconds[lanes] = np.maximum(found.seconds[lanes], most(lags.seconds, firsts))
    found.records[lanes] += add(lags.records, firsts)
    found.ends[lanes] += add(lags.end, firsts)
    found.partitions[lanes] += add(hashes, firsts)
    found.flags[lanes] |= np.bitwise_or.reduceat(flags, firsts)


def _flags(lags: Lags, *, catching_up: bool) -> _Ints:
    flags = np.full(len(lags.pair), int(Flag.PRESENT), np.int64)
    flags |= np.where(lags.stale | catching_up, int(Flag.STALE), 0)
    flags |= np.where(lags.source == Source.UNKNOWN, int(Flag.UNKNOWN), 0)
    flags |= np.where(lags.source == Source.ESTIMATE, int(Flag.ESTIMATED), 0)
    flags |= np.where(lags.unattended, int(Flag.UNATTENDED), 0)
    return flags


def _hashes(lags: Lags, of_keys: _Hashes) -> _Hashes:
    """Mixes the hash of each row's cluster and topic with its partition."""
    mixed = of_keys[lags.pair] + lags.partition.astype(np.uint64) * _MIXED[0]
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MIXED[1]
    found: _Hashes = mixed ^ (mixed >> _SHIFT)
    return found
