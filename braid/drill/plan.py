"""Plans a drill from the state of the mesh: checks, and the declaration of its stream. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.kernel.errors import Invalid, Refused
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.registry.drill import (
    DRILL_LEAVE_SECONDS,
    DRILL_PARTITIONS,
    DRILL_PREFIX,
    DRILL_SECONDS_MAX,
    DRILL_SECONDS_MIN,
)

_MEMBERS: Final = 2


class DrillKind(Enum):
    """The kind of failure that is rehearsed."""

    MOVE = "move"
    CLUSTER_LOSS = "cluster-loss"
    BROKER_LOSS = "broker-loss"
    MEMBER_LOSS = "member-loss"


KINDS: Final = {
    DrillKind.MOVE: stream_pb2.DRILL_KIND_MOVE,
    DrillKind.CLUSTER_LOSS: stream_pb2.DRILL_KIND_CLUSTER_LOSS,
    DrillKind.BROKER_LOSS: stream_pb2.DRILL_KIND_BROKER_LOSS,
    DrillKind.MEMBER_LOSS: stream_pb2.DRILL_KIND_MEMBER_LOSS,
}


@dataclass(frozen=True, slots=True)
class Order:
    """The drill that an operator requested.

    Attributes:
        seconds: How long records are sent.
        broker: The broker to lose; -1 for none.
        rate_per_s: Records per second.
    """

    kind: DrillKind
    stream: str
    seconds: float
    broker: int = -1
    rate_per_s: int = 100

    def __post_init__(self) -> None:
        if not DRILL_SECONDS_MIN <= self.seconds <= DRILL_SECONDS_MAX:
            remedy = f"use {DRILL_SECONDS_MIN:g}s to {DRILL_SECONDS_MAX / 3_600:g}h"
            raise Invalid(f"{self.seconds:g} s is out of bounds", field="--for", remedy=remedy)
        if (self.broker >= 0) != (self.kind is DrillKind.BROKER_LOSS):
            remedy = "name one of the cluster's brokers: --broker 2"
            if self.kind is not DrillKind.BROKER_LOSS:
                remedy = "leave it out, or rehearse broker-loss"
            raise Invalid(f"{self.kind.value} and a broker", field="--broker", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Plan:
    """A drill that may begin.

    Attributes:
        name: Name of the drill's stream and group.
        cluster: The cluster that carries most of the named stream, and will carry the drill's.
        spec: Declaration of the drill's stream.
        leave_seconds: How long its traffic may take to be elsewhere.
    """

    order: Order
    name: str
    cluster: str
    spec: stream_pb2.StreamSpec
    leave_seconds: float

    @property
    def lanes(self) -> Sequence[str]:
        """Lanes that carry the load."""
        return sorted(self.spec.lanes)

    @property
    def members(self) -> int:
        """The number of consuming processes."""
        return _MEMBERS + (self.order.kind is DrillKind.MEMBER_LOSS)

    @property
    def leaves(self) -> bool:
        """Whether its traffic should be on another cluster in the end."""
        return self.order.kind is not DrillKind.MEMBER_LOSS

    @property
    def loses_cluster(self) -> bool:
        """Whether its clients refuse connections to the cluster."""
        return self.order.kind in (DrillKind.CLUSTER_LOSS, DrillKind.BROKER_LOSS)


def make_plan(order: Order, id: str, stream: stream_pb2.Stream, clusters: Sequence[cluster_pb2.Cluster]) -> Plan:
    """Checks that the drill is possible, and plans it.

    Args:
        order: The requested drill.
        id: Distinguishes this drill from others.
        stream: The named stream.
        clusters: All clusters of the mesh.

    Raises:
        Refused: the stream is itself a drill, has no route, or has no other cluster to go to.
        Invalid: the cluster has no such broker.
    """
    name = stream.name
    if stream.spec.HasField("drill"):
        raise Refused(f"stream {name} is a drill itself", field="--stream", remedy="name a stream of an application")
    carrier = _carrier(stream)
    candidates = [*(stream.spec.clusters or sorted(each.name for each in clusters))]
    others = [each for each in candidates if each != carrier]
    if order.kind is not DrillKind.MEMBER_LOSS and not others:
        message = f"stream {name} may be on cluster {carrier} alone: {order.kind.value} needs another one"
        remedy = "let the stream use another cluster, or rehearse member-loss"
        raise Refused(message, field="--stream", remedy=remedy)
    cluster = next((each for each in clusters if each.name == carrier), cluster_pb2.Cluster(name=carrier))
    _check_broker(order, cluster)
    spec = _spec(order, stream, carrier, others, len(cluster.status.usual_brokers))
    return Plan(order, f"{DRILL_PREFIX}{id}", carrier, spec, _leave_seconds(order, stream, cluster))


def _carrier(stream: stream_pb2.Stream) -> str:
    """The cluster with most of the stream's traffic."""
    weights: dict[str, float] = {}
    for each in stream.status.channels:
        if each.state == stream_pb2.CHANNEL_STATE_ACTIVE and each.lane != DLQ_LANE:
            weights[each.cluster] = weights.get(each.cluster, 0.0) + each.weight * each.partitions
    if not weights:
        message = f"stream {stream.name} has no route: no cluster carries it"
        raise Refused(message, field="--stream", remedy=f"braid describe stream {stream.name}")
    return max(sorted(weights), key=lambda each: weights[each])


def _check_broker(order: Order, cluster: cluster_pb2.Cluster) -> None:
    brokers = [*cluster.status.usual_brokers]
    if order.kind is not DrillKind.BROKER_LOSS:
        return
    if order.broker not in brokers:
        message = f"{order.broker} is no broker of cluster {cluster.name}"
        raise Invalid(message, field="--broker", remedy=f"use one of {', '.join(map(str, brokers))}")
    if len(brokers) == 1:
        message = f"cluster {cluster.name} has one broker: without it the cluster is lost"
        raise Invalid(message, field="--broker", remedy="rehearse cluster-loss")


def _spec(
    order: Order, stream: stream_pb2.Stream, carrier: str, others: Sequence[str], brokers: int
) -> stream_pb2.StreamSpec:
    """The drill's declaration: like the named stream's, but small, and on the cluster that carries most of it."""
    spec = stream_pb2.StreamSpec()
    spec.CopyFrom(stream.spec)
    spec.ClearField("lanes")
    for lane in stream.spec.lanes:
        if lane != DLQ_LANE:
            spec.lanes[lane].partitions = max(DRILL_PARTITIONS, brokers)
    spec.ClearField("clusters")
    spec.clusters.extend([carrier, *others])
    spec.retention_hours = 1
    named = "" if order.kind is DrillKind.MEMBER_LOSS else carrier
    spec.drill.CopyFrom(
        stream_pb2.Drill(stream=stream.name, kind=KINDS[order.kind], cluster=named, broker=order.broker)
    )
    return spec


def _leave_seconds(order: Order, stream: stream_pb2.Stream, cluster: cluster_pb2.Cluster) -> float:
    """How long traffic may take to leave, including the time that the stream rides out a broker's death."""
    if order.kind is not DrillKind.BROKER_LOSS:
        return DRILL_LEAVE_SECONDS
    declared = stream.spec if stream.spec.HasField("ride_out_seconds") else cluster.spec.health
    return DRILL_LEAVE_SECONDS + declared.ride_out_seconds
