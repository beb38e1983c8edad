"""Declarations ⇄ protobuf, for events at rest and requests alike. No rules."""

from collections.abc import Mapping

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.kernel.errors import Invalid
from services.registry.model.clusters.drills import Drill, DrillKind
from services.registry.model.clusters.specs import TOPIC_PREFIX_DEFAULT, ClusterSpec
from services.registry.model.clusters.thresholds import NAMES
from services.registry.model.streams import FailoverMode, StreamSpec

_MODES = {
    stream_pb2.FAILOVER_MODE_UNSPECIFIED: FailoverMode.AUTOMATIC,
    stream_pb2.FAILOVER_MODE_AUTOMATIC: FailoverMode.AUTOMATIC,
    stream_pb2.FAILOVER_MODE_PROPOSE: FailoverMode.PROPOSE,
    stream_pb2.FAILOVER_MODE_OFF: FailoverMode.OFF,
}
_MODE_NUMBERS = {mode: number for number, mode in _MODES.items()}
_DRILLS = {
    stream_pb2.DRILL_KIND_MOVE: DrillKind.MOVE,
    stream_pb2.DRILL_KIND_CLUSTER_LOSS: DrillKind.CLUSTER_LOSS,
    stream_pb2.DRILL_KIND_BROKER_LOSS: DrillKind.BROKER_LOSS,
    stream_pb2.DRILL_KIND_MEMBER_LOSS: DrillKind.MEMBER_LOSS,
}
_DRILL_NUMBERS = {kind: number for number, kind in _DRILLS.items()}


def cluster_spec_message(spec: ClusterSpec) -> cluster_pb2.ClusterSpec:
    """A cluster's declaration as a message."""
    return cluster_pb2.ClusterSpec(
        bootstrap=spec.bootstrap,
        zone=spec.zone,
        capacity=spec.capacity,
        security_profile=spec.security_profile,
        topic_prefix=spec.topic_prefix,
        allow_auto_create_topics=spec.allow_auto_create_topics,
        health=thresholds_message(spec.health) if spec.health else None,
    )


def thresholds_message(thresholds: Mapping[str, float]) -> cluster_pb2.HealthThresholds:
    """Thresholds by name as a message."""
    return cluster_pb2.HealthThresholds(**thresholds)


def read_cluster_spec(message: cluster_pb2.ClusterSpec) -> ClusterSpec:
    """A cluster's declaration from a message, unchecked."""
    return ClusterSpec(
        bootstrap=message.bootstrap,
        zone=message.zone,
        capacity=message.capacity,
        security_profile=message.security_profile,
        topic_prefix=message.topic_prefix or TOPIC_PREFIX_DEFAULT,
        allow_auto_create_topics=message.allow_auto_create_topics,
        health={name: getattr(message.health, name) for name in NAMES if message.health.HasField(name)},  # type: ignore[arg-type]
    )


def stream_spec_message(spec: StreamSpec) -> stream_pb2.StreamSpec:
    """A stream's declaration as a message."""
    return stream_pb2.StreamSpec(
        lanes={lane: _lane_message(spec, lane) for lane in spec.lanes},
        clusters=spec.clusters,
        replication_factor=spec.replication_factor,
        retention_hours=spec.retention_hours,
        max_record_bytes=spec.max_record_bytes,
        failover=_MODE_NUMBERS[spec.failover],
        topic_config=spec.topic_config,
        ordered=spec.ordered,
        ride_out_seconds=spec.ride_out_seconds,
        drill=drill_message(spec.drill) if spec.drill else None,
        lag_target=spec.lag_target,
        availability=spec.availability,
    )


def _lane_message(spec: StreamSpec, lane: str) -> stream_pb2.LaneSpec:
    return stream_pb2.LaneSpec(
        partitions=spec.lanes[lane],
        spread=stream_pb2.LANE_SPREAD_ZONES if lane in spec.zone_lanes else None,
        keys_by_zone=True if lane in spec.lanes_keyed_by_zone else None,
    )


def drill_message(drill: Drill) -> stream_pb2.Drill:
    """A drill's mark as a message."""
    kind = _DRILL_NUMBERS[drill.kind]
    return stream_pb2.Drill(stream=drill.stream, kind=kind, cluster=drill.cluster, broker=drill.broker)


def read_drill(message: stream_pb2.Drill) -> Drill:
    """A drill's mark from a message, unchecked but for the enum.

    Raises:
        Invalid: this release does not know the kind of drill.
    """
    if message.kind not in _DRILLS:
        raise Invalid(f"{message.kind} is no kind of drill", field="spec.drill.kind", remedy="`braid drill` sets it")
    return Drill(message.stream, _DRILLS[message.kind], message.cluster, message.broker)


def read_stream_spec(message: stream_pb2.StreamSpec) -> StreamSpec:
    """A stream's declaration from a message, unchecked but for the enum.

    Raises:
        Invalid: this release does not know the failover mode, the kind of drill or over what a lane is spread.
    """
    if message.failover not in _MODES:
        remedy = "use automatic, propose or off"
        raise Invalid(f"{message.failover} is not a failover mode", field="spec.failover", remedy=remedy)
    lanes = sorted(message.lanes)
    for lane in lanes:
        if message.lanes[lane].spread not in stream_pb2.LaneSpread.values():
            found = f"{message.lanes[lane].spread} is nothing that a lane is spread over"
            raise Invalid(found, field=f"spec.lanes.{lane}.spread", remedy="write zones, or leave it out")
    return StreamSpec(
        lanes={lane: message.lanes[lane].partitions for lane in lanes},
        zone_lanes=tuple(lane for lane in lanes if message.lanes[lane].spread == stream_pb2.LANE_SPREAD_ZONES),
        lanes_keyed_by_zone=tuple(lane for lane in lanes if message.lanes[lane].keys_by_zone),
        clusters=tuple(message.clusters),
        replication_factor=message.replication_factor,
        retention_hours=message.retention_hours,
        max_record_bytes=message.max_record_bytes,
        failover=_MODES[message.failover],
        topic_config={name: message.topic_config[name] for name in sorted(message.topic_config)},
        ordered=message.ordered,
        ride_out_seconds=message.ride_out_seconds if message.HasField("ride_out_seconds") else None,
        drill=read_drill(message.drill) if message.HasField("drill") else None,
        lag_target={name: message.lag_target[name] for name in sorted(message.lag_target)},
        availability=message.availability if message.HasField("availability") else None,
    )
