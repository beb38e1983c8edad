"""Events of the kind `stream`: facts, in the past tense. Their wire form is `events.proto`, see `codec.py`. Pure."""

from dataclasses import dataclass

from braid.kernel.offset_ranges import OffsetRanges
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.drills import Drill
from services.registry.model.streams import StreamSpec


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """The stream exists."""

    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class StreamUpdated:
    """Its declaration was replaced."""

    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class StreamDeleted:
    """It is gone, and everything in it is discarded."""


@dataclass(frozen=True, slots=True)
class DrillBegan:
    """The stream rehearses a failure for another one.

    The `spec` is the stream's own, for earlier releases, which read it in place of this fact.
    """

    drill: Drill
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class DrillEnded:
    """The rehearsal is over: what was measured, for people. The `spec` is as in `DrillBegan`."""

    drill: Drill
    passed: bool
    verdict: str
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class ChannelPlanned:
    """Intent: a topic is going to be created. The generation is used up."""

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
    """Intent: every partition of the channel is going to have so many copies.

    The `spec` is the stream's present one, for earlier releases, which read it in place of this fact.
    """

    ref: ChannelRef
    copies: int
    throttle_bytes_per_s: int
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class CopiesSettled:
    """Result: every partition of the channel has so many copies, and no throttle of ours is left; or was found so.

    The `spec` is as in `ReassignmentIntended`.
    """

    ref: ChannelRef
    copies: int
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class TrafficMoved:
    """The route changed: some channels became active, others began to drain.

    Somebody `asked_for` it, unless it was a failover; told since that counts. A channel that was `found` carried
    traffic that the history does not know of.
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
    """Every live producer acknowledged a route without the channel; `expired` stopped counting.

    `acknowledged` says, per partition, below which offset producers have receipts or the log was seen to go; empty when
    nobody knows any. `unheard`: others may have written beyond that and died without a word.
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
    """Per partition, read after the seal."""

    ref: ChannelRef
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChannelDrained:
    """Every subscribed group has done everything up to the end offsets."""

    ref: ChannelRef
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RetirementIntended:
    """Intent: the topic is going to be deleted."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ChannelRetired:
    """Result: the topic is gone."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ChannelStranded:
    """Its cluster is unreachable."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ChannelReturned:
    """Its cluster is reachable again."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RetentionLifted:
    """The topic keeps everything until the channel is drained."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RetentionRestored:
    """The topic keeps its stream's retention again."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """The channel's cluster lost these: the whole of it, as far as is known. Nothing, when they were found again.

    Those of them that are `overwritten` never are: other records lie at their offsets.
    """

    ref: ChannelRef
    ranges: OffsetRanges
    evidence: str
    overwritten: OffsetRanges = ()


@dataclass(frozen=True, slots=True)
class ChannelReleased:
    """A person lets it be consumed although older channels of its ordered stream are not drained."""

    ref: ChannelRef
    reason: str


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """A person ended the drain by naming what is given up."""

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
    """It could leave, or need not any more."""

    cluster: str


@dataclass(frozen=True, slots=True)
class MoveProposed:
    """A person is asked to move the stream."""

    away_from_cluster: str
    reason: str


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
)
