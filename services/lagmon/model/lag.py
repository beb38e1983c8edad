"""Rows of lag as values: their order, filters, sums, and the changes between two tables. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, Protocol

from braid.kernel.limits.lagmon.division import LAG_SHARED_STALE_SECONDS


class Source(IntEnum):
    """Where `lag_seconds` comes from, as `LagSource` numbers it: a sum names the largest, which is the weakest."""

    DONE = 1
    ENVELOPE = 2
    RECORD = 3
    ESTIMATE = 4
    UNKNOWN = 5


class Detail(IntEnum):
    """How much a row sums up, as `LagDetail` numbers it."""

    LANE = 1
    CHANNEL = 2
    PARTITION = 3


class Subject(Protocol):
    """The subject of rows, by the names that filters know."""

    @property
    def group(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def cluster(self) -> str: ...


class RowKey(NamedTuple):
    """The subject of a row; rows are sorted by it. Empty names and partition -1 stand for all."""

    group: str
    stream: str
    lane: str
    cluster: str
    topic: str
    partition: int


class Holder(Protocol):
    """The holder of a lease, as its commit names it."""

    @property
    def epoch(self) -> int: ...
    @property
    def detached(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class LagRow:
    """A group's lag; the message `Lag` describes each field.

    The holder is read from the commit only when somebody asks, because that decodes an envelope.
    """

    key: RowKey
    partitions: int
    lag_records: int
    lag_seconds: float
    source: Source
    foreign: bool
    stale: bool
    as_of_ms: int
    committed_offset: int = -1
    end_offset: int = -1
    commit_time_ms: int = 0
    holder: Holder | None = field(default=None, compare=False)
    split_partitions: int = 0
    live_lag_seconds: float = 0.0
    unattended: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects rows; empty fields match everything."""

    group: str = ""
    stream: str = ""
    lane: str = ""
    cluster: str = ""
    exclude_foreign: bool = False
    groups: frozenset[str] = frozenset()

    @property
    def named(self) -> frozenset[str]:
        """The groups to which rows must belong; empty for all groups."""
        return frozenset({self.group}) if self.group else self.groups

    def matches(self, row: LagRow) -> bool:
        """Whether a row of one partition is wanted."""
        return self.matches_key(row.key) and not (self.exclude_foreign and row.foreign)

    def matches_key(self, key: Subject) -> bool:
        """Whether rows of a key may be wanted."""
        return (
            (not self.group or key.group == self.group)
            and (not self.groups or key.group in self.groups)
            and (not self.stream or key.stream == self.stream)
            and (not self.lane or key.lane == self.lane)
            and (not self.cluster or key.cluster == self.cluster)
        )


def summed(rows: Iterable[LagRow], detail: Detail) -> list[LagRow]:
    """Sums rows of single partitions up to a detail, and sorts them.

    Records add up, seconds are the largest, the source the weakest; the time of observation is the oldest.
    """
    if detail is Detail.PARTITION:
        return sorted(rows, key=lambda row: row.key)
    sums: dict[RowKey, LagRow] = {}
    for row in rows:
        key = _wider(row.key, detail)
        known = sums.get(key)
        sums[key] = _added(known, row) if known else _alone(key, row)
    return [sums[key] for key in sorted(sums)]


def aged(row: LagRow, seconds: float, now_ms: int) -> LagRow:
    """Returns a row as it is `seconds` later, at `now_ms` by the wall clock, if no record was done meanwhile."""
    stale = row.stale or now_ms - row.as_of_ms > LAG_SHARED_STALE_SECONDS * 1_000
    undone = seconds if row.lag_records else 0.0
    if not undone and stale == row.stale:
        return row
    live = row.live_lag_seconds
    return replace(
        row, lag_seconds=row.lag_seconds + undone, live_lag_seconds=live + undone if live else live, stale=stale
    )


def after(rows: Sequence[LagRow], last: RowKey | None, size: int) -> tuple[Sequence[LagRow], RowKey | None]:
    """Returns one page of sorted rows after a key, and the key after which the next page begins; None at the end."""
    left = [row for row in rows if last is None or row.key > last]
    return left[:size], left[size - 1].key if len(left) > size else None


def changes(
    told: Mapping[RowKey, LagRow], rows: Iterable[LagRow]
) -> tuple[dict[RowKey, LagRow], list[LagRow], list[RowKey]]:
    """Returns the new table, the rows that differ from those sent before, and the keys that no longer exist.

    The mere passing of time is no change: neither the observation's time nor the answer's.
    """
    table = {row.key: row for row in rows}
    changed = [row for key, row in table.items() if key not in told or _timeless(told[key]) != _timeless(row)]
    return table, changed, [key for key in told if key not in table]


def _timeless(row: LagRow) -> LagRow:
    return replace(row, as_of_ms=0)


def _wider(key: RowKey, detail: Detail) -> RowKey:
    """Returns the wider key of a row: a lane's over all clusters and topics; a row without a stream keeps its topic."""
    if detail is Detail.CHANNEL or not key.stream:
        return key._replace(partition=-1)
    return RowKey(key.group, key.stream, key.lane, "", "", -1)


def _alone(key: RowKey, row: LagRow) -> LagRow:
    return replace(row, key=key, committed_offset=-1, end_offset=-1, holder=None)


def _added(one: LagRow, other: LagRow) -> LagRow:
    return LagRow(
        key=one.key,
        partitions=one.partitions + other.partitions,
        lag_records=one.lag_records + other.lag_records,
        lag_seconds=max(one.lag_seconds, other.lag_seconds),
        source=max(one.source, other.source),
        foreign=one.foreign or other.foreign,
        stale=one.stale or other.stale,
        as_of_ms=min(one.as_of_ms, other.as_of_ms),
        commit_time_ms=max(one.commit_time_ms, other.commit_time_ms),
        split_partitions=one.split_partitions + other.split_partitions,
        live_lag_seconds=max(one.live_lag_seconds, other.live_lag_seconds),
        unattended=one.unattended or other.unattended,
    )
