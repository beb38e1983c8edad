"""Empties a cluster: streams leave it a few at a time, and the rest is listed. Pure.

A cluster under decommission takes no new traffic (`Cluster.takes_traffic`). Active channels leave it by moves, all
lanes of a stream in one append or none of them. Spares on it are retired, and `plan.py` provisions others elsewhere.
Draining channels drain as usual. Drained ones stay for their stream's retention, unless they are to be discarded. If
the cluster dies meanwhile, its traffic leaves by failover and the rest waits for it.

The cluster is empty once no channel of any stream, deleted streams included, may have a topic there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from braid.kernel.errors import FailoverBlocked
from braid.kernel.limits.registry.traffic import DECOMMISSION_STREAMS_AT_ONCE
from services.registry.model.channels import CONSUMABLE, SPARE, Channel, ChannelState, DrainStep
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import (
    ClusterCommand,
    RecordEmptied,
)
from services.registry.model.stream_commands import PlanChannel, StreamCommand
from services.registry.model.streams import FailoverMode, Stream
from services.registry.model.topics import HOUR_MS
from services.registry.policy.moves import LaneMove, MoveOrder, as_command, plan_move
from services.registry.policy.world import Room, World


class Stage(Enum):
    """The stage of a decommission, ordered by need of attention."""

    BLOCKED = "BLOCKED"
    STRANDED = "STRANDED"
    MOVING = "MOVING"
    DRAINING = "DRAINING"
    KEEPING = "KEEPING"
    CLEARING = "CLEARING"
    EMPTY = "EMPTY"


@dataclass(frozen=True, slots=True)
class Departure:
    """A stream's departure from a cluster: its moves, or why it stays."""

    stream: str
    moves: tuple[LaneMove, ...] = ()
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A channel that may still have a topic on the cluster."""

    stream: Stream
    channel: Channel

    @property
    def name(self) -> str:
        """The channel's name in the whole mesh."""
        return str(self.channel.id(self.stream.name))


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """A command on a cluster, and its cause."""

    cluster: str
    command: ClusterCommand
    cause: str


class Wave:
    """How many more streams may begin to leave: fewer while the producers of earlier ones have not left.

    Attributes:
        clusters: The clusters that they leave.
    """

    def __init__(self, world: World) -> None:
        self.clusters = frozenset(each.name for each in world.clusters.values() if each.exists and each.decommissioning)
        under_way = sum(self._changes_over(stream) for stream in world.streams.values()) if self.clusters else 0
        self._left = DECOMMISSION_STREAMS_AT_ONCE - under_way

    def join(self) -> bool:
        """Takes a slot for one more stream; returns whether there was one."""
        self._left -= 1
        return self._left >= 0

    def _changes_over(self, stream: Stream) -> bool:
        here = [channel for channel in stream.channels if channel.cluster in self.clusters]
        return any(channel.drain_step is DrainStep.PRODUCERS for channel in here)


def left_on(world: World, cluster: str) -> Sequence[Left]:
    """Channels that keep a cluster from being empty, by stream."""
    return [
        Left(stream, channel)
        for stream in world.streams.values()
        for channel in stream.channels
        if channel.live and channel.cluster == cluster
    ]


def plan_emptied(world: World) -> Sequence[ClusterDecision]:
    """Decides which clusters to record as empty; none that was not compared since a restore of the store."""
    waiting = [each for each in world.clusters.values() if each.decommissioning and not each.emptied]
    known = [each for each in waiting if each.exists and not each.belonging.uncompared]
    empty = [each for each in known if not left_on(world, each.name)]
    return [ClusterDecision(each.name, RecordEmptied(), "no channel is left on it") for each in empty]


# --- leaving


def leave(world: World, stream: Stream, room: Room, wave: Wave) -> Iterator[tuple[StreamCommand, str]]:
    """The next step of a stream that must leave: channels elsewhere first, then all its traffic at once."""
    cluster = _to_leave(world, stream, wave) if wave.clusters else None
    if cluster is None:
        return
    departure = depart(world, stream, cluster, room)
    if departure.blocked or not departure.moves or not wave.join():
        return
    cause = f"cluster/{cluster.name} is being decommissioned"
    missing = [move for move in departure.moves if move.to is None]
    for move in missing:
        prefix = world.cluster(move.cluster).spec.topic_prefix
        yield PlanChannel(move.lane, move.cluster, prefix, move.partitions), cause
    if not missing:
        yield as_command(world, stream, departure.moves, _reason(cluster)), cause


def depart(world: World, stream: Stream, cluster: Cluster, room: Room) -> Departure:
    """How a stream would leave within the remaining room; takes that room if it can leave."""
    if not cluster.reachable:
        return Departure(stream.name, blocked=_why_not_failing_over(stream, cluster))
    tried = room.copy()
    try:
        moves = plan_move(world, stream, MoveOrder(away_from_cluster=cluster.name), tried)
    except FailoverBlocked as error:
        return Departure(stream.name, blocked=error.message)
    for move in moves:
        if not move.joins:
            room.take(move.cluster, move.partitions)
    return Departure(stream.name, tuple(moves))


def departures(world: World, cluster: Cluster) -> Sequence[Departure]:
    """How each stream with traffic on the cluster would leave it now, one after another."""
    room = Room(world)
    staying = [stream for stream in world.streams.values() if _carried_by(stream, cluster.name)]
    return [depart(world, stream, cluster, room) for stream in staying]


def _to_leave(world: World, stream: Stream, wave: Wave) -> Cluster | None:
    """The cluster a stream is to leave now; None while a failover involves the stream: one move at a time."""
    active = [channel for channel in stream.channels if channel.state is ChannelState.ACTIVE]
    if any(world.in_trouble(channel) for channel in active):
        return None
    closed = [channel.cluster for channel in active if channel.cluster in wave.clusters]
    return world.cluster(min(closed)) if closed else None


def _carried_by(stream: Stream, cluster: str) -> bool:
    here = [channel for channel in stream.channels if channel.cluster == cluster]
    return stream.exists and any(channel.state is ChannelState.ACTIVE for channel in here)


def _why_not_failing_over(stream: Stream, cluster: Cluster) -> str:
    """Why traffic stays on an unreachable cluster; '' while its failover is on its way."""
    if stream.spec.failover is FailoverMode.PROPOSE:
        return f"cluster {cluster.name} is {cluster.health.name}: a person is asked to move the stream"
    return stream.blocked.get(cluster.name, "")


def _reason(cluster: Cluster) -> str:
    why = f": {cluster.decommission_reason}" if cluster.decommission_reason else ""
    return f"cluster {cluster.name} is being decommissioned{why}"


# --- how far it is


@dataclass(frozen=True, slots=True)
class EmptyingProgress:
    """The remainder on a cluster under decommission.

    Attributes:
        streams: Number of streams with a channel there.
        stranded: Names of channels that wait until the cluster is reachable.
        blocked: Streams whose traffic cannot leave.
        kept_until_ms: When the last drained topic has outlived its stream's retention; 0 if none is kept.
    """

    stage: Stage
    streams: int
    active: int
    spare: int
    draining: int
    drained: int
    stranded: tuple[str, ...]
    blocked: tuple[Departure, ...]
    kept_until_ms: int


def progress(world: World, cluster: Cluster) -> EmptyingProgress:
    """The progress of a decommission."""
    left = left_on(world, cluster.name)
    states = [each.channel.state for each in left]
    stranded = tuple(each.name for each in left if _waits_for_cluster(each.channel, cluster))
    blocked = tuple(each for each in departures(world, cluster) if each.blocked)
    kept = [each for each in left if each.channel.state is ChannelState.DRAINED and not each.channel.retiring]
    return EmptyingProgress(
        _stage(cluster, left, len(kept), bool(stranded), bool(blocked)),
        len({each.stream.name for each in left}),
        states.count(ChannelState.ACTIVE),
        sum(state in SPARE for state in states),
        states.count(ChannelState.DRAINING),
        states.count(ChannelState.DRAINED),
        stranded,
        blocked,
        max((world.now_ms + kept_for_ms(world, each.stream, each.channel) for each in kept), default=0),
    )


def kept_for_ms(world: World, stream: Stream, channel: Channel) -> int:
    """How much longer a drained channel is kept: its stream's retention, counted in time that registries led."""
    return max(0, stream.spec.retention_hours * HOUR_MS - world.waited_ms(stream, channel))


def _waits_for_cluster(channel: Channel, cluster: Cluster) -> bool:
    """Whether a channel can make no progress before its cluster is back."""
    return channel.stranded or (not cluster.reachable and channel.state not in (*CONSUMABLE, *SPARE))


def _stage(cluster: Cluster, left: Sequence[Left], kept: int, stranded: bool, blocked: bool) -> Stage:
    states = {each.channel.state for each in left}
    if cluster.emptied and not left:
        return Stage.EMPTY
    if blocked:
        return Stage.BLOCKED
    if stranded or (left and not cluster.reachable):
        return Stage.STRANDED
    if ChannelState.ACTIVE in states:
        return Stage.MOVING
    if ChannelState.DRAINING in states:
        return Stage.DRAINING
    return Stage.KEEPING if kept else Stage.CLEARING
