"""Events ⇄ `RegistryEvent` with its metadata; states ⇄ bytes for snapshots. No rules.

Events and messages share names and fields; the table below lists the differences. A golden file per type proves that
old events can still be read.
"""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar, cast, get_args

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.offset_ranges import OffsetRange, OffsetRanges
from braid.runtime.histories.event_messages import EventMessages, conversion
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
from services.registry.model import stream_events as e
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.clusters import client_quotas as q
from services.registry.model.clusters import events as c
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.events import ClusterEvent
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)
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
    """The enum number of a health state in messages."""
    return _HEALTH[health]


def verdict_number(verdict: HealthVerdict) -> cluster_pb2.HealthVerdict.ValueType:
    """The enum number of a verdict in messages."""
    return _VERDICTS[verdict]


def _read_verdict(number: int) -> HealthVerdict:
    """Reads a verdict. A number from a later release counts as untold: no decision depends on verdicts."""
    return next((verdict for verdict, known in _VERDICTS.items() if known == number), HealthVerdict.UNTOLD)


def _read_health(number: int) -> Health:
    for health, known in _HEALTH.items():
        if known == number:
            return health
    raise ValueError(f"{number} is not a health this release knows")


def _ref_message(ref: ChannelRef) -> pb.ChannelRef:
    return pb.ChannelRef(lane=ref.lane, generation=ref.generation)


def _read_ref(message: pb.ChannelRef) -> ChannelRef:
    return ChannelRef(message.lane, message.generation)


def _weight_message(weighted: ChannelWeight) -> pb.ChannelWeight:
    return pb.ChannelWeight(lane=weighted.ref.lane, generation=weighted.ref.generation, weight=weighted.weight)


def _read_weight(message: pb.ChannelWeight) -> ChannelWeight:
    return ChannelWeight(ChannelRef(message.lane, message.generation), message.weight)


def _range_message(offsets: OffsetRange) -> stream_pb2.OffsetRange:
    return stream_pb2.OffsetRange(partition=offsets.partition, first=offsets.first, last=offsets.last)


def _read_range(message: stream_pb2.OffsetRange) -> OffsetRange:
    return OffsetRange(message.partition, message.first, message.last)


def range_messages(ranges: OffsetRanges) -> list[stream_pb2.OffsetRange]:
    """Ranges of offsets as messages."""
    return [_range_message(each) for each in ranges]


def read_ranges(messages: Iterable[stream_pb2.OffsetRange]) -> OffsetRanges:
    """Ranges of offsets from messages."""
    return tuple(_read_range(each) for each in messages)


def _quota_message(quota: q.ClientQuota) -> pb.ClientQuota:
    return pb.ClientQuota(user=quota.user, client_id=quota.client_id, key=quota.key, value=quota.value)


def _read_quota(message: pb.ClientQuota) -> q.ClientQuota:
    return q.ClientQuota(message.user, message.client_id, message.key, message.value)


_EVENTS: Final = EventMessages(
    pb.RegistryEvent,
    (*get_args(ClusterEvent), *get_args(StreamEvent)),
    {
        "ClusterSpec": conversion(cluster_spec_message, read_cluster_spec),
        "StreamSpec": conversion(stream_spec_message, read_stream_spec),
        "Drill": conversion(drill_message, read_drill),
        "ClusterHealth": conversion(health_number, _read_health),
        "HealthVerdict": conversion(verdict_number, _read_verdict),
        "ChannelRef": conversion(_ref_message, _read_ref),
        "ChannelWeight": conversion(_weight_message, _read_weight),
        "OffsetRange": conversion(_range_message, _read_range),
        "ClientQuota": conversion(_quota_message, _read_quota),
    },
    names={"ref": "channel", "copies": "replication_factor"},
    spread={"ref": ChannelRef},
    beside={
        c.ClusterBrokersObserved: c.ClusterUpdated,
        b.ClusterMarked: c.ClusterUpdated,
        b.ForeignMarkSeen: c.ClusterUpdated,
        b.ClusterCompared: c.ClusterUpdated,
        q.ClientQuotasIntended: c.ClusterUpdated,
        q.ClientQuotasReleased: c.ClusterUpdated,
        e.ReassignmentIntended: e.StreamUpdated,
        e.CopiesSettled: e.StreamUpdated,
        e.DrillBegan: e.StreamUpdated,
        e.DrillEnded: e.StreamUpdated,
        e.RebalanceProposed: e.StreamUpdated,
        e.RebalanceWithdrawn: e.StreamUpdated,
        e.StreamRebalanced: e.StreamUpdated,
        c.BalanceBlocked: c.ClusterUpdated,
        c.BalanceUnblocked: c.ClusterUpdated,
    },
)


class _Codec(Generic[S, E]):
    """The event codec of one kind of history."""

    def __init__(self, state: type[S]) -> None:
        self._state = state

    def encode(self, event: E, context: Context) -> bytes:
        """See `EventCodec.encode`."""
        return _EVENTS.encode(event, context)

    def decode(self, data: bytes) -> tuple[E, Context]:
        """See `EventCodec.decode`."""
        event, context = _EVENTS.decode(data)
        return cast("E", event), context

    def encode_state(self, state: S) -> bytes:
        """See `EventCodec.encode_state`."""
        return snapshots.encode(state)

    def decode_state(self, data: bytes) -> S:
        """See `EventCodec.decode_state`."""
        return snapshots.decode(self._state, data)


CLUSTER_CODEC: Final[_Codec[Cluster, ClusterEvent]] = _Codec(Cluster)
STREAM_CODEC: Final[_Codec[Stream, StreamEvent]] = _Codec(Stream)
