"""The mesh as rules see it: streams with their targets, clusters with their health, and the lag of lanes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from services.lagmon.model.lag import LagRow, Source


class Health(Enum):
    """The registry's verdict on a cluster, as far as alerts differ by it."""

    WELL = "well"
    DOUBTED = "doubted"
    DOWN = "down"


class ClusterFacts(NamedTuple):
    """A cluster's health, and why it is so."""

    health: Health
    reason: str


class HeldDrain(NamedTuple):
    """A lane's channel that is being drained, what it waits for, and since when (wall clock)."""

    lane: str
    channel: str
    holders: tuple[str, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream's targets and state.

    Attributes:
        targets: Seconds, by lane or `<lane>/<group>`.
        budget: Share of time in which a target may fail.
        clusters: Where channels of it still hold records.
        blocked: Why its traffic cannot leave a cluster; empty when nothing is blocked.
        drains: Channels that are being drained on clusters that answer.
    """

    targets: Mapping[str, float] = field(default_factory=dict)
    budget: float = 0.001
    retention_seconds: float = 0.0
    clusters: frozenset[str] = frozenset()
    blocked: str = ""
    drains: tuple[HeldDrain, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """The mesh as the registry last described it; None before it was heard.

    Attributes:
        fresh: Whether the registry said so lately.
    """

    streams: Mapping[str, StreamFacts] | None = None
    clusters: Mapping[str, ClusterFacts] | None = None
    fresh: bool = True


class LaneKey(NamedTuple):
    """One group's lag in one lane."""

    stream: str
    lane: str
    group: str


@dataclass(slots=True)
class LaneLag:
    """The lag of one group in one lane, summed over partitions.

    Attributes:
        known: Whether every partition's lag in seconds is known now.
        seconds: The largest lag that is known; a lower bound unless all is known.
        largest: The most undone records of one partition.
        stuck: Partitions whose base offset has not moved for long.
    """

    known: bool = True
    seconds: float = 0.0
    records: int = 0
    largest: int = 0
    partitions: int = 0
    unattended: bool = False
    stuck: list[int] = field(default_factory=list)

    def add(self, row: LagRow, stuck: bool) -> None:
        """Adds one partition's row."""
        self.partitions += 1
        self.records += row.lag_records
        self.largest = max(self.largest, row.lag_records)
        self.unattended |= row.unattended
        if row.stale:
            self.known = False
            return
        self.known &= row.source is not Source.UNKNOWN
        self.seconds = max(self.seconds, row.lag_seconds)
        if stuck:
            self.stuck.append(row.key.partition)


def lane_lags(rows: Iterable[LagRow], stuck: "frozenset[tuple[str, str, int]]") -> dict[LaneKey, LaneLag]:
    """Sums rows of partitions by stream, lane and group; rows of topics without a stream are left out.

    Args:
        stuck: Partitions whose base offset has not moved for long, as (group, topic, partition).
    """
    lags: dict[LaneKey, LaneLag] = {}
    for row in rows:
        key = row.key
        if key.stream and not row.foreign:
            lane = lags.setdefault(LaneKey(key.stream, key.lane, key.group), LaneLag())
            lane.add(row, (key.group, key.topic, key.partition) in stuck)
    return lags
