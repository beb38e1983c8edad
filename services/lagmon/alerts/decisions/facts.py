"""The mesh as rules see it: streams and topics, clusters with their health and disks, and the lag of lanes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from services.lagmon.alerts.decisions.certificates import ReplicaCertificates
from services.lagmon.model.lag import LagRow, Source


class Health(Enum):
    """The registry's verdict on a cluster, as far as alerts differ by it."""

    WELL = "well"
    DOUBTED = "doubted"
    DOWN = "down"


class DiskReading(NamedTuple):
    """The fullest disk of a cluster's brokers, as the registry measured it (its wall clock)."""

    measured_ms: int
    broker: int
    free_bytes: int
    total_bytes: int


class CopiesReading(NamedTuple):
    """The copies of a cluster's partitions, as the registry last saw them.

    Attributes:
        topics: The first topics by name with fewer copies in step than they should have.
        total: How many topics have.
        missing_brokers: Brokers that are away.
    """

    topics: tuple[str, ...] = ()
    total: int = 0
    missing_brokers: frozenset[int] = frozenset()


class ClusterFacts(NamedTuple):
    """A cluster's health, and why it is so; its fullest disk and its copies, None where they were not seen lately."""

    health: Health
    reason: str
    disk: DiskReading | None = None
    copies: CopiesReading | None = None


class TopicFacts(NamedTuple):
    """The topic of one channel, as rules need it.

    Attributes:
        lane: The lane that it carries.
        keeps_seconds: For how long Kafka keeps its records; None while it keeps everything.
        reassigned: Whether copies are being added to it or taken away.
    """

    lane: str
    keeps_seconds: float | None = None
    reassigned: bool = False


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
        topics: Topics that may hold records, by cluster and topic.
    """

    targets: Mapping[str, float] = field(default_factory=dict)
    budget: float = 0.001
    clusters: frozenset[str] = frozenset()
    blocked: str = ""
    drains: tuple[HeldDrain, ...] = ()
    topics: Mapping[tuple[str, str], TopicFacts] = field(default_factory=dict)


class GroupFacts(NamedTuple):
    """A group, as the assigner knows it.

    Attributes:
        streams: That it consumes, sorted.
        resets: How many resets of its progress were recorded.
        idle_alerted: Whether it has been without members for so long that drains will stop waiting for it.
        idle_left_seconds: How much longer they wait.
        idle_expired: Whether they have stopped.
    """

    streams: tuple[str, ...] = ()
    resets: int = 0
    idle_alerted: bool = False
    idle_left_seconds: float = 0.0
    idle_expired: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """The mesh as the registry and the assigner last described it; None before they were heard.

    Attributes:
        fresh: Whether the registry said so lately.
        groups_fresh: Whether the assigner did.
        certificates: What each replica said of its certificates, None for one that never answered; None before any was
            asked.
    """

    streams: Mapping[str, StreamFacts] | None = None
    clusters: Mapping[str, ClusterFacts] | None = None
    fresh: bool = True
    groups: Mapping[str, GroupFacts] | None = field(default_factory=dict)
    groups_fresh: bool = True
    certificates: Mapping[str, ReplicaCertificates | None] | None = field(default_factory=dict)


class LaneKey(NamedTuple):
    """One group's lag in one lane."""

    stream: str
    lane: str
    group: str


class Retention(NamedTuple):
    """How much of a topic's retention the oldest undone record has used up, and how long it has left."""

    share: float
    seconds_left: float


@dataclass(slots=True)
class LaneLag:
    """The lag of one group in one lane, summed over partitions.

    Attributes:
        known: Whether every partition's lag in seconds is known now.
        seconds: The largest lag that is known; a lower bound unless all is known.
        largest: The most undone records of one partition.
        stuck: Partitions whose base offset has not moved for long.
        retention: Of the topic whose oldest undone record is nearest to being deleted.
    """

    known: bool = True
    seconds: float = 0.0
    records: int = 0
    largest: int = 0
    partitions: int = 0
    unattended: bool = False
    stuck: list[int] = field(default_factory=list)
    retention: Retention | None = None

    def add(self, row: LagRow, stuck: bool, keeps_seconds: float | None = None) -> None:
        """Adds one partition's row, of a topic that keeps records for so long."""
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
        if keeps_seconds:
            used = Retention(row.lag_seconds / keeps_seconds, keeps_seconds - row.lag_seconds)
            self.retention = max(used, self.retention or used)


def lane_lags(
    rows: Iterable[LagRow],
    stuck: frozenset[tuple[str, str, int]],
    keeps_seconds: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> dict[LaneKey, LaneLag]:
    """Sums rows of partitions by stream, lane and group; rows of topics without a stream are left out.

    Args:
        stuck: Partitions whose base offset has not moved for long, as (group, topic, partition).
        keeps_seconds: For how long topics keep records, by cluster and topic; one that keeps everything has none.
    """
    lags: dict[LaneKey, LaneLag] = {}
    for row in rows:
        key = row.key
        if key.stream and not row.foreign:
            lane = lags.setdefault(LaneKey(key.stream, key.lane, key.group), LaneLag())
            keeps = keeps_seconds.get((key.cluster, key.topic))
            lane.add(row, (key.group, key.topic, key.partition) in stuck, keeps)
    return lags


def keeps_seconds(facts: Facts) -> dict[tuple[str, str], float]:
    """Returns for how long topics keep records, by cluster and topic; those that keep everything are left out."""
    return {
        place: topic.keeps_seconds
        for stream in (facts.streams or {}).values()
        for place, topic in stream.topics.items()
        if topic.keeps_seconds is not None
    }
