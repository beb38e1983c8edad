"""Turns samples of lag into steps of 10 seconds: largest, smallest and last lag, and what was produced and done.

Pure. Rates compare the positions at the ends of two steps. A lane whose partitions changed between them, whose log
shrank, or that was stale has no rate for that step.
"""

from collections.abc import Generator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.kept_lag import (
    KEPT_LAG_CLOCK_STEP_MS,
    KEPT_LAG_RATE_MS_MAX,
    KEPT_LAG_SAMPLE_MS_MAX,
    KEPT_LAG_STEP_MS,
)
from braid.kernel.timing.slices import finished
from services.lagmon.kept.rows import COLUMNS, Column, Columns, Flag, KeyTable, Step
from services.lagmon.kept.samples import LaneSamples, Sample
from services.lagmon.policy import Now

__all__ = ["Sample", "Sampler"]

_Ints = NDArray[np.int64]
_Places = NDArray[np.intp]
_NOWHERE: Final = -1


class _Positions(NamedTuple):
    """Where lanes are, by series.

    Attributes:
        known: Whether that is known.
        elapsed: When it was.
        ends, records, partitions: As in a sample.
    """

    known: NDArray[np.bool_]
    elapsed: NDArray[np.float64]
    ends: _Ints
    records: _Ints
    partitions: NDArray[np.uint64]

    @classmethod
    def none(cls, series: int) -> "_Positions":
        kinds = (np.bool_, np.float64, np.int64, np.int64, np.uint64)
        return cls._make(np.zeros(series, kind) for kind in kinds)

    def moved(self, places: _Places) -> "_Positions":
        return _Positions._make(_moved(column, places) for column in self)


class Sampler:
    """The open step, and the positions at the end of the one before."""

    def __init__(self) -> None:
        self._time_ms: int | None = None
        self._stepped = False
        self._before: Now | None = None
        self._keys = KeyTable()
        self._open: Columns = np.zeros((COLUMNS, 0), np.int64)  # without rates
        self._here = _Positions.none(0)  # at the last sample of the open step
        self._there = _Positions.none(0)  # at the end of the step before

    def observe(self, sample: Sample) -> Step | None:
        """Adds a sample; returns the step before when the sample begins another."""
        return finished(self.observing(sample))

    def observing(self, sample: Sample) -> Generator[None, None, Step | None]:
        """Adds a sample as `observe` does, yielding where others may get their turn."""
        now, before = sample.now, self._before
        stepped = before is not None and _clock_stepped(before, now)
        time_ms = now.wall_ms - now.wall_ms % KEPT_LAG_STEP_MS
        closed = None
        if self._time_ms is not None and time_ms != self._time_ms:
            closed = self._close(self._time_ms)
            self._stepped = False
            yield
        self._time_ms = time_ms
        self._stepped |= stepped
        since_ms = 0 if before is None else int(now.elapsed * 1000) - int(before.elapsed * 1000)
        rows = yield from self._rows(sample.lanes)
        self._take(rows, sample.values, now, since_ms if since_ms <= KEPT_LAG_SAMPLE_MS_MAX else 0)
        self._before = now
        return closed

    def _rows(self, lanes: KeyTable) -> Generator[None, None, _Places | slice]:
        """Makes room for series that are new; returns the place of each lane in the open step."""
        if lanes is self._keys or lanes == self._keys:
            return slice(None)
        places = self._keys.positions
        yield
        new = [key for key in lanes if key not in places]
        yield
        if new:
            self._move(lanes if len(new) + len(self._keys) == len(lanes) else KeyTable(sorted((*self._keys, *new))))
            yield
        if self._keys is lanes:
            return slice(None)
        places = self._keys.positions
        yield
        return np.array([places[key] for key in lanes], np.intp)

    def _move(self, keys: KeyTable) -> None:
        """Takes other series: what is known of those that stay goes with them."""
        places = self._keys.positions
        moved = np.array([places.get(key, _NOWHERE) for key in keys], np.intp)
        self._open = np.stack([_moved(column, moved) for column in self._open])
        self._here, self._there = self._here.moved(moved), self._there.moved(moved)
        self._keys = keys

    def _take(self, rows: _Places | slice, values: LaneSamples, now: Now, since_ms: int) -> None:
        step, here = self._open[:, rows], self._here
        flags, seen = values.flags, step[Column.FLAGS] | values.flags
        known = (flags & Flag.STALE) == 0
        timed = known & ((flags & Flag.UNKNOWN) == 0)
        last = np.rint(values.seconds * 1000).astype(np.int64)
        first = (step[Column.FLAGS] & Flag.SECONDS) == 0
        least = np.where(first, last, np.minimum(step[Column.MIN_MS], last))
        step[Column.FLAGS] = seen | np.where(known, int(Flag.RECORDS), 0)
        step[Column.FLAGS] |= np.where(timed, int(Flag.SECONDS | Flag.SMALLEST), 0)
        step[Column.RECORDS] = np.where(known, values.records, step[Column.RECORDS])
        step[Column.LAST_MS] = np.where(timed, last, step[Column.LAST_MS])
        step[Column.MIN_MS] = np.where(timed, least, step[Column.MIN_MS])
        step[Column.MAX_MS] = np.where(timed, np.maximum(step[Column.MAX_MS], last), step[Column.MAX_MS])
        step[Column.KNOWN_MS] += np.where(timed, since_ms, 0)
        self._open[:, rows] = step
        here.known[rows], here.elapsed[rows] = known, now.elapsed
        here.ends[rows], here.records[rows] = values.ends, values.records
        here.partitions[rows] = values.partitions

    def _close(self, time_ms: int) -> Step:
        """Ends the open step. Series that had no sample in it are forgotten."""
        columns, here, there = self._open, self._here, self._there
        columns[Column.PRODUCED], columns[Column.DONE], columns[Column.RATED_MS] = _rates(there, here)
        present = columns[Column.FLAGS] != 0
        if not present.all():
            kept = np.flatnonzero(present)
            columns, here = np.ascontiguousarray(columns[:, kept]), here.moved(kept)
            self._keys = KeyTable(self._keys[place] for place in kept.tolist())
        self._open = np.zeros_like(columns)
        self._here, self._there = _Positions.none(len(self._keys)), here
        return Step(time_ms, self._keys, columns, self._stepped)


def _rates(before: _Positions, now: _Positions) -> tuple[_Ints, _Ints, _Ints]:
    """Returns records produced and done between two positions, and the milliseconds between them; all 0 if unknown."""
    rated_ms = np.rint((now.elapsed - before.elapsed) * 1000).astype(np.int64)
    produced = now.ends - before.ends
    same = before.known & now.known & (before.partitions == now.partitions)
    rated = same & (produced >= 0) & (rated_ms > 0) & (rated_ms <= KEPT_LAG_RATE_MS_MAX)
    done = produced - (now.records - before.records)
    return np.where(rated, produced, 0), np.where(rated, done, 0), np.where(rated, rated_ms, 0)


def _moved(column: NDArray[np.generic], places: _Places) -> NDArray[np.generic]:
    """Returns the values of other places; 0 for those that were nowhere."""
    found = np.zeros(len(places), column.dtype)
    there = places != _NOWHERE
    found[there] = column[places[there]]
    return found


def _clock_stepped(before: Now, now: Now) -> bool:
    steady_ms = (now.elapsed - before.elapsed) * 1000
    return abs(now.wall_ms - before.wall_ms - steady_ms) > KEPT_LAG_CLOCK_STEP_MS
