"""A stream's declaration and state: values and their checks. Pure. The rules are in `domain/streams.py`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from braid.kernel.access.tenants import DEFAULT_TENANT
from braid.kernel.errors import Invalid, NotFound, Refused
from braid.kernel.ids import check_name
from braid.kernel.lag_targets import check_availability, check_lag_targets
from braid.kernel.limits.client import RECORD_BYTES_MAX_DEFAULT
from braid.kernel.limits.names import LANES_MAX, PARTITIONS_MAX, STREAM_CLUSTERS_MAX, STREAM_PARTITIONS_MAX
from braid.kernel.limits.registry.health import RIDE_OUT_SECONDS_MAX
from braid.kernel.limits.registry.resources import (
    RECORD_BYTES_MAX,
    RECORD_BYTES_MIN,
    REPLICATION_MAX,
    RETENTION_HOURS_DEFAULT,
    RETENTION_HOURS_MAX,
)
from services.registry.model.channels import CONSUMABLE, Channel, ChannelRef, ChannelState
from services.registry.model.clusters.drills import Drill
from services.registry.model.rebalances import MadeRebalance, RebalanceProposal
from services.registry.model.topics import check_topic_config

DEAD_LETTER_LANE: Final = "dlq"
DEAD_LETTER_PARTITIONS: Final = 1


class FailoverMode(Enum):
    """How the registry reacts when a cluster that carries the stream is down."""

    AUTOMATIC = "AUTOMATIC"
    PROPOSE = "PROPOSE"
    OFF = "OFF"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The declaration of a stream.

    Attributes:
        lanes: Number of partitions of each lane's channels. The lane `dlq` always exists.
        clusters: Clusters that may carry it, in order of preference; empty for every cluster.
        replication_factor: Copies of a partition; 0 for the cluster's own default.
        ordered: A new channel is consumed only once the lane's older ones are drained.
        ride_out_seconds: How long appends may hang because brokers died, before traffic leaves; None for what its
            cluster declares.
        drill: The failure it rehearses for another stream; None if it carries an application's records.
        lag_target: How far groups may be behind, by lane or `<lane>/<group>`; see `kernel.lag_targets`.
        availability: Percent of time in which targets hold; None for the default.
        zone_lanes: Lanes with an active channel in each zone, sorted.
        lanes_keyed_by_zone: Those of them whose records with a key prefer their producer's zone too.
    """

    lanes: Mapping[str, int]
    clusters: tuple[str, ...] = ()
    replication_factor: int = 0
    retention_hours: int = RETENTION_HOURS_DEFAULT
    max_record_bytes: int = RECORD_BYTES_MAX_DEFAULT
    failover: FailoverMode = FailoverMode.AUTOMATIC
    topic_config: Mapping[str, str] = field(default_factory=dict)
    ordered: bool = False
    ride_out_seconds: float | None = None
    drill: Drill | None = None
    lag_target: Mapping[str, str] = field(default_factory=dict)
    availability: float | None = None
    zone_lanes: tuple[str, ...] = ()
    lanes_keyed_by_zone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """The state of one stream's history; `exists` is False before creation and after deletion.

    Attributes:
        channels: In order of planning; of the retired, only the latest.
        generations: The last generation used per lane. It survives deletion: a generation is never used again.
        blocked: Why traffic cannot leave, by cluster.
        proposed: Clusters that an operator was asked to move the stream away from.
        failovers_ms: Times of the latest automatic moves.
        changes: Number of events so far; the etag.
        tenant: The tenant that created it.
        rebalance: A move that an operator is asked to make to even out load.
        rebalances: The latest moves that the registry made for that.
    """

    name: str
    exists: bool = False
    spec: StreamSpec = StreamSpec({})
    create_time_ms: int = 0
    route_revision: int = 0
    channels: tuple[Channel, ...] = ()
    generations: Mapping[str, int] = field(default_factory=dict)
    blocked: Mapping[str, str] = field(default_factory=dict)
    proposed: tuple[str, ...] = ()
    failovers_ms: tuple[int, ...] = ()
    changes: int = 0
    tenant: str = DEFAULT_TENANT
    rebalance: RebalanceProposal | None = None
    rebalances: tuple[MadeRebalance, ...] = ()

    @property
    def partitions(self) -> int:
        """How many partitions all lanes have together."""
        return sum(map(self.lane_partitions, self.spec.lanes))

    def lane_partitions(self, lane: str) -> int:
        """How many partitions a lane has, of all channels that share its traffic: as declared or moved to."""
        return max(self.spec.lanes.get(lane, 0), sum(each.partitions for each in self.active(lane)))

    @property
    def etag(self) -> str:
        """The etag, which changes with every change of the stream."""
        return str(self.changes)

    def channel(self, ref: ChannelRef) -> Channel:
        """The channel of a reference. Raises `NotFound`."""
        for channel in self.channels:
            if channel.ref == ref:
                return channel
        raise NotFound(f"stream {self.name} has no channel {ref}", field="channel")

    def active(self, lane: str) -> Sequence[Channel]:
        """The lane's active channels."""
        return [each for each in self.channels if each.state is ChannelState.ACTIVE and each.ref.lane == lane]

    def waits_for(self, channel: Channel) -> Sequence[Channel]:
        """Channels that must be drained before this one is consumed, if the stream is ordered.

        These are the channels of its lane that left the route before it did: an ordered lane has one active channel at
        a time.
        """
        if not self.keeps_order(channel.ref.lane) or channel.state not in CONSUMABLE or channel.released:
            return ()
        active = channel.state is ChannelState.ACTIVE
        return [
            each
            for each in self.channels
            if each.ref.lane == channel.ref.lane and each.state is ChannelState.DRAINING and each.ref != channel.ref
            if active or each.drain_revision < channel.drain_revision
        ]

    def keeps_order(self, lane: str) -> bool:
        """Whether a lane's channels are consumed one after the other."""
        return self.spec.ordered and lane != DEAD_LETTER_LANE

    def with_channel(self, changed: Channel) -> "Stream":
        """The stream with one channel replaced."""
        return replace(self, channels=tuple(changed if each.ref == changed.ref else each for each in self.channels))


def check_stream_spec(spec: StreamSpec) -> StreamSpec:
    """Returns the declaration with defaults filled in and the dead-letter lane added.

    Raises:
        Invalid: a field is out of form; `field` names it.
    """
    lanes = _checked_lanes(spec.lanes)
    check_clusters(len(spec.clusters), "spec.clusters")
    for position, cluster in enumerate(spec.clusters):
        check_name(cluster, f"spec.clusters[{position}]")
        if cluster in spec.clusters[:position]:
            raise Invalid(f"cluster {cluster} is named twice", field=f"spec.clusters[{position}]")
    if not 0 <= spec.replication_factor <= REPLICATION_MAX:
        remedy = f"declare 1 to {REPLICATION_MAX}, or leave it out for three where a cluster has so many brokers"
        message = f"{spec.replication_factor} copies are not between 1 and {REPLICATION_MAX}"
        raise Invalid(message, field="spec.replication_factor", remedy=remedy)
    retention_hours = spec.retention_hours or RETENTION_HOURS_DEFAULT
    _within(retention_hours, 1, RETENTION_HOURS_MAX, "spec.retention_hours")
    max_record_bytes = spec.max_record_bytes or RECORD_BYTES_MAX_DEFAULT
    _within(max_record_bytes, RECORD_BYTES_MIN, RECORD_BYTES_MAX, "spec.max_record_bytes")
    check_topic_config(spec.topic_config)
    if spec.ride_out_seconds is not None and not 0 <= spec.ride_out_seconds <= RIDE_OUT_SECONDS_MAX:
        remedy = f"use 0 to {RIDE_OUT_SECONDS_MAX:g}, or leave it out for what the cluster declares"
        raise Invalid(f"{spec.ride_out_seconds:g} is out of bounds", field="spec.ride_out_seconds", remedy=remedy)
    check_lag_targets(spec.lag_target, lanes, "spec.lag_target")
    check_availability(spec.availability, "spec.availability")
    _check_zone_lanes(spec)
    return replace(spec, lanes=lanes, retention_hours=retention_hours, max_record_bytes=max_record_bytes)


def _check_zone_lanes(spec: StreamSpec) -> None:
    """Raises `Invalid` for a lane that is to keep to zones, and also its order over all of them."""
    for lane in spec.zone_lanes:
        if spec.ordered and lane != DEAD_LETTER_LANE:
            message = f"lane {lane} would be on a channel in each zone: between them no order holds"
            remedy = "leave out spread, or let the stream not be ordered"
            raise Invalid(message, field=f"spec.lanes.{lane}.spread", remedy=remedy)
    for lane in spec.lanes_keyed_by_zone:
        if lane not in spec.zone_lanes:
            message = f"lane {lane} has no channel in each zone for its keys"
            raise Invalid(message, field=f"spec.lanes.{lane}.keys_by_zone", remedy="declare spread: zones beside it")


def check_order(stream: Stream, lane: str, active: int, field: str) -> None:
    """Raises `Refused` for several active channels of an ordered lane: records keep their order only within one
    channel."""
    if active > 1 and stream.keeps_order(lane):
        message = f"lane {lane} of stream {stream.name} would be on {active} channels: between them no order holds"
        remedy = "have it on one cluster, or let the stream not be ordered"
        raise Refused(message, field=field, remedy=remedy)


def check_partitions(partitions: int, field: str) -> None:
    """Raises `Invalid` for no partitions or too many."""
    _within(partitions, 1, PARTITIONS_MAX, field)


def check_clusters(count: int, field: str) -> None:
    """Raises `Invalid` for more clusters than a stream can be on."""
    if count > STREAM_CLUSTERS_MAX:
        message = f"{count} clusters are more than {STREAM_CLUSTERS_MAX}"
        raise Invalid(message, field=field, remedy="name the clusters that the stream needs")


def check_size(lanes: Mapping[str, int], present: Mapping[str, int], field: str) -> None:
    """Raises `Invalid` if all lanes together have more partitions than a stream may have.

    A stream from before this limit keeps its partitions and gets no more.
    """
    wanted = sum(lanes.values())
    if wanted <= max(STREAM_PARTITIONS_MAX, sum(present.values())):
        return
    message = f"{wanted} partitions of all lanes together are more than {STREAM_PARTITIONS_MAX}"
    raise Invalid(message, field=field, remedy="use fewer partitions a lane, or several streams")


def _checked_lanes(lanes: Mapping[str, int]) -> Mapping[str, int]:
    if not any(lane != DEAD_LETTER_LANE for lane in lanes):
        raise Invalid("a stream needs a lane", field="spec.lanes", remedy="name one, for example live: {partitions: 4}")
    checked = {DEAD_LETTER_LANE: DEAD_LETTER_PARTITIONS, **lanes}
    if len(checked) > LANES_MAX:
        raise Invalid(
            f"{len(checked)} lanes are more than {LANES_MAX}, {DEAD_LETTER_LANE} included", field="spec.lanes"
        )
    for lane, partitions in checked.items():
        check_name(lane, f"spec.lanes.{lane}")
        check_partitions(partitions, f"spec.lanes.{lane}.partitions")
    return dict(sorted(checked.items()))


def _within(value: int, low: int, high: int, field: str) -> None:
    if not low <= value <= high:
        raise Invalid(f"{value} is not between {low} and {high}", field=field)
