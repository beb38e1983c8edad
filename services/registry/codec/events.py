"""Events ⇄ `RegistryEvent` with its metadata; states ⇄ bytes for snapshots. No rules.

Per kind of event one pair of functions, in one table per direction. A golden file per type proves that what was once
written can still be read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar, cast

from google.protobuf.message import DecodeError, Message

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Invalid
from braid.kernel.offset_ranges import OffsetRange, OffsetRanges
from braid.runtime.event_metadata import metadata_message, read_context
from services.registry.codec import snapshots
from services.registry.codec.specs import (
    cluster_spec_message,
    drill_message,
    read_cluster_spec,
    read_drill,
    read_stream_spec,
    stream_spec_message,
)
from services.registry.model import belonging as b
from services.registry.model import clusters as c
from services.registry.model import stream_events as e
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.clusters import Cluster, ClusterEvent, Health, HealthVerdict
from services.registry.model.stream_events import StreamEvent
from services.registry.model.streams import Stream

S = TypeVar("S")
E = TypeVar("E")

_HEALTH: Final = {
    Health.HEALTHY: cluster_pb2.CLUSTER_HEALTH_HEALTHY,
    Health.SUSPECT: cluster_pb2.CLUSTER_HEALTH_SUSPECT,
    Health.DOWN: cluster_pb2.CLUSTER_HEALTH_DOWN,
    Health.SLOW: cluster_pb2.CLUSTER_HEALTH_SLOW,
    Health.HALF_DEAD: cluster_pb2.CLUSTER_HEALTH_HALF_DEAD,
    Health.FLAPPING: cluster_pb2.CLUSTER_HEALTH_FLAPPING,
}
_VERDICTS: Final = {
    HealthVerdict.UNTOLD: cluster_pb2.HEALTH_VERDICT_UNSPECIFIED,
    HealthVerdict.WELL: cluster_pb2.HEALTH_VERDICT_WELL,
    HealthVerdict.DEAD: cluster_pb2.HEALTH_VERDICT_DEAD,
    HealthVerdict.SLOW: cluster_pb2.HEALTH_VERDICT_SLOW,
    HealthVerdict.HALF_DEAD: cluster_pb2.HEALTH_VERDICT_HALF_DEAD,
    HealthVerdict.FLAPPING: cluster_pb2.HEALTH_VERDICT_FLAPPING,
    HealthVerdict.PRODUCERS_CUT_OFF: cluster_pb2.HEALTH_VERDICT_PRODUCERS_CUT_OFF,
    HealthVerdict.REGISTRY_CUT_OFF: cluster_pb2.HEALTH_VERDICT_REGISTRY_CUT_OFF,
    HealthVerdict.NO_TOPICS: cluster_pb2.HEALTH_VERDICT_NO_TOPICS,
}


def health_number(health: Health) -> cluster_pb2.ClusterHealth.ValueType:
    """A health as the wire numbers it."""
    return _HEALTH[health]


def verdict_number(verdict: HealthVerdict) -> cluster_pb2.HealthVerdict.ValueType:
    """A verdict as the wire numbers it."""
    return _VERDICTS[verdict]


def _read_verdict(number: int) -> HealthVerdict:
    """One of a later release is untold here: nothing is decided by it."""
    return next((verdict for verdict, known in _VERDICTS.items() if known == number), HealthVerdict.UNTOLD)


def _read_health(number: int) -> Health:
    for health, known in _HEALTH.items():
        if known == number:
            return health
    raise CorruptHistory(f"{number} is not a health this release knows")


def _ref_message(ref: ChannelRef) -> pb.ChannelRef:
    return pb.ChannelRef(lane=ref.lane, generation=ref.generation)


def _read_ref(message: pb.ChannelRef) -> ChannelRef:
    return ChannelRef(message.lane, message.generation)


def _weight_message(weighted: ChannelWeight) -> pb.ChannelWeight:
    return pb.ChannelWeight(lane=weighted.ref.lane, generation=weighted.ref.generation, weight=weighted.weight)


def _read_weight(message: pb.ChannelWeight) -> ChannelWeight:
    return ChannelWeight(ChannelRef(message.lane, message.generation), message.weight)


def range_messages(ranges: OffsetRanges) -> list[stream_pb2.OffsetRange]:
    """Ranges of offsets on the wire."""
    return [stream_pb2.OffsetRange(partition=each.partition, first=each.first, last=each.last) for each in ranges]


def read_ranges(messages: Iterable[stream_pb2.OffsetRange]) -> OffsetRanges:
    """Ranges of offsets from the wire."""
    return tuple(OffsetRange(each.partition, each.first, each.last) for each in messages)


# --- to the wire


def _of_cluster(event: ClusterEvent) -> Message:
    match event:
        case c.ClusterRegistered():
            spec = cluster_spec_message(event.spec)
            return pb.ClusterRegistered(spec=spec, kafka_cluster_id=event.kafka_cluster_id)
        case c.ClusterUpdated():
            return pb.ClusterUpdated(spec=cluster_spec_message(event.spec))
        case c.ClusterHealthChanged():
            return pb.ClusterHealthChanged(
                health=health_number(event.health), reason=event.reason, verdict=verdict_number(event.verdict)
            )
        case c.AppendTimeLearnt():
            return pb.AppendTimeLearnt(usual_seconds=event.usual_seconds)
        case c.ClusterCordoned():
            return pb.ClusterCordoned(cordoned=event.cordoned)
        case c.ClusterIdentityChanged():
            return pb.ClusterIdentityChanged(
                kafka_cluster_id=event.kafka_cluster_id,
                previous_kafka_cluster_id=event.previous_kafka_cluster_id,
            )
        case c.ClusterBrokersObserved():
            return pb.ClusterBrokersObserved(brokers=event.brokers)
        case b.ClusterMarked() | b.ForeignMarkSeen() | b.ClusterCompared():
            return _of_belonging(event)
        case c.ClusterDeleted():
            return pb.ClusterDeleted()
        case c.DecommissionIntended():
            return pb.DecommissionIntended(reason=event.reason, discard_drained=event.discard_drained)
        case c.DecommissionCancelled():
            return pb.DecommissionCancelled()
        case c.ClusterEmptied():
            return pb.ClusterEmptied()


def _of_belonging(event: b.BelongingEvent) -> Message:
    match event:
        case b.ClusterMarked():
            return pb.ClusterMarked(mesh=event.mesh)
        case b.ForeignMarkSeen():
            return pb.ForeignMarkSeen(mesh=event.mesh)
        case b.ClusterCompared():
            return pb.ClusterCompared(
                incarnation=event.incarnation,
                orphan_topics=event.orphan_topics,
                orphan_groups=event.orphan_groups,
                orphans=event.orphans,
            )


def _of_stream(event: StreamEvent) -> Message:
    match event:
        case e.StreamCreated():
            return pb.StreamCreated(spec=stream_spec_message(event.spec))
        case e.StreamUpdated():
            return pb.StreamUpdated(spec=stream_spec_message(event.spec))
        case e.StreamDeleted():
            return pb.StreamDeleted()
        case e.TrafficMoved():
            return pb.TrafficMoved(
                route_revision=event.route_revision,
                activated=[_weight_message(each) for each in event.activated],
                draining=[_ref_message(each) for each in event.draining],
                planned=event.planned,
                reason=event.reason,
                asked_for=event.asked_for,
                found=event.found,
            )
        case e.DrillBegan():
            return pb.DrillBegan(drill=drill_message(event.drill))
        case e.DrillEnded():
            return pb.DrillEnded(drill=drill_message(event.drill), passed=event.passed, verdict=event.verdict)
        case e.FailoverBlocked():
            return pb.FailoverBlocked(cluster=event.cluster, reason=event.reason)
        case e.FailoverUnblocked():
            return pb.FailoverUnblocked(cluster=event.cluster)
        case e.MoveProposed():
            return pb.MoveProposed(away_from_cluster=event.away_from_cluster, reason=event.reason)
        case _:
            return _of_channel(event)


_ChannelEvent = (
    e.ChannelPlanned
    | e.ChannelProvisioned
    | e.ReassignmentIntended
    | e.CopiesSettled
    | e.ProducersLeft
    | e.ChannelSealed
    | e.EndOffsetsRead
    | e.ChannelDrained
    | e.RetirementIntended
    | e.ChannelRetired
    | e.ChannelStranded
    | e.ChannelReturned
    | e.RetentionLifted
    | e.RetentionRestored
    | e.RecordsLost
    | e.ChannelClosed
    | e.ChannelReleased
)
_PLAIN: Final[Mapping[type, Callable[[pb.ChannelRef], Message]]] = {
    e.ChannelSealed: lambda ref: pb.ChannelSealed(channel=ref),
    e.RetirementIntended: lambda ref: pb.RetirementIntended(channel=ref),
    e.ChannelRetired: lambda ref: pb.ChannelRetired(channel=ref),
    e.ChannelStranded: lambda ref: pb.ChannelStranded(channel=ref),
    e.ChannelReturned: lambda ref: pb.ChannelReturned(channel=ref),
    e.RetentionLifted: lambda ref: pb.RetentionLifted(channel=ref),
    e.RetentionRestored: lambda ref: pb.RetentionRestored(channel=ref),
}


def _of_channel(event: _ChannelEvent) -> Message:
    lane, generation = event.ref
    ref = _ref_message(event.ref)
    match event:
        case e.ChannelPlanned():
            return pb.ChannelPlanned(
                lane=lane,
                generation=generation,
                cluster=event.cluster,
                topic=event.topic,
                partitions=event.partitions,
            )
        case e.ChannelProvisioned():
            return pb.ChannelProvisioned(
                lane=lane,
                generation=generation,
                topic_id=event.topic_id,
                kafka_cluster_id=event.kafka_cluster_id,
                replication_factor=event.copies,
            )
        case e.ReassignmentIntended():
            return pb.ReassignmentIntended(
                channel=ref, replication_factor=event.copies, throttle_bytes_per_s=event.throttle_bytes_per_s
            )
        case e.CopiesSettled():
            return pb.CopiesSettled(channel=ref, replication_factor=event.copies)
        case e.ProducersLeft():
            return pb.ProducersLeft(
                channel=ref,
                route_revision=event.route_revision,
                expired=event.expired,
                acknowledged=event.acknowledged,
                unheard=event.unheard,
            )
        case e.EndOffsetsRead():
            return pb.EndOffsetsRead(channel=ref, offsets=event.offsets)
        case e.ChannelDrained():
            return pb.ChannelDrained(channel=ref, groups=event.groups)
        case e.RecordsLost():
            return pb.RecordsLost(
                channel=ref,
                ranges=range_messages(event.ranges),
                evidence=event.evidence,
                overwritten=range_messages(event.overwritten),
            )
        case e.ChannelClosed():
            return pb.ChannelClosed(channel=ref, given_up=range_messages(event.given_up), reason=event.reason)
        case e.ChannelReleased():
            return pb.ChannelReleased(channel=ref, reason=event.reason)
        case _:
            return _PLAIN[type(event)](ref)


def _beside(event: object) -> Message | None:
    """What earlier releases read in place of a fact that they do not know; None for a fact that they know."""
    match event:
        case c.ClusterBrokersObserved() | b.ClusterMarked() | b.ForeignMarkSeen() | b.ClusterCompared():
            return pb.ClusterUpdated(spec=cluster_spec_message(event.spec))
        case e.ReassignmentIntended() | e.CopiesSettled() | e.DrillBegan() | e.DrillEnded():
            return pb.StreamUpdated(spec=stream_spec_message(event.spec))
        case _:
            return None


# --- from the wire


def _read_traffic_moved(m: pb.TrafficMoved) -> e.TrafficMoved:
    activated = tuple(_read_weight(each) for each in m.activated)
    draining = tuple(_read_ref(each) for each in m.draining)
    return e.TrafficMoved(m.route_revision, activated, draining, m.planned, m.reason, m.asked_for, m.found)


def _read_provisioned(m: pb.ChannelProvisioned) -> e.ChannelProvisioned:
    ref = ChannelRef(m.lane, m.generation)
    return e.ChannelProvisioned(ref, m.topic_id, m.kafka_cluster_id, m.replication_factor)


def _read_reassignment(m: pb.RegistryEvent) -> e.ReassignmentIntended:
    told, spec = m.reassignment_intended, read_stream_spec(m.stream_updated.spec)
    return e.ReassignmentIntended(_read_ref(told.channel), told.replication_factor, told.throttle_bytes_per_s, spec)


def _read_drill_ended(m: pb.DrillEnded, spec: stream_pb2.StreamSpec) -> e.DrillEnded:
    return e.DrillEnded(read_drill(m.drill), m.passed, m.verdict, read_stream_spec(spec))


def _read_copies(m: pb.RegistryEvent) -> e.CopiesSettled:
    told, spec = m.copies_settled, read_stream_spec(m.stream_updated.spec)
    return e.CopiesSettled(_read_ref(told.channel), told.replication_factor, spec)


def _read_planned(m: pb.ChannelPlanned) -> e.ChannelPlanned:
    return e.ChannelPlanned(ChannelRef(m.lane, m.generation), m.cluster, m.topic, m.partitions)


def _read_producers_left(m: pb.ProducersLeft) -> e.ProducersLeft:
    expired, acknowledged = tuple(m.expired), tuple(m.acknowledged)
    return e.ProducersLeft(_read_ref(m.channel), m.route_revision, expired, acknowledged, m.unheard)


def _read_compared(m: pb.RegistryEvent) -> b.ClusterCompared:
    found = m.cluster_compared
    topics, groups = tuple(found.orphan_topics), tuple(found.orphan_groups)
    return b.ClusterCompared(
        found.incarnation, topics, groups, found.orphans, read_cluster_spec(m.cluster_updated.spec)
    )


_READERS: Final[Mapping[str, Callable[[pb.RegistryEvent], object]]] = {
    "cluster_registered": lambda m: c.ClusterRegistered(
        read_cluster_spec(m.cluster_registered.spec), m.cluster_registered.kafka_cluster_id
    ),
    "cluster_updated": lambda m: c.ClusterUpdated(read_cluster_spec(m.cluster_updated.spec)),
    "cluster_health_changed": lambda m: c.ClusterHealthChanged(
        _read_health(m.cluster_health_changed.health),
        m.cluster_health_changed.reason,
        _read_verdict(m.cluster_health_changed.verdict),
    ),
    "append_time_learnt": lambda m: c.AppendTimeLearnt(m.append_time_learnt.usual_seconds),
    "cluster_brokers_observed": lambda m: c.ClusterBrokersObserved(
        tuple(m.cluster_brokers_observed.brokers), read_cluster_spec(m.cluster_updated.spec)
    ),
    "cluster_marked": lambda m: b.ClusterMarked(m.cluster_marked.mesh, read_cluster_spec(m.cluster_updated.spec)),
    "foreign_mark_seen": lambda m: b.ForeignMarkSeen(
        m.foreign_mark_seen.mesh, read_cluster_spec(m.cluster_updated.spec)
    ),
    "cluster_compared": _read_compared,
    "reassignment_intended": _read_reassignment,
    "copies_settled": _read_copies,
    "cluster_cordoned": lambda m: c.ClusterCordoned(m.cluster_cordoned.cordoned),
    "cluster_identity_changed": lambda m: c.ClusterIdentityChanged(
        m.cluster_identity_changed.kafka_cluster_id, m.cluster_identity_changed.previous_kafka_cluster_id
    ),
    "cluster_deleted": lambda m: c.ClusterDeleted(),
    "decommission_intended": lambda m: c.DecommissionIntended(
        m.decommission_intended.reason, m.decommission_intended.discard_drained
    ),
    "decommission_cancelled": lambda m: c.DecommissionCancelled(),
    "cluster_emptied": lambda m: c.ClusterEmptied(),
    "stream_created": lambda m: e.StreamCreated(read_stream_spec(m.stream_created.spec)),
    "stream_updated": lambda m: e.StreamUpdated(read_stream_spec(m.stream_updated.spec)),
    "stream_deleted": lambda m: e.StreamDeleted(),
    "drill_began": lambda m: e.DrillBegan(read_drill(m.drill_began.drill), read_stream_spec(m.stream_updated.spec)),
    "drill_ended": lambda m: _read_drill_ended(m.drill_ended, m.stream_updated.spec),
    "channel_planned": lambda m: _read_planned(m.channel_planned),
    "channel_provisioned": lambda m: _read_provisioned(m.channel_provisioned),
    "traffic_moved": lambda m: _read_traffic_moved(m.traffic_moved),
    "producers_left": lambda m: _read_producers_left(m.producers_left),
    "channel_sealed": lambda m: e.ChannelSealed(_read_ref(m.channel_sealed.channel)),
    "end_offsets_read": lambda m: e.EndOffsetsRead(
        _read_ref(m.end_offsets_read.channel), tuple(m.end_offsets_read.offsets)
    ),
    "channel_drained": lambda m: e.ChannelDrained(
        _read_ref(m.channel_drained.channel), tuple(m.channel_drained.groups)
    ),
    "retirement_intended": lambda m: e.RetirementIntended(_read_ref(m.retirement_intended.channel)),
    "channel_retired": lambda m: e.ChannelRetired(_read_ref(m.channel_retired.channel)),
    "channel_stranded": lambda m: e.ChannelStranded(_read_ref(m.channel_stranded.channel)),
    "channel_returned": lambda m: e.ChannelReturned(_read_ref(m.channel_returned.channel)),
    "retention_lifted": lambda m: e.RetentionLifted(_read_ref(m.retention_lifted.channel)),
    "retention_restored": lambda m: e.RetentionRestored(_read_ref(m.retention_restored.channel)),
    "records_lost": lambda m: e.RecordsLost(
        _read_ref(m.records_lost.channel),
        read_ranges(m.records_lost.ranges),
        m.records_lost.evidence,
        read_ranges(m.records_lost.overwritten),
    ),
    "channel_closed": lambda m: e.ChannelClosed(
        _read_ref(m.channel_closed.channel), read_ranges(m.channel_closed.given_up), m.channel_closed.reason
    ),
    "channel_released": lambda m: e.ChannelReleased(_read_ref(m.channel_released.channel), m.channel_released.reason),
    "failover_blocked": lambda m: e.FailoverBlocked(m.failover_blocked.cluster, m.failover_blocked.reason),
    "failover_unblocked": lambda m: e.FailoverUnblocked(m.failover_unblocked.cluster),
    "move_proposed": lambda m: e.MoveProposed(m.move_proposed.away_from_cluster, m.move_proposed.reason),
}


# --- codecs


def _field_of(message: Message) -> str:
    """The member of the oneof that holds a message: its name in snake case."""
    name = message.DESCRIPTOR.name
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


class _Codec(Generic[S, E]):
    """Bytes of one kind of history."""

    def __init__(self, state: type[S], to_message: Callable[[E], Message]) -> None:
        self._state = state
        self._to_message = to_message

    def encode(self, event: E, context: Context) -> bytes:
        """See `EventCodec.encode`."""
        record = pb.RegistryEvent(metadata=metadata_message(context))
        for body in (_beside(event), self._to_message(event)):
            if body is not None:
                cast("Message", getattr(record, _field_of(body))).CopyFrom(body)
                getattr(record, _field_of(body)).SetInParent()
        return record.SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[E, Context]:
        """See `EventCodec.decode`."""
        try:
            record = pb.RegistryEvent.FromString(data)
        except DecodeError as error:
            raise CorruptHistory("an event does not decode") from error
        which = record.WhichOneof("later") or record.WhichOneof("event")
        if which is None or which not in _READERS:
            raise CorruptHistory("an event is of a type this release does not know", remedy="run a newer release")
        try:
            return cast("E", _READERS[which](record)), read_context(record.metadata)
        except Invalid as error:
            raise CorruptHistory(f"{which}: {error.message}", remedy="run a newer release") from error

    def encode_state(self, state: S) -> bytes:
        """See `EventCodec.encode_state`."""
        return snapshots.encode(state)

    def decode_state(self, data: bytes) -> S:
        """See `EventCodec.decode_state`."""
        return snapshots.decode(self._state, data)


CLUSTER_CODEC: Final[_Codec[Cluster, ClusterEvent]] = _Codec(Cluster, _of_cluster)
STREAM_CODEC: Final[_Codec[Stream, StreamEvent]] = _Codec(Stream, _of_stream)
