"""Events of the kind `stream`: facts, in the past tense. Pure. `events.proto` defines their wire form, see `codec`."""

from dataclasses import dataclass

from braid.kernel.offset_ranges import OffsetRanges
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.clusters.drills import Drill
from services.registry.model.streams import StreamSpec


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """The stream was created with this declaration, by a principal of this tenant (empty: `default`)."""

    spec: StreamSpec
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class StreamUpdated:
    """The stream's declaration was replaced."""

    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class StreamDeleted:
    """The stream was deleted, and everything in it is discarded."""


@dataclass(frozen=True, slots=True)
class DrillBegan:
    """The stream rehearses a failure for another one.

    The `spec` is the stream's own, for earlier releases, which read it instead of this fact.
    """

    drill: Drill
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class DrillEnded:
    """The rehearsal ended; its measurements are for people. The `spec` is as in `DrillBegan`."""

    drill: Drill
    passed: bool
    verdict: str
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class ChannelPlanned:
    """Intent: a topic is about to be created. The generation is used up."""

    ref: ChannelRef
    cluster: str
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ChannelProvisioned:
    """Result: the topic exists, on this Kafka cluster."""

    ref: ChannelRef
    topic_id: bytes
    kafka_cluster_id: str
    copies: int = 0


@dataclass(frozen=True, slots=True)
class ReassignmentIntended:
    """Intent: every partition of the channel is to have so many copies.

    The `spec` is the stream's present one, for earlier releases, which read it instead of this fact.
    """

    ref: ChannelRef
    copies: int
    throttle_bytes_per_s: int
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class CopiesSettled:
    """Result: every partition of the channel has so many copies, and no throttle of ours is left.

    It may have been found so, without a reassignment. The `spec` is as in `ReassignmentIntended`.
    """

    ref: ChannelRef
    copies: int
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class TrafficMoved:
    """The route changed: some channels became active, others began to drain.

    A move was `asked_for` unless it was a failover; recorded since that distinction exists. A channel that was `found`
    carried traffic that the history does not know of.
    """

    route_revision: int
    activated: tuple[ChannelWeight, ...]
    draining: tuple[ChannelRef, ...]
    planned: bool
    reason: str
    asked_for: bool = False
    found: bool = False


@dataclass(frozen=True, slots=True)
class ProducersLeft:
    """Every live producer acknowledged a route without the channel; `expired` ones stopped counting.

    `acknowledged` holds, per partition, the offset below which producers have receipts or the log was read; empty if
    unknown. `unheard` means that others may have written beyond that and died without a report.
    """

    ref: ChannelRef
    route_revision: int
    expired: tuple[str, ...]
    acknowledged: tuple[int, ...] = ()
    unheard: bool = False


@dataclass(frozen=True, slots=True)
class ChannelSealed:
    """Every partition leader has refused an append."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class EndOffsetsRead:
    """The end offsets per partition were read, after the seal."""

    ref: ChannelRef
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChannelDrained:
    """Every subscribed group is done with everything up to the end offsets."""

    ref: ChannelRef
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RetirementIntended:
    """Intent: the topic is about to be deleted."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ChannelRetired:
    """Result: the channel's topic is deleted."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ChannelStranded:
    """The channel's cluster is unreachable."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ChannelReturned:
    """The channel's cluster is reachable again."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RetentionLifted:
    """The topic keeps everything until the channel is drained."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RetentionRestored:
    """The topic has its stream's retention again."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """The channel's cluster lost these records, its entire known loss; empty once they were found again.

    The `overwritten` ones never come back: other records have their offsets.
    """

    ref: ChannelRef
    ranges: OffsetRanges
    evidence: str
    overwritten: OffsetRanges = ()


@dataclass(frozen=True, slots=True)
class ChannelReleased:
    """An operator lets the channel be consumed although older channels of its ordered stream are not drained."""

    ref: ChannelRef
    reason: str


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """An operator ended the drain by naming what is given up."""

    ref: ChannelRef
    given_up: OffsetRanges
    reason: str


@dataclass(frozen=True, slots=True)
class FailoverBlocked:
    """Traffic cannot leave an unhealthy cluster."""

    cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailoverUnblocked:
    """Traffic can leave the cluster again, or need not any more."""

    cluster: str


@dataclass(frozen=True, slots=True)
class MoveProposed:
    """An operator is asked to move the stream."""

    away_from_cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class RebalanceProposed:
    """An operator is asked to move the stream so that load evens out. The `spec` is as in `ReassignmentIntended`."""

    from_cluster: str
    to_cluster: str
    reason: str
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class RebalanceWithdrawn:
    """The proposal is not wanted any more. The `spec` is as in `ReassignmentIntended`."""

    reason: str
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class StreamRebalanced:
    """The registry moved the stream to even out load; `TrafficMoved` stands before it.

    `kept_bytes` stay on the old cluster until retention ends. The `spec` is as in `ReassignmentIntended`.
    """

    from_cluster: str
    to_cluster: str
    kept_bytes: int
    reason: str
    spec: StreamSpec


StreamEvent = (
    StreamCreated
    | StreamUpdated
    | StreamDeleted
    | DrillBegan
    | DrillEnded
    | ChannelPlanned
    | ChannelProvisioned
    | TrafficMoved
    | ProducersLeft
    | ChannelSealed
    | EndOffsetsRead
    | ChannelDrained
    | RetirementIntended
    | ChannelRetired
    | ChannelStranded
    | ChannelReturned
    | RetentionLifted
    | RetentionRestored
    | RecordsLost
    | ChannelClosed
    | ChannelReleased
    | FailoverBlocked
    | FailoverUnblocked
    | MoveProposed
    | ReassignmentIntended
    | CopiesSettled
    | RebalanceProposed
    | RebalanceWithdrawn
    | StreamRebalanced
)
