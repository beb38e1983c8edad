"""What should be decided next, from the world alone: a level-triggered plan the shell executes, then asks again. Pure.

It says what to provision, activate, fail over, strand, block and retire; the steps of a single channel's drain are
`work.py`'s, a person's move is `moves.py`'s, emptying a cluster is `decommission.py`'s, health and its numbers are
`health.py`'s.

Guards of a failover: only to a healthy, uncordoned cluster with headroom; at most `FAILOVERS_MAX` of a stream within
`FAILOVER_WINDOW_SECONDS`; at most `MOVES_PER_ROUND_MAX` streams at once; the stream's own `failover` mode.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from braid.kernel.limits import (
    FAILOVER_WINDOW_SECONDS,
    FAILOVERS_MAX,
    MOVES_PER_ROUND_MAX,
    SPARE_GRACE_SECONDS,
)
from services.registry.channels import CONSUMABLE, Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.commands import (
    BlockFailover,
    IntendRetirement,
    MarkReturned,
    MarkStranded,
    MoveTraffic,
    PlanChannel,
    ProposeMove,
    ReportLoss,
    StreamCommand,
    UnblockFailover,
)
from services.registry.decommission import Wave, kept_until_ms, leave
from services.registry.losses import below
from services.registry.streams import FailoverMode, Stream
from services.registry.world import Room, World, choose_target, why_no_target


@dataclass(frozen=True, slots=True)
class Decision:
    """A command on a stream, and what led to it."""

    stream: str
    command: StreamCommand
    cause: str


def plan_moves(world: World) -> Sequence[Decision]:
    """The moves that cannot wait, at most `MOVES_PER_ROUND_MAX`: a look at traffic in trouble, and at nothing else.

    They are in the whole plan, too, which takes so long for thousands of streams that producers should not wait for it.
    """
    room = Room(world)
    moves: list[Decision] = []
    for name in sorted(world.streams):
        stream = world.streams[name]
        if not stream.exists or not any(_must_leave(world, channel) for channel in stream.channels):
            continue
        leaving = _leaving(world, stream, room)
        moves += (Decision(name, command, cause) for command, cause in leaving if isinstance(command, MoveTraffic))
        if len(moves) >= MOVES_PER_ROUND_MAX:
            break
    return moves[:MOVES_PER_ROUND_MAX]


def plan(world: World) -> Sequence[Decision]:
    """What to decide now, moves of traffic first: producers wait for them, and for nothing else.

    An empty plan means that nothing but time, health or work can change anything.
    """
    room, wave = Room(world), Wave(world)
    moves: list[Decision] = []
    others: list[Decision] = []
    for name in sorted(world.streams):
        stream = world.streams[name]
        if not stream.exists:
            continue
        for command, cause in _plan_stream(world, stream, room, wave):
            kind = moves if isinstance(command, MoveTraffic) else others
            kind.append(Decision(name, command, cause))
    return [*moves[:MOVES_PER_ROUND_MAX], *others]


_Step = tuple[StreamCommand, str]


def _plan_stream(world: World, stream: Stream, room: Room, wave: Wave) -> Iterator[_Step]:
    yield from _stranding(world, stream)
    yield from _losses(world, stream)
    yield from _leaving(world, stream, room)
    yield from leave(world, stream, room, wave)
    yield from _first_channels(world, stream, room)
    yield from _spares(world, stream, room)
    yield from _retirements(world, stream)


# --- stranded and returned


def _stranding(world: World, stream: Stream) -> Iterator[_Step]:
    consumable = [channel for channel in stream.channels if channel.state in CONSUMABLE]
    for name in sorted({channel.cluster for channel in consumable}):
        here = [channel for channel in consumable if channel.cluster == name]
        reachable = world.cluster(name).reachable
        if not reachable and not all(channel.stranded for channel in here):
            yield MarkStranded(name), f"cluster/{name} DOWN"
        elif reachable and any(channel.stranded for channel in here):
            yield MarkReturned(name), f"cluster/{name} returned"


def _losses(world: World, stream: Stream) -> Iterator[_Step]:
    """What went with a cluster that was replaced: told at once, and again when producers said how far it went."""
    for channel in stream.channels:
        if channel.state not in CONSUMABLE or not world.lost(channel):
            continue
        ranges, found = below(channel.known_ends), world.cluster(channel.cluster)
        if ranges != channel.lost:
            evidence = f"its cluster was {channel.kafka_cluster_id}, now {found.kafka_cluster_id} answers there"
            yield ReportLoss(channel.ref, ranges, evidence), f"cluster/{channel.cluster} replaced"


# --- traffic that must leave a cluster


def _leaving(world: World, stream: Stream, room: Room) -> Iterator[_Step]:
    troubled = [channel for channel in stream.channels if _must_leave(world, channel)]
    clusters = sorted({channel.cluster for channel in troubled})
    for name in sorted({*stream.blocked, *stream.proposed}):
        if name not in clusters:
            yield UnblockFailover(name), f"cluster/{name} carries no traffic that must leave"
    match stream.spec.failover:
        case FailoverMode.AUTOMATIC:
            yield from _fail_over(world, stream, troubled, room)
        case FailoverMode.PROPOSE:
            for name in [name for name in clusters if name not in stream.proposed]:
                yield ProposeMove(name, _why(world, troubled, name)), f"cluster/{name}"
        case FailoverMode.OFF:
            for name in clusters:
                yield from _block(stream, name, "failover is off")


def _why(world: World, troubled: Sequence[Channel], cluster: str) -> str:
    """Why what is in trouble on a cluster must leave it."""
    return "; ".join(sorted({world.trouble(each) for each in troubled if each.cluster == cluster}))


def _must_leave(world: World, channel: Channel) -> bool:
    return channel.state is ChannelState.ACTIVE and world.in_trouble(channel)


def _fail_over(world: World, stream: Stream, troubled: Sequence[Channel], room: Room) -> Iterator[_Step]:
    """One move for all lanes that can leave; what cannot is blocked, unless a new channel for it is under way."""
    if not troubled:
        return
    if _flaps(world, stream):
        reason = f"moved {FAILOVERS_MAX} times within {FAILOVER_WINDOW_SECONDS:.0f} s; move it by hand"
        for name in sorted({channel.cluster for channel in troubled}):
            yield from _block(stream, name, reason)
        return
    activate: dict[ChannelRef, ChannelWeight] = {}
    drain: list[Channel] = []
    for channel in troubled:
        if _lane_goes_on(world, stream, channel, activate):
            drain.append(channel)
        elif standby := _ready(world, stream, channel.ref.lane, room, dead=_is_dead(world, channel)):
            activate[standby.ref] = ChannelWeight(standby.ref, channel.weight)
            room.take(standby.cluster, standby.partitions)
            drain.append(channel)
        elif not choose_target(world, stream, channel.partitions, {channel.cluster}, room):
            why = why_no_target(world, stream, channel.partitions, {channel.cluster}, room)
            yield from _block(stream, channel.cluster, why)
    if drain:
        clusters = sorted({channel.cluster for channel in drain})
        reason = "; ".join(_why(world, drain, name) for name in clusters)
        refs = tuple(channel.ref for channel in drain)
        yield MoveTraffic(tuple(activate.values()), refs, False, reason), " ".join(f"cluster/{n}" for n in clusters)


def _flaps(world: World, stream: Stream) -> bool:
    window_ms = FAILOVER_WINDOW_SECONDS * 1_000
    return sum(world.now_ms - at < window_ms for at in stream.failovers_ms) >= FAILOVERS_MAX


def _lane_goes_on(world: World, stream: Stream, channel: Channel, activate: dict[ChannelRef, ChannelWeight]) -> bool:
    """Whether the lane has another active channel, or just got one."""
    lane = channel.ref.lane
    others = [each for each in stream.active(lane) if not world.in_trouble(each)]
    return bool(others) or any(ref.lane == lane for ref in activate)


def _is_dead(world: World, channel: Channel) -> bool:
    return world.lost(channel) or not world.cluster(channel.cluster).reachable


def _ready(world: World, stream: Stream, lane: str, room: Room, *, dead: bool = False) -> Channel | None:
    """The lane's standby that may take traffic now: of the lane's present shape, if there is a choice.

    What is `dead` goes to a cluster that mostly works rather than nowhere.
    """
    wanted = stream.spec.lanes.get(lane)
    ready = [
        channel
        for channel in stream.channels
        if channel.ref.lane == lane and channel.spare and channel.state is ChannelState.STANDBY
        if world.cluster(channel.cluster).takes_traffic or (dead and world.cluster(channel.cluster).last_resort)
        if not world.in_trouble(channel) and room.has(channel.cluster, channel.partitions)
    ]

    def worse(channel: Channel) -> tuple[bool, bool, ChannelRef]:
        return not world.cluster(channel.cluster).takes_traffic, channel.partitions != wanted, channel.ref

    return min(ready, key=worse, default=None)


def _block(stream: Stream, cluster: str, reason: str) -> Iterator[_Step]:
    if cluster not in stream.blocked:
        yield BlockFailover(cluster, reason), f"cluster/{cluster}"


# --- lanes without a route


def _first_channels(world: World, stream: Stream, room: Room) -> Iterator[_Step]:
    activate: list[ChannelWeight] = []
    for lane in stream.spec.lanes:
        if not stream.active(lane) and (standby := _ready(world, stream, lane, room)):
            activate.append(ChannelWeight(standby.ref, 1.0))
            room.take(standby.cluster, standby.partitions)
    if activate:
        yield MoveTraffic(tuple(activate), (), True, "first channels"), "channels provisioned"


# --- spares


def _spares(world: World, stream: Stream, room: Room) -> Iterator[_Step]:
    """Each lane keeps a spare on another cluster than its active channels; a lane without a route needs its first."""
    for lane, partitions in stream.spec.lanes.items():
        taken = {channel.cluster for channel in stream.active(lane)}
        spares = [channel for channel in stream.channels if channel.ref.lane == lane and channel.spare]
        if any(_counts(world, channel, taken) for channel in spares):
            continue
        exclude = taken | {channel.cluster for channel in spares if channel.partitions == partitions}
        if target := choose_target(world, stream, partitions, exclude, room):
            prefix = world.cluster(target).spec.topic_prefix
            yield PlanChannel(lane, target, prefix, partitions), f"lane {lane} has no spare channel"


def _counts(world: World, spare: Channel, taken: set[str]) -> bool:
    cluster = world.cluster(spare.cluster)
    return cluster.reachable and not cluster.closed and not world.lost(spare) and spare.cluster not in taken


# --- what is not needed any more


def _retirements(world: World, stream: Stream) -> Iterator[_Step]:
    for channel in stream.channels:
        if channel.retiring:
            continue
        if why := _unwanted(world, stream, channel) if channel.spare else _outlived(world, stream, channel):
            yield IntendRetirement(channel.ref), why


def _outlived(world: World, stream: Stream, channel: Channel) -> str:
    """Why a drained channel's topic may go; '' while it is kept, or is not drained."""
    if channel.state is not ChannelState.DRAINED:
        return ""
    if world.cluster(channel.cluster).discard_drained:
        return "what is drained on its cluster is discarded"
    return "its retention has passed" if world.now_ms >= kept_until_ms(stream, channel) else ""


def _unwanted(world: World, stream: Stream, spare: Channel) -> str:
    """Why a spare is not wanted; ''. One of another shape may be part of a move under way, so it gets some time."""
    if world.lost(spare):
        return "its cluster was replaced"
    if why := world.broken.get((spare.cluster, spare.topic)):
        return f"it could take no traffic: {why}"
    if closed := world.cluster(spare.cluster).closed:
        return f"its cluster is {closed}"
    if stream.spec.clusters and spare.cluster not in stream.spec.clusters:
        return "the stream does not name its cluster"
    if world.now_ms < spare.state_since_ms + SPARE_GRACE_SECONDS * 1_000:
        return ""
    if spare.partitions != stream.spec.lanes[spare.ref.lane]:
        return "the lane has another number of partitions"
    beside = spare.cluster in {channel.cluster for channel in stream.active(spare.ref.lane)}
    return "its cluster carries the lane already" if beside else ""
