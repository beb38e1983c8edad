"""Kept lag as values: series, one step of all series as columns, and one row of a series. Pure.

A column holds whole numbers; what is not known is 0 there, and the flags say so. Absent is never read as 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.lanes import LaneName

Columns = NDArray[np.int64]


SeriesKey = LaneName  # a series is a lane of one stream as one group consumes it; series are sorted by it


class KeyTable(tuple[SeriesKey, ...]):
    """The sorted series of a step. Steps with the same series share one table."""

    @cached_property
    def positions(self) -> Mapping[SeriesKey, int]:
        """The place of each series."""
        return {key: at for at, key in enumerate(self)}


class Column(IntEnum):
    """The columns that each step has. Times are milliseconds; produced and done records are counted over `RATED_MS`."""

    MAX_MS = 0
    LAST_MS = 1
    RECORDS = 2
    PRODUCED = 3
    DONE = 4
    RATED_MS = 5
    KNOWN_MS = 6
    FLAGS = 7
    MIN_MS = 8  # the smallest age; releases before it was kept wrote 8 columns


class Flag(IntFlag):
    """Marks of a row: which values are known, and what was seen in any sample of it."""

    PRESENT = 1
    SECONDS = 2  # the age is known
    RECORDS = 4  # the undone records are known
    STALE = 8
    UNKNOWN = 16
    ESTIMATED = 32
    UNATTENDED = 64
    SMALLEST = 128  # the smallest age is known


COLUMNS = len(Column)


@dataclass(frozen=True, eq=False)
class Step:
    """One step of all series.

    Attributes:
        time_ms: Its start on the wall clock, a multiple of its length.
        keys: Its series, sorted.
        columns: One row a `Column`, one column a series.
        stepped: Whether the wall clock stepped since the step before.
        origin: Of a coarse step: the number of the fine chunk that it sums up.
    """

    time_ms: int
    keys: KeyTable
    columns: Columns
    stepped: bool = False
    origin: int = 0

    def row(self, key: SeriesKey) -> "KeptRow | None":
        """Returns one series' row; None if it has none in this step."""
        at = self.keys.positions.get(key)
        return None if at is None else row_of(self.time_ms, self.columns[:, at], self.stepped)


class KeptRow(NamedTuple):
    """One series in one step.

    Attributes:
        time_ms: Start of the step on the wall clock.
        seconds_max, seconds_last: The largest and the last lag in seconds; None when it was not known at any time.
        records: Undone records at the end of the step.
        produced_per_s, done_per_s: None without two positions to compare. Done is negative after a rewind.
        known_seconds: For how long the lag in seconds was known.
        flags: What was seen.
        stepped: Whether the wall clock stepped since the step before.
        seconds_min: The smallest lag in seconds; None when it was not known at any time, or an earlier release kept it.
    """

    time_ms: int
    seconds_max: float | None
    seconds_last: float | None
    records: int | None
    produced_per_s: float | None
    done_per_s: float | None
    known_seconds: float
    flags: Flag
    stepped: bool
    seconds_min: float | None = None


class Series(NamedTuple):
    """The rows of one series, in the order in which they were observed."""

    key: SeriesKey
    rows: Sequence[KeptRow]


def row_of(time_ms: int, values: Columns, stepped: bool) -> KeptRow | None:
    """Reads one series' values of a step; None where the series was not there."""
    numbers: list[int] = values.tolist()
    flags = Flag(numbers[Column.FLAGS])
    if not flags & Flag.PRESENT:
        return None
    seconds = bool(flags & Flag.SECONDS)
    rated = numbers[Column.RATED_MS] / 1000
    return KeptRow(
        time_ms,
        numbers[Column.MAX_MS] / 1000 if seconds else None,
        numbers[Column.LAST_MS] / 1000 if seconds else None,
        numbers[Column.RECORDS] if flags & Flag.RECORDS else None,
        numbers[Column.PRODUCED] / rated if rated else None,
        numbers[Column.DONE] / rated if rated else None,
        numbers[Column.KNOWN_MS] / 1000,
        flags,
        stepped,
        numbers[Column.MIN_MS] / 1000 if seconds and flags & Flag.SMALLEST else None,
    )
