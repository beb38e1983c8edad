"""Sums rows up to longer steps, column by column. Pure.

The largest age is the largest; the smallest is the smallest, where every row knows its own. The last age and the undone
records are the last known. Counts and times add up, so
rates are means over the time in which they were known. What was absent stays absent, and a gap is no row.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.lagmon.kept.rows import COLUMNS, Column, Columns, Flag

_SUMMED = (Column.PRODUCED, Column.DONE, Column.RATED_MS, Column.KNOWN_MS)


def summed_up(columns: Columns, starts: Sequence[int]) -> Columns:
    """Sums up consecutive rows.

    Args:
        columns: Shape (columns, series, rows), rows in the order in which they were observed.
        starts: Where each sum begins, ascending from 0.

    Returns:
        Shape (columns, series, sums).
    """
    series = columns.shape[1]
    found = np.zeros((COLUMNS, series, len(starts)), np.int64)
    if not starts or not series:
        return found
    at = np.asarray(starts, np.intp)
    flags = columns[Column.FLAGS]
    for column in _SUMMED:
        found[column] = np.add.reduceat(columns[column], at, axis=1)
    found[Column.FLAGS] = np.bitwise_or.reduceat(flags, at, axis=1)
    seconds = (flags & Flag.SECONDS) != 0
    found[Column.MAX_MS] = np.maximum.reduceat(np.where(seconds, columns[Column.MAX_MS], 0), at, axis=1)
    smallest = (flags & Flag.SMALLEST) != 0
    unknown = np.logical_or.reduceat(seconds & ~smallest, at, axis=1) | ~np.logical_or.reduceat(seconds, at, axis=1)
    found[Column.FLAGS] = np.where(unknown, found[Column.FLAGS] & ~np.int64(Flag.SMALLEST), found[Column.FLAGS])
    ages = np.where(seconds, columns[Column.MIN_MS], np.iinfo(np.int64).max)
    found[Column.MIN_MS] = np.where(unknown, 0, np.minimum.reduceat(ages, at, axis=1))
    found[Column.LAST_MS] = _last(columns[Column.LAST_MS], seconds, at)
    found[Column.RECORDS] = _last(columns[Column.RECORDS], (flags & Flag.RECORDS) != 0, at)
    return found


def bucket_starts(times_ms: Sequence[int], step_ms: int) -> Sequence[int]:
    """Returns where a new step begins in a sequence of times; after the clock stepped back a step may come twice."""
    buckets = [time_ms // step_ms for time_ms in times_ms]
    return [at for at, bucket in enumerate(buckets) if at == 0 or bucket != buckets[at - 1]]


def _last(values: Columns, known: NDArray[np.bool_], at: NDArray[np.intp]) -> Columns:
    """Returns the last known value of each sum, 0 for none."""
    places = np.where(known, np.arange(values.shape[1]), -1)
    last = np.maximum.reduceat(places, at, axis=1)
    taken = np.take_along_axis(values, np.maximum(last, 0), axis=1)
    return np.where(last >= 0, taken, 0)
