"""Streams and clusters as drills find them."""

from collections.abc import Sequence

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.drill.plan import DrillKind, Order, Plan, make_plan

ACTIVE = stream_pb2.CHANNEL_STATE_ACTIVE
HEALTHY = cluster_pb2.CLUSTER_HEALTH_HEALTHY


def channel(
    lane: str, cluster: str, state: int = ACTIVE, weight: float = 1.0, partitions: int = 4
) -> stream_pb2.Channel:
    return stream_pb2.Channel(
        lane=lane,
        cluster=cluster,
        state=stream_pb2.ChannelState.Name(state),  # type: ignore[arg-type]
        weight=weight,
        partitions=partitions,
    )


def stream(*channels: stream_pb2.Channel, clusters: Sequence[str] = ("east", "west")) -> stream_pb2.Stream:
    lanes = {lane: stream_pb2.LaneSpec(partitions=4) for lane in ("live", "bulk", "dlq")}
    spec = stream_pb2.StreamSpec(lanes=lanes, clusters=clusters, retention_hours=72, max_record_bytes=1 << 20)
    carried = channels or (channel("live", "east"), channel("bulk", "east"), channel("dlq", "west"))
    return stream_pb2.Stream(name="logs", spec=spec, status=stream_pb2.StreamStatus(channels=carried))


def cluster(name: str, brokers: Sequence[int] = (1,), **status: object) -> cluster_pb2.Cluster:
    told = {"health": HEALTHY, "usual_brokers": brokers, **status}
    return cluster_pb2.Cluster(name=name, status=cluster_pb2.ClusterStatus(**told))  # type: ignore[arg-type]


CLUSTERS = (cluster("east"), cluster("west"))


def plan(kind: DrillKind = DrillKind.CLUSTER_LOSS, broker: int = -1, seconds: float = 9.0) -> Plan:
    clusters = (cluster("east", (1, 2, 3)), cluster("west"))
    return make_plan(Order(kind, "logs", seconds, broker), "x", stream(), clusters)
