"""The registry's world as one immutable snapshot, and the choice of a cluster for traffic. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from services.registry.channels import Channel, ChannelState
from services.registry.clusters import Cluster
from services.registry.loads import MeasuredLoad
from services.registry.streams import Stream


@dataclass(frozen=True, slots=True)
class World:
    """Everything a plan may depend on.

    Attributes:
        broken: By cluster and topic, why a channel can go on no more although its cluster does. Only who leads knows.
        answering: Clusters whose last look succeeded, trusted or not. Only who leads knows.
        loads: Of the clusters that were measured lately. Only who leads knows.
    """

    now_ms: int
    clusters: Mapping[str, Cluster]
    streams: Mapping[str, Stream]
    broken: Mapping[tuple[str, str], str] = field(default_factory=dict)
    answering: Collection[str] = ()
    loads: Mapping[str, MeasuredLoad] = field(default_factory=dict)

    def cluster(self, name: str) -> Cluster:
        """A cluster; one that does not exist is neither reachable nor takes traffic."""
        return self.clusters.get(name) or Cluster(name)

    def load(self, name: str) -> MeasuredLoad | None:
        """What was measured of a cluster lately; None when nothing was."""
        return self.loads.get(name)

    def lost(self, channel: Channel) -> bool:
        """Whether the channel's topic went with a cluster that was replaced."""
        return channel.kafka_cluster_id not in ("", self.cluster(channel.cluster).kafka_cluster_id)

    def in_trouble(self, channel: Channel) -> bool:
        """Whether the channel cannot take records, or not well."""
        broken = (channel.cluster, channel.topic) in self.broken
        return broken or self.lost(channel) or not self.cluster(channel.cluster).holds_traffic

    def trouble(self, channel: Channel) -> str:
        """Why traffic must leave a channel, for people."""
        found = self.cluster(channel.cluster)
        if not found.holds_traffic:
            return f"cluster {found.name} is {found.health.name}: {found.health_reason}"
        if self.lost(channel):
            return f"cluster {found.name} was replaced, its topics are gone"
        return f"channel {channel.ref} on cluster {found.name}: {self.broken[channel.cluster, channel.topic]}"


class Room:
    """Partitions of active channels per cluster, kept up to date while a plan gives room away."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._used: dict[str, int] = {}
        for stream in world.streams.values():
            for channel in stream.channels:
                if channel.state is ChannelState.ACTIVE:
                    self.take(channel.cluster, channel.partitions)

    def take(self, cluster: str, partitions: int) -> None:
        """Uses room up."""
        self._used[cluster] = self._used.get(cluster, 0) + partitions

    def copy(self) -> "Room":
        """The same, to give away what may have to be taken back."""
        made = Room.__new__(Room)
        made._world, made._used = self._world, dict(self._used)
        return made

    def used(self, cluster: str) -> int:
        """Partitions in use."""
        return self._used.get(cluster, 0)

    def has(self, cluster: str, partitions: int) -> bool:
        """Whether a cluster has headroom for so many more."""
        capacity = self._world.cluster(cluster).spec.capacity
        return not capacity or self.used(cluster) + partitions <= capacity


def candidates(world: World, stream: Stream, room: Room) -> Sequence[str]:
    """Clusters the stream may use, best first: in the order it declares, else the least used first."""
    if stream.spec.clusters:
        return stream.spec.clusters
    existing = [name for name, cluster in world.clusters.items() if cluster.exists]
    return sorted(existing, key=lambda name: (room.used(name), name))


def choose_target(world: World, stream: Stream, partitions: int, exclude: Collection[str], room: Room) -> str:
    """The best cluster that is healthy, uncordoned and has headroom; '' when there is none."""
    for name in candidates(world, stream, room):
        if name not in exclude and world.cluster(name).takes_traffic and room.has(name, partitions):
            return name
    return ""


def why_no_target(world: World, stream: Stream, partitions: int, exclude: Collection[str], room: Room) -> str:
    """Says of every candidate why it cannot take so many partitions."""
    reasons: list[str] = []
    for name in candidates(world, stream, room):
        cluster = world.cluster(name)
        if name in exclude or not cluster.exists:
            continue
        if cluster.closed:
            reasons.append(f"{name} is {cluster.closed}")
        elif not cluster.takes_traffic:
            reasons.append(f"{name} is {cluster.health.name}")
        elif not room.has(name, partitions):
            reasons.append(f"{name} has no headroom for {partitions} partitions")
    return "no cluster can take the traffic: " + (", ".join(reasons) or "there is no other cluster")
