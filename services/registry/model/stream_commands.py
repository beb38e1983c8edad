"""Commands of the kind `stream`: requests to decide on. What they lead to is in `domain.py`. Pure."""

from dataclasses import dataclass

from braid.kernel.offset_ranges import OffsetRanges
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.streams import StreamSpec


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Declares a stream. The shell has checked that its clusters exist."""

    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """Replaces the declaration; an empty etag updates whatever is there."""

    spec: StreamSpec
    etag: str = ""


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """Discards the stream and everything in it."""

    etag: str = ""


@dataclass(frozen=True, slots=True)
class EndDrill:
    """Ends a drill with its verdict, and deletes its stream."""

    passed: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class PlanChannel:
    """Asks for a spare channel; uses up the lane's next generation."""

    lane: str
    cluster: str
    topic_prefix: str
    partitions: int


@dataclass(frozen=True, slots=True)
class RecordProvisioned:
    """The channel's topic exists, on this Kafka cluster."""

    ref: ChannelRef
    topic_id: bytes
    kafka_cluster_id: str
    copies: int = 0


@dataclass(frozen=True, slots=True)
class IntendReassignment:
    """The channel's partitions are to have so many copies, made at no more than this rate (0: not throttled by us)."""

    ref: ChannelRef
    copies: int
    throttle_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class RecordCopies:
    """The channel's partitions have so many copies each, and nothing of ours is left to be done about them."""

    ref: ChannelRef
    copies: int


@dataclass(frozen=True, slots=True)
class MoveTraffic:
    """Changes the route: some channels become active (or change weight), others begin to drain.

    What somebody `asked_for` is no failover, however ill the cluster is that is left.
    """

    activate: tuple[ChannelWeight, ...]
    drain: tuple[ChannelRef, ...]
    planned: bool
    reason: str
    asked_for: bool = False


@dataclass(frozen=True, slots=True)
class RecordProducersLeft:
    """No live producer writes to the channel any more; what is known of its ends: see `ProducersLeft`."""

    ref: ChannelRef
    route_revision: int
    expired: tuple[str, ...] = ()
    acknowledged: tuple[int, ...] = ()
    unheard: bool = False


@dataclass(frozen=True, slots=True)
class RecordSealed:
    """Every partition leader refused an append."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordEndOffsets:
    """End offsets per partition, read after the seal."""

    ref: ChannelRef
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordDrained:
    """Every subscribed group has done everything below the end offsets."""

    ref: ChannelRef
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordRetentionLifted:
    """The topic keeps everything from now on."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordRetentionRestored:
    """The topic keeps its stream's retention again."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """The channel's cluster lost these, the whole of it; nothing: all is there again."""

    ref: ChannelRef
    ranges: OffsetRanges
    evidence: str


@dataclass(frozen=True, slots=True)
class ReportOverwritten:
    """The channel's cluster lost these while they carried traffic, and other records lie at their offsets."""

    ref: ChannelRef
    ranges: OffsetRanges
    evidence: str


@dataclass(frozen=True, slots=True)
class ReleaseChannel:
    """Lets a channel of an ordered stream be consumed although older ones are not drained."""

    ref: ChannelRef
    reason: str


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """Ends a drain that cannot end by itself. The shell has checked that a person named what is given up."""

    ref: ChannelRef
    given_up: OffsetRanges
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecordFound:
    """A topic of the stream was written to, which the history does not know: it was restored from a backup.

    `ref` is the channel as its topic is named; the history may have given that generation to another one.
    """

    ref: ChannelRef
    cluster: str
    topic: str
    partitions: int
    topic_id: bytes
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class IntendRetirement:
    """The channel's topic is to be deleted."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordRetired:
    """The channel's topic is gone."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class MarkStranded:
    """A cluster is unreachable: mark what the stream has there."""

    cluster: str


@dataclass(frozen=True, slots=True)
class MarkReturned:
    """A cluster is reachable again."""

    cluster: str


@dataclass(frozen=True, slots=True)
class BlockFailover:
    """Traffic cannot leave an unhealthy cluster."""

    cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnblockFailover:
    """It can again, or need not any more."""

    cluster: str


@dataclass(frozen=True, slots=True)
class ProposeMove:
    """Asks a person to move the stream."""

    away_from_cluster: str
    reason: str


StreamCommand = (
    CreateStream
    | UpdateStream
    | DeleteStream
    | EndDrill
    | PlanChannel
    | RecordProvisioned
    | MoveTraffic
    | RecordProducersLeft
    | RecordSealed
    | RecordEndOffsets
    | RecordDrained
    | RecordRetentionLifted
    | RecordRetentionRestored
    | ReportLoss
    | ReportOverwritten
    | CloseChannel
    | ReleaseChannel
    | RecordFound
    | IntendRetirement
    | RecordRetired
    | MarkStranded
    | MarkReturned
    | BlockFailover
    | UnblockFailover
    | ProposeMove
    | IntendReassignment
    | RecordCopies
)
