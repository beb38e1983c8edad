"""Commands of the kind `stream`, as values. Pure. `domain/streams.py` decides what they lead to."""

from dataclasses import dataclass

from braid.kernel.offset_ranges import OffsetRanges
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.rebalances import Rebalance
from services.registry.model.streams import StreamSpec


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Creates a stream with its declaration. The shell has checked that its clusters exist."""

    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """Replaces the declaration; an empty etag updates whatever is there."""

    spec: StreamSpec
    etag: str = ""


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """Discards the stream and everything in it.

    Attributes:
        etag: What the stream's must be; empty for any.
        made_ms: When the stream that is meant was created, so that no later one of its name is; 0 for any.
    """

    etag: str = ""
    made_ms: int = 0


@dataclass(frozen=True, slots=True)
class EndDrill:
    """Ends a drill with its verdict, and deletes its stream."""

    passed: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class PlanChannel:
    """Asks for a spare channel; takes the lane's next generation."""

    lane: str
    cluster: str
    topic_prefix: str
    partitions: int


@dataclass(frozen=True, slots=True)
class RecordProvisioned:
    """Records that the channel's topic exists, on this Kafka cluster."""

    ref: ChannelRef
    topic_id: bytes
    kafka_cluster_id: str
    copies: int = 0


@dataclass(frozen=True, slots=True)
class IntendReassignment:
    """Intends to give each of the channel's partitions so many copies, at this rate at most (0: no throttle of
    ours)."""

    ref: ChannelRef
    copies: int
    throttle_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class RecordCopies:
    """Records that each of the channel's partitions has so many copies, and no throttle of ours is left."""

    ref: ChannelRef
    copies: int


@dataclass(frozen=True, slots=True)
class MoveTraffic:
    """Changes the route: some channels become active (or change weight), others begin to drain.

    A move that somebody `asked_for` is no failover, however unhealthy the old cluster is. `rebalance` says that it
    evens out load.
    """

    activate: tuple[ChannelWeight, ...]
    drain: tuple[ChannelRef, ...]
    planned: bool
    reason: str
    asked_for: bool = False
    rebalance: Rebalance | None = None


@dataclass(frozen=True, slots=True)
class RecordProducersLeft:
    """Records that no live producer writes to the channel any more; for its ends see `ProducersLeft`."""

    ref: ChannelRef
    route_revision: int
    expired: tuple[str, ...] = ()
    acknowledged: tuple[int, ...] = ()
    unheard: bool = False


@dataclass(frozen=True, slots=True)
class RecordSealed:
    """Records that every partition leader refused an append."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordEndOffsets:
    """Records the end offsets per partition, read after the seal."""

    ref: ChannelRef
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordDrained:
    """Records that every subscribed group is done with everything below the end offsets."""

    ref: ChannelRef
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordRetentionLifted:
    """Records that the topic keeps everything from now on."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordRetentionRestored:
    """Records that the topic has its stream's retention again."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """Reports the channel's entire loss; empty if everything was found again."""

    ref: ChannelRef
    ranges: OffsetRanges
    evidence: str


@dataclass(frozen=True, slots=True)
class ReportOverwritten:
    """Reports records lost while the channel carried traffic, whose offsets other records have now."""

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
    """Ends a drain that cannot end by itself. The shell has checked that the operator named what is given up."""

    ref: ChannelRef
    given_up: OffsetRanges
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecordFound:
    """Records a topic with records that the history does not know of, because the store was restored from a backup.

    `ref` is the channel in the topic's name; the history may have given that generation to another channel.
    """

    ref: ChannelRef
    cluster: str
    topic: str
    partitions: int
    topic_id: bytes
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class IntendRetirement:
    """Intends to delete the channel's topic."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class RecordRetired:
    """Records that the channel's topic is deleted."""

    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class MarkStranded:
    """Marks the stream's channels on a cluster as stranded: it is unreachable."""

    cluster: str


@dataclass(frozen=True, slots=True)
class MarkReturned:
    """Marks the stream's channels on a cluster as reachable again."""

    cluster: str


@dataclass(frozen=True, slots=True)
class BlockFailover:
    """Records that traffic cannot leave an unhealthy cluster."""

    cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnblockFailover:
    """Records that traffic can leave again, or need not any more."""

    cluster: str


@dataclass(frozen=True, slots=True)
class ProposeMove:
    """Asks an operator to move the stream."""

    away_from_cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProposeRebalance:
    """Asks an operator to move the stream so that load evens out."""

    from_cluster: str
    to_cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class WithdrawRebalance:
    """Takes back the proposal to move the stream."""

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
    | ProposeRebalance
    | WithdrawRebalance
)
