"""Turns tables of lag into steps of 10 seconds: largest, smallest and last lag, and what was produced and done.

Pure. Rates compare the positions at the ends of two steps. A lane whose partitions changed between them, whose log
shrank, or that was stale has no rate for that step.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.lagmon.kept_lag import (
    KEPT_LAG_CLOCK_STEP_MS,
    KEPT_LAG_RATE_MS_MAX,
    KEPT_LAG_SAMPLE_MS_MAX,
    KEPT_LAG_SERIES_MAX,
    KEPT_LAG_STEP_MS,
)
from services.lagmon.kept.rows import COLUMNS, Flag, KeyTable, SeriesKey, Step
from services.lagmon.model.lag import LagRow, Source
from services.lagmon.policy import Now

_HASH_BITS: Final = (1 << 61) - 1
# As plain numbers: operators of an enumeration would take most of the time of a sample.
_PRESENT: Final = int(Flag.PRESENT)
_SECONDS: Final = int(Flag.SECONDS)
_RECORDS: Final = int(Flag.RECORDS)
_STALE: Final = int(Flag.STALE)
_UNKNOWN: Final = int(Flag.UNKNOWN)
_ESTIMATED: Final = int(Flag.ESTIMATED)
_UNATTENDED: Final = int(Flag.UNATTENDED)
_SMALLEST: Final = int(Flag.SMALLEST)


@dataclass(slots=True)
class LaneSample:
    """All partitions of one lane as one group consumes it, at one instant.

    Attributes:
        seconds: The largest lag.
        records, ends: Sums of undone records and of the logs' ends.
        partitions: The same for the same partitions: a sum of hashes.
        flags: What was seen, as the number of a `Flag`.
    """

    seconds: float = 0.0
    records: int = 0
    ends: int = 0
    partitions: int = 0
    flags: int = _PRESENT


@dataclass(slots=True)
class Sample:
    """All lanes at one instant.

    Attributes:
        now: The instant.
        catching_up: Clusters whose offsets were not read to their end: nothing is known of their rows.
        lanes: By series.
        left_out: Rows of series that found no room.
    """

    now: Now
    catching_up: Collection[str] = ()
    lanes: dict[SeriesKey, LaneSample] = field(default_factory=dict)
    left_out: int = 0

    def add(self, rows: Iterable[LagRow]) -> None:
        """Adds rows of single partitions. Topics that are no channel of the mesh are not kept."""
        for row in rows:
            key = row.key
            if not key.stream:
                continue
            series = SeriesKey(key.group, key.stream, key.lane)
            lane = self.lanes.get(series)
            if lane is None:
                if len(self.lanes) >= KEPT_LAG_SERIES_MAX:
                    self.left_out += 1
                    continue
                lane = self.lanes[series] = LaneSample()
            lane.records += row.lag_records
            lane.ends += row.end_offset
            lane.partitions += hash((key.cluster, key.topic, key.partition)) & _HASH_BITS
            if row.lag_seconds > lane.seconds:
                lane.seconds = row.lag_seconds
            lane.flags |= _flags(row, row.key.cluster in self.catching_up)


def _flags(row: LagRow, catching_up: bool) -> int:
    flags = _PRESENT
    if row.stale or catching_up:
        flags |= _STALE
    if row.source is Source.UNKNOWN:
        flags |= _UNKNOWN
    elif row.source is Source.ESTIMATE:
        flags |= _ESTIMATED
    if row.unattended:
        flags |= _UNATTENDED
    return flags


class _Position(NamedTuple):
    elapsed: float
    ends: int
    records: int
    partitions: int


@dataclass(slots=True)
class _OpenRow:
    min_ms: int = 0
    max_ms: int = 0
    last_ms: int = 0
    records: int = 0
    known_ms: int = 0
    flags: int = _PRESENT
    position: _Position | None = None


class Sampler:
    """The open step, and the positions at the end of the one before."""

    def __init__(self) -> None:
        self._time_ms: int | None = None
        self._stepped = False
        self._before: Now | None = None
        self._open: dict[SeriesKey, _OpenRow] = {}
        self._positions: dict[SeriesKey, _Position] = {}
        self._keys = KeyTable()

    def observe(self, sample: Sample) -> Step | None:
        """Adds a sample; returns the step before when the sample begins another."""
        now, before = sample.now, self._before
        stepped = before is not None and _clock_stepped(before, now)
        time_ms = now.wall_ms - now.wall_ms % KEPT_LAG_STEP_MS
        closed = None
        if self._time_ms is not None and time_ms != self._time_ms:
            closed = self._close()
            self._stepped = False
        self._time_ms = time_ms
        self._stepped |= stepped
        since_ms = 0 if before is None else int(now.elapsed * 1000) - int(before.elapsed * 1000)
        self._take(sample, since_ms if since_ms <= KEPT_LAG_SAMPLE_MS_MAX else 0)
        self._before = now
        return closed

    def _take(self, sample: Sample, since_ms: int) -> None:
        for key, lane in sample.lanes.items():
            row = self._open.get(key)
            if row is None:
                row = self._open[key] = _OpenRow()
            flags = lane.flags
            row.flags |= flags
            row.position = None
            if flags & _STALE:
                continue
            row.flags |= _RECORDS
            row.records = lane.records
            row.position = _Position(sample.now.elapsed, lane.ends, lane.records, lane.partitions)
            if flags & _UNKNOWN:
                continue
            row.last_ms = round(lane.seconds * 1000)
            row.min_ms = min(row.min_ms, row.last_ms) if row.flags & _SECONDS else row.last_ms
            row.max_ms = max(row.max_ms, row.last_ms)
            row.flags |= _SECONDS | _SMALLEST
            row.known_ms += since_ms

    def _close(self) -> Step:
        """Ends the open step."""
        keys = KeyTable(sorted(self._open))
        if keys == self._keys:
            keys = self._keys
        self._keys = keys
        positions: dict[SeriesKey, _Position] = {}
        rows: list[tuple[int, ...]] = []
        for key in keys:
            row = self._open[key]
            rates = _rates(self._positions.get(key), row.position)
            rows.append((row.max_ms, row.last_ms, row.records, *rates, row.known_ms, row.flags, row.min_ms))
            if row.position is not None:
                positions[key] = row.position
        columns = np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, COLUMNS).T)
        assert self._time_ms is not None
        step = Step(self._time_ms, keys, columns, self._stepped)
        self._open, self._positions = {}, positions
        return step


def _rates(before: _Position | None, now: _Position | None) -> tuple[int, int, int]:
    """Returns records produced and done between two positions, and the milliseconds between them; all 0 if unknown."""
    if before is None or now is None or before.partitions != now.partitions:
        return 0, 0, 0
    rated_ms = round((now.elapsed - before.elapsed) * 1000)
    produced = now.ends - before.ends
    if produced < 0 or not 0 < rated_ms <= KEPT_LAG_RATE_MS_MAX:
        return 0, 0, 0
    return produced, produced - (now.records - before.records), rated_ms


def _clock_stepped(before: Now, now: Now) -> bool:
    steady_ms = (now.elapsed - before.elapsed) * 1000
    return abs(now.wall_ms - before.wall_ms - steady_ms) > KEPT_LAG_CLOCK_STEP_MS
