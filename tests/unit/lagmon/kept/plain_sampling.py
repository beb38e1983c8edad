"""Steps of kept lag made lane by lane and row by row: what columns are compared with."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_RATE_MS_MAX, KEPT_LAG_SAMPLE_MS_MAX, KEPT_LAG_STEP_MS
from services.lagmon.kept.rows import Flag, SeriesKey
from services.lagmon.model.lag import LagRow, Source
from services.lagmon.policy import Now
from tests.unit.lagmon.kept.kept_steps import Values


class _Position(NamedTuple):
    elapsed: float
    ends: int
    records: int
    partitions: frozenset[tuple[str, str, int]]


@dataclass
class _Lane:
    seconds: float = 0.0
    records: int = 0
    ends: int = 0
    partitions: set[tuple[str, str, int]] = field(default_factory=set)
    flags: Flag = Flag.PRESENT


@dataclass
class _OpenRow:
    values: Values = field(default_factory=Values)
    position: _Position | None = None


@dataclass
class PlainSampler:
    """The open step, the positions at the end of the one before, and the steps that are closed."""

    steps: list[tuple[int, dict[SeriesKey, Values]]] = field(default_factory=list)
    time_ms: int | None = None
    before: Now | None = None
    opened: dict[SeriesKey, _OpenRow] = field(default_factory=dict)
    positions: dict[SeriesKey, _Position | None] = field(default_factory=dict)

    def take(self, now: Now, rows: Iterable[LagRow], catching_up: Collection[str]) -> None:
        """Takes a sample."""
        time_ms = now.wall_ms - now.wall_ms % KEPT_LAG_STEP_MS
        if self.time_ms is not None and time_ms != self.time_ms:
            closed = {key: _rated(self.positions.get(key), row) for key, row in sorted(self.opened.items())}
            self.steps.append((self.time_ms, closed))
            self.positions = {key: row.position for key, row in self.opened.items()}
            self.opened = {}
        since_ms = 0 if self.before is None else int(now.elapsed * 1000) - int(self.before.elapsed * 1000)
        for key, lane in _lanes(rows, catching_up).items():
            self._add(self.opened.setdefault(key, _OpenRow()), lane, now, since_ms)
        self.time_ms, self.before = time_ms, now

    def _add(self, row: _OpenRow, lane: _Lane, now: Now, since_ms: int) -> None:
        values, last = row.values, round(lane.seconds * 1000)
        flags = values.flags | lane.flags
        row.position = None
        if not lane.flags & Flag.STALE:
            flags |= Flag.RECORDS
            values = values._replace(records=lane.records)
            row.position = _Position(now.elapsed, lane.ends, lane.records, frozenset(lane.partitions))
            if not lane.flags & Flag.UNKNOWN:
                least = min(values.min_ms, last) if values.flags & Flag.SECONDS else last
                known = values.known_ms + (since_ms if since_ms <= KEPT_LAG_SAMPLE_MS_MAX else 0)
                most = max(values.max_ms, last)
                values = values._replace(last_ms=last, min_ms=least, max_ms=most, known_ms=known)
                flags |= Flag.SECONDS | Flag.SMALLEST
        row.values = values._replace(flags=int(flags))


def _lanes(rows: Iterable[LagRow], catching_up: Collection[str]) -> dict[SeriesKey, _Lane]:
    lanes: dict[SeriesKey, _Lane] = {}
    for row in rows:
        key = row.key
        if not key.stream:
            continue
        lane = lanes.setdefault(SeriesKey(key.group, key.stream, key.lane), _Lane())
        lane.seconds = max(lane.seconds, row.lag_seconds)
        lane.records += row.lag_records
        lane.ends += row.end_offset
        lane.partitions.add((key.cluster, key.topic, key.partition))
        lane.flags |= Flag.STALE if row.stale or key.cluster in catching_up else Flag(0)
        lane.flags |= {Source.UNKNOWN: Flag.UNKNOWN, Source.ESTIMATE: Flag.ESTIMATED}.get(row.source, Flag(0))
        lane.flags |= Flag.UNATTENDED if row.unattended else Flag(0)
    return lanes


def _rated(before: _Position | None, row: _OpenRow) -> Values:
    """Returns a row's values with what was produced and done since the end of the step before."""
    now = row.position
    if before is None or now is None or before.partitions != now.partitions:
        return row.values
    rated_ms, produced = round((now.elapsed - before.elapsed) * 1000), now.ends - before.ends
    if produced < 0 or not 0 < rated_ms <= KEPT_LAG_RATE_MS_MAX:
        return row.values
    done = produced - (now.records - before.records)
    return row.values._replace(produced=produced, done=done, rated_ms=rated_ms)
