"""Plans the next decisions from the world alone. Level-triggered: the shell executes the plan, then asks again. Pure.

This file plans what to provision, activate, strand and retire. Other files plan the rest: `failover.py` how traffic
leaves a cluster automatically, `zone_spread.py` channels in each zone, `channel_work.py` the steps of a drain,
`moves.py` an operator's move, `decommission.py` how a cluster is emptied. `health/judge.py` judges health.

Guards of a failover: only to a healthy, uncordoned cluster with headroom; at most `FAILOVERS_MAX` per stream within
`FAILOVER_WINDOW_SECONDS`; at most `MOVES_PER_ROUND_MAX` streams per round, and `ARRIVALS_AT_ONCE` that change over to
one cluster; the stream's own `failover` mode.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from braid.kernel.limits.registry.traffic import MOVES_PER_ROUND_MAX, SPARE_GRACE_SECONDS
from services.registry.model.channels import CONSUMABLE, Channel, ChannelState, ChannelWeight
from services.registry.model.clusters.losses import below
from services.registry.model.stream_commands import (
    IntendRetirement,
    MarkReturned,
    MarkStranded,
    MoveTraffic,
    PlanChannel,
    ReportLoss,
    StreamCommand,
)
from services.registry.model.streams import Stream
from services.registry.policy.arrivals import Arrivals
from services.registry.policy.decommission import Wave, kept_for_ms, leave
from services.registry.policy.failover import leaving, must_leave
from services.registry.policy.spares import covered, place, ready
from services.registry.policy.world import Room, World
from services.registry.policy.zone_spread import spread_over_zones


@dataclass(frozen=True, slots=True)
class Decision:
    """A command on a stream, and its cause."""

    stream: str
    command: StreamCommand
    cause: str


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves to make now, and whether more are `held` until there is a slot."""

    decisions: Sequence[Decision] = ()
    held: bool = False


def plan_moves(world: World) -> Moves:
    """The moves that cannot wait, at most `MOVES_PER_ROUND_MAX`; examines only traffic that must leave.

    The whole plan contains them too, but takes so long for thousands of streams that producers should not wait for it.
    """
    troubled = [stream for stream in world.streams.values() if stream.exists and _in_trouble(world, stream)]
    if not troubled:
        return Moves()
    room, arrivals = Room(world), Arrivals(world)
    moves: list[Decision] = []
    for stream in sorted(troubled, key=lambda stream: stream.name):
        steps = leaving(world, stream, room, arrivals)
        moves += (Decision(stream.name, each, cause) for each, cause in steps if isinstance(each, MoveTraffic))
        if len(moves) >= MOVES_PER_ROUND_MAX:
            break
    return Moves(moves[:MOVES_PER_ROUND_MAX], arrivals.held)


def _in_trouble(world: World, stream: Stream) -> bool:
    return any(must_leave(world, channel) for channel in stream.channels)


def plan(world: World) -> Sequence[Decision]:
    """All decisions to make now, moves of traffic first: producers wait for those, and for nothing else.

    An empty plan means that only time, health or work can change anything.
    """
    room, wave, arrivals = Room(world), Wave(world), Arrivals(world)
    moves: list[Decision] = []
    others: list[Decision] = []
    for name in sorted(world.streams):
        stream = world.streams[name]
        if not stream.exists:
            continue
        for command, cause in _plan_stream(world, stream, room, wave, arrivals):
            kind = moves if isinstance(command, MoveTraffic) else others
            kind.append(Decision(name, command, cause))
    return [*moves[:MOVES_PER_ROUND_MAX], *others]


_Step = tuple[StreamCommand, str]


def _plan_stream(world: World, stream: Stream, room: Room, wave: Wave, arrivals: Arrivals) -> Iterator[_Step]:
    yield from _stranding(world, stream)
    yield from _losses(world, stream)
    yield from leaving(world, stream, room, arrivals)
    yield from leave(world, stream, room, wave)
    yield from _first_channels(world, stream, room)
    yield from spread_over_zones(world, stream, room)
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
    """Records lost with a replaced cluster: reported at once, and again when producers report how far its logs went."""
    for channel in stream.channels:
        if channel.state not in CONSUMABLE or not world.lost(channel):
            continue
        ranges, found = below(channel.known_ends), world.cluster(channel.cluster)
        if ranges != channel.lost:
            evidence = f"its cluster was {channel.kafka_cluster_id}, now {found.kafka_cluster_id} answers there"
            yield ReportLoss(channel.ref, ranges, evidence), f"cluster/{channel.cluster} replaced"


# --- lanes without a route


def _first_channels(world: World, stream: Stream, room: Room) -> Iterator[_Step]:
    activate: list[ChannelWeight] = []
    for lane in stream.spec.lanes:
        if not stream.active(lane) and (standby := ready(world, stream, lane, room)):
            activate.append(ChannelWeight(standby.ref, 1.0))
            room.activate(standby)
    if activate:
        yield MoveTraffic(tuple(activate), (), True, "first channels"), "channels provisioned"


# --- spares


def _spares(world: World, stream: Stream, room: Room) -> Iterator[_Step]:
    """Spares to plan: each lane keeps one on another cluster than its active channels; a lane without a route needs its
    first."""
    together = {channel.cluster for channel in stream.channels if channel.spare}
    for lane, partitions in stream.spec.lanes.items():
        if covered(world, stream, lane, room):
            continue
        if target := place(world, stream, lane, room, together):
            together.add(target)
            room.promise(target, partitions)
            prefix = world.cluster(target).spec.topic_prefix
            yield PlanChannel(lane, target, prefix, partitions), f"lane {lane} has no spare channel"


# --- what is not needed any more


def _retirements(world: World, stream: Stream) -> Iterator[_Step]:
    for channel in stream.channels:
        if channel.retiring:
            continue
        if why := _unwanted(world, stream, channel) if channel.spare else _outlived(world, stream, channel):
            yield IntendRetirement(channel.ref), why


def _outlived(world: World, stream: Stream, channel: Channel) -> str:
    """Why a drained channel's topic may be deleted; '' while it is kept, or is not drained."""
    if channel.state is not ChannelState.DRAINED:
        return ""
    if world.lost(channel) and not channel.closed:  # what somebody gave up stays to be looked at
        return "its cluster was replaced"
    if world.cluster(channel.cluster).discard_drained:
        return "what is drained on its cluster is discarded"
    return "" if world.unsure or kept_for_ms(world, stream, channel) else "its retention has passed"


def _unwanted(world: World, stream: Stream, spare: Channel) -> str:
    """Why a spare is not wanted; ''. A spare of another shape may be part of a move under way, so it gets some time."""
    if world.lost(spare):
        return "its cluster was replaced"
    if why := world.broken.get((spare.cluster, spare.topic)):
        return f"it could take no traffic: {why}"
    if closed := world.cluster(spare.cluster).closed:
        return f"its cluster is {closed}"
    if stream.spec.clusters and spare.cluster not in stream.spec.clusters:
        return "the stream does not name its cluster"
    late = world.waited_ms(stream, spare) >= SPARE_GRACE_SECONDS * 1_000 and not world.unsure
    return _misplaced(stream, spare) if late else ""


def _misplaced(stream: Stream, spare: Channel) -> str:
    """Why a spare is useless if no move is under way; ''."""
    if spare.partitions != stream.spec.lanes[spare.ref.lane]:
        return "the lane has another number of partitions"
    beside = any(each.cluster == spare.cluster for each in stream.active(spare.ref.lane))
    return "its cluster carries the lane already" if beside else ""


def waits(world: World) -> Mapping[str, int]:
    """Channels whose topics are deleted after a wait, with the times at which their states began."""
    return {
        str(channel.id(stream.name)): channel.state_since_ms
        for stream in world.streams.values()
        if stream.exists
        for channel in stream.channels
        if not channel.retiring
        if channel.state is ChannelState.DRAINED or (channel.spare and _misplaced(stream, channel))
    }
