"""The registry's world as an immutable snapshot, and the choice of a cluster for traffic. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.traffic import DISK_FREE_SHARE_MIN
from services.registry.model.channels import IN_USE, Channel, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.streams import Stream, StreamSpec


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a plan may depend on.

    Attributes:
        broken: Why a channel cannot continue although its cluster works, by cluster and topic. Known to the leader
            only.
        answering: Clusters whose last probe succeeded, trusted or not. Known to the leader only.
        loads: Loads of the clusters measured lately. Known to the leader only.
        waited: How long (ms) a channel's state has lasted while registries led, by channel name and begin of the state.
        unsure: Why nothing may be deleted merely because time has passed; '' if it may.
    """

    now_ms: int
    clusters: Mapping[str, Cluster]
    streams: Mapping[str, Stream]
    broken: Mapping[tuple[str, str], str] = field(default_factory=dict)
    answering: Collection[str] = ()
    loads: Mapping[str, MeasuredLoad] = field(default_factory=dict)
    waited: Mapping[tuple[str, int], int] = field(default_factory=dict)
    unsure: str = ""

    def cluster(self, name: str) -> Cluster:
        """The cluster of a name; an unknown one is neither reachable nor takes traffic."""
        return self.clusters.get(name) or Cluster(name)

    @property
    def zones(self) -> Mapping[str, str]:
        """The declared zone of each cluster; '' if it has none."""
        return {name: each.spec.zone for name, each in self.clusters.items()}

    def load(self, name: str) -> MeasuredLoad | None:
        """The recent measurement of a cluster; None if there is none."""
        return self.loads.get(name)

    def waited_ms(self, stream: Stream, channel: Channel) -> int:
        """How long a channel has been in its state, in time that registries led; 0 while that is not recorded."""
        return self.waited.get((str(channel.id(stream.name)), channel.state_since_ms), 0)

    def lost(self, channel: Channel) -> bool:
        """Whether the channel's topic was lost with a replaced cluster."""
        return channel.kafka_cluster_id not in ("", self.cluster(channel.cluster).kafka_cluster_id)

    def in_trouble(self, channel: Channel) -> bool:
        """Whether the channel accepts no records, or accepts them badly."""
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
    """Partitions per cluster, used by active channels or promised to spares; updated while a plan assigns it.

    Capacity limits used partitions, and a disk that is nearly full admits nothing more. Promises only make the next
    spare go elsewhere, if there is a choice.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._used: dict[str, int] = {}
        self._promised: dict[str, int] = {}
        for stream in world.streams.values():
            for channel in stream.channels:
                if channel.state is ChannelState.ACTIVE:
                    self.take(channel.cluster, channel.partitions)
                elif channel.spare:
                    self.promise(channel.cluster, channel.partitions)

    def take(self, cluster: str, partitions: int) -> None:
        """Takes room for an active channel."""
        self._used[cluster] = self._used.get(cluster, 0) + partitions

    def promise(self, cluster: str, partitions: int) -> None:
        """Counts a spare that would use this much if it were active."""
        self._promised[cluster] = self._promised.get(cluster, 0) + partitions

    def activate(self, spare: Channel) -> None:
        """Turns a promise into used room."""
        self.promise(spare.cluster, -spare.partitions)
        self.take(spare.cluster, spare.partitions)

    def copy(self) -> "Room":
        """A copy, for assignments that may be undone."""
        made = Room.__new__(Room)
        made._world, made._used, made._promised = self._world, dict(self._used), dict(self._promised)
        return made

    def used(self, cluster: str) -> int:
        """Number of partitions in use."""
        return self._used.get(cluster, 0)

    def promised(self, cluster: str) -> int:
        """Number of partitions promised to spares."""
        return self._promised.get(cluster, 0)

    def has(self, cluster: str, partitions: int, *, promises: bool = False) -> bool:
        """Whether a cluster has headroom for so many more; with `promises`, even if all its spares became active."""
        return not self.full(cluster, partitions, promises=promises)

    def full(self, cluster: str, partitions: int, *, promises: bool = False) -> str:
        """Why a cluster has no headroom for so many more, by its declared capacity and measured disks; ''."""
        spec, load = self._world.cluster(cluster).spec, self._world.load(cluster)
        taken = self.used(cluster) + (self.promised(cluster) if promises else 0)
        if spec.capacity and taken + partitions > spec.capacity:
            return f"has no headroom for {partitions} partitions"
        least = spec.health.get("disk_free_share", DISK_FREE_SHARE_MIN)
        return f"has less than {100 * least:g} % of a disk free" if load and load.free_share < least else ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search for a cluster: so many partitions of a lane, on none of the excluded clusters.

    Attributes:
        spare: The channel takes over if one of those fails.
        together: Clusters where the stream's other lanes would go.
    """

    partitions: int
    exclude: Collection[str] = ()
    spare: bool = False
    together: Collection[str] = ()


Rank = tuple[int, bool, bool, bool, int, int, float, str]


def rank(world: World, stream: Stream, wanted: Wanted, room: Room, name: str) -> Rank:
    """The rank of a cluster among those that may take traffic (healthy, open, with room): the smallest is the best.

    In this order:

    1. the stream's own preference;
    2. for a spare, another zone than those of the clusters it stands in for, since a fault of power or network takes
    the whole zone down;
    3. room for everything promised there;
    4. the stream's other lanes, so that its producers have few clusters to talk to;
    5. load in partitions, with promises if a spare is placed, so that a cluster's death spreads its streams;
    6. free share of the fullest disk, if measured, in hundredths: smaller differences pass while clusters are measured;
    7. name.

    A planned move ignores zones: nothing has failed.
    """
    clusters, load = stream.spec.clusters, world.load(name)
    zones = {world.cluster(each).spec.zone for each in wanted.exclude} - {""} if wanted.spare else set()
    used, promised = room.used(name), room.promised(name)
    return (
        clusters.index(name) if name in clusters else len(clusters),
        world.cluster(name).spec.zone in zones,
        not room.has(name, wanted.partitions, promises=True),
        name not in wanted.together,
        used + promised if wanted.spare else used,
        promised,
        -round(load.free_share, 2) if load else 0.0,
        name,
    )


def find_target(world: World, stream: Stream, wanted: Wanted, room: Room) -> str:
    """The best cluster for the search; '' if there is none."""
    refused = refusals(world, stream, wanted, room)
    free = [name for name in clusters_of(world, stream) if name not in refused and name not in wanted.exclude]
    return min(free, key=lambda name: rank(world, stream, wanted, room, name), default="")


def choose_target(world: World, stream: Stream, partitions: int, exclude: Collection[str], room: Room) -> str:
    """The best cluster for an active channel; '' if there is none."""
    return find_target(world, stream, Wanted(partitions, exclude), room)


def refusals(world: World, stream: Stream, wanted: Wanted, room: Room) -> Mapping[str, str]:
    """Why each cluster that the stream may use, and that is not excluded, cannot take it. In a stable order."""
    reasons: dict[str, str] = {}
    for name in clusters_of(world, stream):
        cluster = world.cluster(name)
        if name in wanted.exclude:
            continue
        if cluster.refusal:
            reasons[name] = f"is {cluster.refusal}"
        elif not cluster.takes_traffic:
            reasons[name] = f"is {cluster.health.name}"
        elif few := too_few_brokers(cluster, stream.spec.replication_factor):
            reasons[name] = few
        elif full := room.full(name, wanted.partitions):
            reasons[name] = full
    return reasons


def too_few_brokers(cluster: Cluster, replication_factor: int) -> str:
    """Why a cluster cannot keep so many copies, by its usual number of brokers; ''."""
    brokers = len(cluster.usual_brokers)
    if not brokers or replication_factor <= brokers:
        return ""
    return f"has {brokers} broker{'s' if brokers > 1 else ''} for {replication_factor} copies"


def check_replication_factor(world: World, spec: StreamSpec, present: Stream | None = None) -> None:
    """Refuses a factor too large for a named cluster, or for one with a channel of the stream in use.

    If no cluster is named, those with too few brokers are left out, unless none is left.

    Raises:
        Invalid: the factor is too large; names each cluster with its brokers.
    """
    used = {each.cluster for each in present.channels if each.state in IN_USE and not each.retiring} if present else ()
    names = [name for name in spec.clusters or sorted(world.clusters) if world.cluster(name).exists]
    few = {
        name: why
        for name in dict.fromkeys((*names, *sorted(used)))
        if (why := too_few_brokers(world.cluster(name), spec.replication_factor))
    }
    if few and (spec.clusters or len(few) == len(names) or not few.keys().isdisjoint(used)):
        told = ", ".join(f"{name} {why}" for name, why in few.items())
        least = min(len(world.cluster(name).usual_brokers) for name in few)
        remedy = (
            f"declare {least} or less, leave it out for what each cluster gives, or name clusters with more brokers"
        )
        raise Invalid(f"cluster {told}", field="spec.replication_factor", remedy=remedy)


def why_no_target(world: World, stream: Stream, partitions: int, exclude: Collection[str], room: Room) -> str:
    """Why no cluster can take so many partitions, cluster by cluster."""
    return none_can(refusals(world, stream, Wanted(partitions, exclude), room))


def none_can(reasons: Mapping[str, str]) -> str:
    """The message that no cluster can take the traffic, with the reason of each."""
    told = ", ".join(f"{name} {reason}" for name, reason in reasons.items())
    return "no cluster can take the traffic: " + (told or "there is no other cluster")


def clusters_of(world: World, stream: Stream) -> Sequence[str]:
    """Clusters that the stream may use."""
    names = stream.spec.clusters or sorted(world.clusters)
    return [name for name in names if world.cluster(name).exists]
