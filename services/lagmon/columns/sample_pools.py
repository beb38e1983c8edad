"""Samples of the ends of many logs, kept in pools of rows of several lengths and widths. Pure.

A sample is an end with the first and the last time at which it was seen. A log has a row in one pool: short rows while
it has few samples, longer ones when it has more. Rows are narrow as a rule: ends are kept as 32 bits above the log's
first end, times as 32 bits of ticks. A log that this does not fit has a wide row, so that nothing is ever rounded.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX
from services.lagmon.columns.growing import grown

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int64 | np.int32 | np.int16]
WIDTH: Final = LAG_END_SAMPLES_MAX + 1  # one too many is written before the older half is thinned
TICKS: Final = 256  # a second
_LARGEST: Final = 2**32 - 1
_BEFORE: Final = 2**21  # seconds, 24 days: for samples that are recalled; narrow rows hold 170 days after
_WIDTHS: Final = (4, 16, WIDTH)
_WIDE: Final = len(_WIDTHS)  # the number of the pool of wide rows, behind those of narrow ones
_NOWHERE: Final = -1
_SPARE: Final = 8  # rows of a pool for each spare one: they are long
FREE_MIN: Final = 64  # free rows of a pool that are not worth moving the others
_THINNED: Final = np.r_[0 : LAG_END_SAMPLES_MAX // 2 : 2, LAG_END_SAMPLES_MAX // 2 : WIDTH]


def tick_before(at: float) -> float:
    """Returns the last time up to `at` that narrow rows can hold; it is at most 4 ms earlier."""
    return math.floor(at * TICKS) / TICKS


class Samples(NamedTuple):
    """Samples of logs, a row for each; the places behind a log's last sample mean nothing."""

    ends: _Ints
    firsts: _Floats
    lasts: _Floats


class Between(NamedTuple):
    """The samples around an offset of each log: the newest end that is not above it, and the next one.

    Attributes:
        after: When the former was last seen; NaN where there is none.
        by: When the latter was first seen; NaN where there is none.
    """

    from_end: _Ints
    to_end: _Ints
    after: _Floats
    by: _Floats


class _Pool:
    """Rows of one length and kind.

    Attributes:
        width: Samples of a row.
        epoch: The time of tick 0, in narrow rows.
        free: Rows that hold nothing.
    """

    def __init__(self, width: int, wide: bool) -> None:
        self.width = width
        self.epoch = 0.0
        self.free: list[int] = []
        self._wide = wide
        self._used = 0
        self._ends: NDArray[np.int64 | np.uint32] = np.zeros((0, width), np.int64 if wide else np.uint32)
        self._firsts: NDArray[np.float64 | np.uint32] = np.zeros((0, width), np.float64 if wide else np.uint32)
        self._lasts = self._firsts.copy()
        self._places = np.arange(width, dtype=np.int16)

    def take(self, count: int) -> _Ints:
        """Returns rows that hold nothing."""
        again = [self.free.pop() for _ in range(min(count, len(self.free)))]
        more = count - len(again)
        rows = np.array([*again, *range(self._used, self._used + more)], np.int64)
        self._used += more
        self._ends = grown(self._ends, self._used, spare=_SPARE)
        self._firsts = grown(self._firsts, self._used, spare=_SPARE)
        self._lasts = grown(self._lasts, self._used, spare=_SPARE)
        return rows

    def is_sparse(self) -> bool:
        """Whether more rows are free than used, so that the used ones should move together."""
        return len(self.free) > self._used - len(self.free) + FREE_MIN

    def pack(self, rows: _Numbers) -> _Ints:
        """Keeps these rows alone; returns where they are."""
        self._ends, self._firsts, self._lasts = self._ends[rows], self._firsts[rows], self._lasts[rows]
        self._used, self.free = len(rows), []
        return np.arange(len(rows))

    def read(self, rows: _Numbers, bases: _Ints) -> Samples:
        """Returns the samples of rows, whose first ends are `bases`."""
        ends = self._ends[rows].astype(np.int64)
        if not self._wide:
            ends += bases[:, np.newaxis]
        return Samples(ends, self._seconds(self._firsts[rows]), self._seconds(self._lasts[rows]))

    def write(self, rows: _Numbers, bases: _Ints, samples: Samples) -> None:
        """Writes the first samples of rows."""
        count = min(self.width, samples.ends.shape[1])
        ends = samples.ends[:, :count]
        self._ends[rows, :count] = ends if self._wide else (ends - bases[:, np.newaxis]).astype(np.uint32)
        self._firsts[rows, :count] = self._times(samples.firsts[:, :count])
        self._lasts[rows, :count] = self._times(samples.lasts[:, :count])

    def append(self, rows: _Numbers, bases: _Ints, places: _Numbers, ends: _Ints, at: float) -> None:
        """Writes a sample into each row, seen once."""
        self._ends[rows, places] = ends if self._wide else ends - bases
        self._firsts[rows, places] = self._lasts[rows, places] = self._times(np.float64(at))

    def see_again(self, rows: _Numbers, places: _Numbers, at: float) -> None:
        """Notes when a sample of each row was last seen."""
        self._lasts[rows, places] = self._times(np.float64(at))

    def thin(self, rows: _Numbers) -> None:
        """Leaves out every other sample of the older half of full rows."""
        for column in (self._ends, self._firsts, self._lasts):
            column[rows, : len(_THINNED)] = column[rows][:, _THINNED]

    def between(self, rows: _Numbers, bases: _Ints, counts: NDArray[np.int16], offsets: _Ints) -> Between:
        """Returns the samples around an offset of each row. `counts` says how many samples a row has."""
        ends = self._ends[rows]
        above = offsets if self._wide else offsets - bases
        limits = above if self._wide else np.clip(above, 0, _LARGEST).astype(np.uint32)
        found = np.count_nonzero((ends <= limits[:, np.newaxis]) & (self._places < counts[:, np.newaxis]), axis=1)
        if not self._wide:
            found[above < 0] = 0
        before, behind = np.maximum(found - 1, 0), np.minimum(found, self.width - 1)
        each = np.arange(len(rows))
        from_end, to_end = ends[each, before].astype(np.int64), ends[each, behind].astype(np.int64)
        after = np.where(found > 0, self._seconds(self._lasts[rows, before]), np.nan)
        by = np.where(found < counts, self._seconds(self._firsts[rows, behind]), np.nan)
        if not self._wide:
            from_end, to_end = from_end + bases, to_end + bases
        return Between(from_end, to_end, after, by)

    def _seconds(self, times: NDArray[np.float64 | np.uint32]) -> _Floats:
        return times.astype(np.float64) if self._wide else self.epoch + times.astype(np.float64) / TICKS

    def _times(self, seconds: "_Floats | np.float64") -> "NDArray[np.float64 | np.uint32]":
        return np.asarray(seconds if self._wide else ((seconds - self.epoch) * TICKS).astype(np.uint32))


class SamplePools:
    """The samples of logs by number.

    Attributes:
        counts: How many samples each log has.
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int16] = np.zeros(0, np.int16)
        self._pools = [*(_Pool(width, False) for width in _WIDTHS), _Pool(WIDTH, True)]
        self._pool_of: NDArray[np.int8] = np.zeros(0, np.int8)
        self._rows: NDArray[np.int32] = np.zeros(0, np.int32)
        self._bases: _Ints = np.zeros(0, np.int64)
        self._epoch = math.nan  # before the first sample

    def grow(self, logs: int) -> None:
        """Makes room for `logs` logs."""
        self.counts = grown(self.counts, logs, 0)
        self._pool_of, self._rows = grown(self._pool_of, logs, _NOWHERE), grown(self._rows, logs, 0)
        self._bases = grown(self._bases, logs, 0)

    def append(self, logs: _Ints, ends: _Ints, at: float) -> None:
        """Adds a sample to each log: an end above all others that it has, seen once."""
        if not len(logs):
            return
        counts = self.counts[logs]
        self._bases[logs[counts == 0]] = ends[counts == 0]
        wide = ~(ends - self._bases[logs] <= _LARGEST) | (not self._fits(at))
        self._move(logs, np.where(wide, _WIDE, np.searchsorted(_WIDTHS, counts + 1)))
        for pool, at_logs in self._by_pool(logs):
            some = logs[at_logs]
            pool.append(self._rows[some], self._bases[some], counts[at_logs], ends[at_logs], at)
        self.counts[logs] = counts + 1
        full = logs[counts + 1 == WIDTH]
        for pool, at_logs in self._by_pool(full):
            pool.thin(self._rows[full[at_logs]])
        self.counts[full] = len(_THINNED)

    def see_again(self, logs: _Ints, at: float) -> None:
        """Notes that the newest end of each log, which has one, was seen at that time."""
        if not self._fits(at):
            self._move(logs, np.full(len(logs), _WIDE))
        for pool, at_logs in self._by_pool(logs):
            some = logs[at_logs]
            pool.see_again(self._rows[some], self.counts[some] - 1, at)

    def clear(self, logs: _Ints) -> None:
        """Forgets all samples of logs."""
        for pool, at_logs in self._by_pool(logs):
            pool.free.extend(self._rows[logs[at_logs]].tolist())
        self.counts[logs], self._pool_of[logs] = 0, _NOWHERE
        self._pack()

    def replace(self, log: int, ends: Sequence[int], firsts: Sequence[float], lasts: Sequence[float]) -> None:
        """Writes all samples of one log, the oldest first; there is at least one."""
        logs = np.array([log])
        self.clear(logs)
        self._bases[log] = ends[0]
        fit = ends[-1] - ends[0] <= _LARGEST and all(map(self._fits, (*firsts, *lasts)))
        number = int(np.searchsorted(_WIDTHS, len(ends))) if fit else _WIDE
        pool = self._pools[number]
        rows = pool.take(1)
        pool.write(rows, self._bases[logs], Samples(np.array([ends], np.int64), np.array([firsts]), np.array([lasts])))
        self._pool_of[log], self._rows[log], self.counts[log] = number, rows[0], len(ends)

    def samples(self, log: int) -> tuple[list[int], list[float], list[float]]:
        """Returns the ends of one log, and when each was first and last seen."""
        count, logs = int(self.counts[log]), np.array([log])
        if not count:
            return [], [], []
        found = self._pools[self._pool_of[log]].read(self._rows[logs], self._bases[logs])
        return found.ends[0, :count].tolist(), found.firsts[0, :count].tolist(), found.lasts[0, :count].tolist()

    def between(self, logs: _Ints, offsets: _Ints) -> Between:
        """Returns the samples around an offset of each log."""
        count = len(logs)
        found = Between(
            np.zeros(count, np.int64), np.zeros(count, np.int64), np.full(count, np.nan), np.full(count, np.nan)
        )
        for pool, at_logs in self._by_pool(logs):
            some = logs[at_logs]
            part = pool.between(self._rows[some], self._bases[some], self.counts[some], offsets[at_logs])
            for whole, piece in zip(found, part, strict=True):
                whole[at_logs] = piece
        return found

    # --- how

    def _fits(self, at: float) -> bool:
        """Whether narrow rows can hold a time."""
        if math.isnan(self._epoch):
            self._epoch = float(math.floor(at) - _BEFORE)
            for pool in self._pools:
                pool.epoch = self._epoch
        ticks = (at - self._epoch) * TICKS
        return 0 <= ticks <= _LARGEST and ticks == int(ticks) and self._epoch + ticks / TICKS == at

    def _move(self, logs: _Ints, wanted: _Ints) -> None:
        """Moves logs into longer or wider rows, unless they are in such rows already."""
        now = self._pool_of[logs]
        moving = wanted > now
        if not moving.any():
            return
        logs, wanted, now = logs[moving], wanted[moving], now[moving]
        for number, target in enumerate(self._pools):
            for before in range(_NOWHERE, number):
                moved = logs[(now == before) & (wanted == number)]
                if not len(moved):
                    continue
                rows = target.take(len(moved))
                if before != _NOWHERE:
                    left, old = self._pools[before], self._rows[moved]
                    target.write(rows, self._bases[moved], left.read(old, self._bases[moved]))
                    left.free.extend(old.tolist())
                self._rows[moved], self._pool_of[moved] = rows, number
        self._pack()

    def _pack(self) -> None:
        for number, pool in enumerate(self._pools):
            if pool.is_sparse():
                logs = np.flatnonzero(self._pool_of == number)
                self._rows[logs] = pool.pack(self._rows[logs])

    def _by_pool(self, logs: _Ints) -> Iterator[tuple[_Pool, _Ints | slice]]:
        """Yields each pool that holds some of the logs, and their places in `logs`: often one holds all."""
        if not len(logs):
            return
        pool_of = self._pool_of[logs]
        first = int(pool_of[0])
        if (pool_of == first).all():
            if first != _NOWHERE:
                yield self._pools[first], slice(None)
            return
        for number, pool in enumerate(self._pools):
            places = np.flatnonzero(pool_of == number)
            if len(places):
                yield pool, places
