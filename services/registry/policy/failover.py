"""Handles traffic that must leave a cluster: move it, plan a channel for it, or block it with a reason. Pure.

Every affected lane whose stream fails over automatically gets one of the three, whatever the state of other clusters.
`spares.py` decides which spare may take traffic and where the next one goes; `plan.py` plans it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from braid.kernel.limits.registry.resources import FAILOVER_WINDOW_SECONDS, FAILOVERS_MAX
from services.registry.model.channels import Channel, ChannelState, ChannelWeight
from services.registry.model.stream_commands import (
    BlockFailover,
    MoveTraffic,
    ProposeMove,
    StreamCommand,
    UnblockFailover,
)
from services.registry.model.streams import FailoverMode, Stream
from services.registry.policy.arrivals import Arrivals
from services.registry.policy.reasons import CARRIES_TOO, STANDBY, Choice, chosen
from services.registry.policy.spares import covered, place, ready, why_none
from services.registry.policy.world import Room, World, none_can

_Step = tuple[StreamCommand, str]


@dataclass(frozen=True, slots=True)
class _Way:
    """How one channel's traffic leaves: to the cluster `to`, and why there; through a `spare`, unless the lane has
    traffic there already."""

    channel: Channel
    to: str
    why: str
    spare: Channel | None = None


def must_leave(world: World, channel: Channel) -> bool:
    """Whether a channel carries traffic that should be elsewhere."""
    return channel.state is ChannelState.ACTIVE and world.in_trouble(channel)


def leaving(world: World, stream: Stream, room: Room, arrivals: Arrivals) -> Iterator[_Step]:
    """The decisions that a stream's faults require now, and the end of earlier ones."""
    troubled = [channel for channel in stream.channels if must_leave(world, channel)]
    clusters = sorted({channel.cluster for channel in troubled})
    for name in sorted({*stream.blocked, *stream.proposed} - {*clusters}):
        yield UnblockFailover(name), f"cluster/{name} carries no traffic that must leave"
    match stream.spec.failover:
        case FailoverMode.AUTOMATIC if troubled:
            yield from _fail_over(world, stream, troubled, room, arrivals)
        case FailoverMode.PROPOSE:
            for name in clusters:
                yield from _propose(stream, name, _why(world, troubled, name))
        case FailoverMode.OFF:
            yield from _block(stream, dict.fromkeys(clusters, "failover is off"))


def _why(world: World, troubled: Sequence[Channel], cluster: str) -> str:
    """Why the affected channels on a cluster must leave it."""
    return "; ".join(sorted({world.trouble(each) for each in troubled if each.cluster == cluster}))


def _propose(stream: Stream, cluster: str, reason: str) -> Iterator[_Step]:
    if cluster in stream.blocked:
        yield UnblockFailover(cluster), f"stream/{stream.name} asks a person now"
    if cluster in stream.blocked or cluster not in stream.proposed:
        yield ProposeMove(cluster, reason), f"cluster/{cluster}"


def _block(stream: Stream, reasons: Mapping[str, str]) -> Iterator[_Step]:
    """Blocks failover from each cluster with its reason, again if the reason changed."""
    for cluster, reason in sorted(reasons.items()):
        if stream.blocked.get(cluster) != reason:
            yield BlockFailover(cluster, reason), f"cluster/{cluster}"


def _fail_over(
    world: World, stream: Stream, troubled: Sequence[Channel], room: Room, arrivals: Arrivals
) -> Iterator[_Step]:
    """One move for all lanes that can leave; others are blocked, unless a channel for them is under way."""
    if _flaps(world, stream):
        reason = f"moved {FAILOVERS_MAX} times within {FAILOVER_WINDOW_SECONDS:.0f} s; move it by hand"
        yield from _block(stream, {channel.cluster: reason for channel in troubled})
        return
    ways: list[_Way] = []
    stuck: dict[str, dict[str, str]] = {}
    for channel in troubled:
        lane = channel.ref.lane
        if way := _way(world, stream, channel, room, ways):
            ways.append(way)
        elif not covered(world, stream, lane, room) and not place(world, stream, lane, room):
            why = none_can(why_none(world, stream, lane, room))
            stuck.setdefault(channel.cluster, {})[lane] = why
    left = {way.channel.cluster for way in ways}
    for name in sorted(stream.blocked.keys() - stuck.keys() - left):
        yield UnblockFailover(name), f"cluster/{name} can be left"
    yield from _block(stream, {cluster: _joined(reasons) for cluster, reasons in stuck.items()})
    if ways and arrivals.join({way.to for way in ways}):
        yield _move(world, stream, ways, room), " ".join(f"cluster/{name}" for name in sorted(left))


def _joined(reasons: Mapping[str, str]) -> str:
    """One reason if all lanes share it; else each lane with its own."""
    if len({*reasons.values()}) == 1:
        return next(iter(reasons.values()))
    return "; ".join(f"lane {lane}: {why}" for lane, why in sorted(reasons.items()))


def _flaps(world: World, stream: Stream) -> bool:
    """Whether the stream moved too often lately. Times in the future, from a clock that ran ahead, count like old
    ones."""
    window_ms = FAILOVER_WINDOW_SECONDS * 1_000
    return sum(abs(world.now_ms - at) < window_ms for at in stream.failovers_ms) >= FAILOVERS_MAX


def _way(world: World, stream: Stream, channel: Channel, room: Room, ways: Sequence[_Way]) -> _Way | None:
    """How a channel's traffic leaves now; None if it cannot, or a better way is under way.

    A lane that is spread over zones stays in the zone if a standby waits there. Else in this order: to a cluster that
    carries the lane already, to a standby on a healthy cluster, and only from a dead cluster to a standby on a mostly
    working one. Health comes before speed: the traffic would stay on an unhealthy cluster.
    """
    lane = channel.ref.lane
    if spare := _in_zone(world, stream, channel, room):
        room.activate(spare)
        return _Way(channel, spare.cluster, STANDBY, spare)
    for other in stream.active(lane):
        if not world.in_trouble(other):
            return _Way(channel, other.cluster, CARRIES_TOO)
    for way in ways:
        if way.channel.ref.lane == lane:
            return _Way(channel, way.to, way.why)
    if spare := ready(world, stream, lane, room):
        room.activate(spare)
        return _Way(channel, spare.cluster, STANDBY, spare)
    if not _is_dead(world, channel) or covered(world, stream, lane, room) or place(world, stream, lane, room):
        return None
    if spare := ready(world, stream, lane, room, last_resort=True):
        room.activate(spare)
        return _Way(channel, spare.cluster, f"{STANDBY}, {world.cluster(spare.cluster).health.name}", spare)
    return None


def _in_zone(world: World, stream: Stream, channel: Channel, room: Room) -> Channel | None:
    """A standby in a channel's own zone, for a lane that is spread over zones; None for others."""
    zone = world.cluster(channel.cluster).spec.zone
    if not zone or channel.ref.lane not in stream.spec.zone_lanes:
        return None
    return ready(world, stream, channel.ref.lane, room, zone=zone)


def _is_dead(world: World, channel: Channel) -> bool:
    return world.lost(channel) or not world.cluster(channel.cluster).reachable


def _move(world: World, stream: Stream, ways: Sequence[_Way], room: Room) -> MoveTraffic:
    activate = tuple(ChannelWeight(way.spare.ref, way.channel.weight) for way in ways if way.spare)
    drain = tuple(way.channel for way in ways)
    left = sorted({channel.cluster for channel in drain})
    choices = [Choice(way.channel.ref.lane, way.to, way.why) for way in ways]
    whys = [_why(world, drain, name) for name in left]
    reason = "; ".join([*whys, *chosen(world, stream, room, choices, left)])
    return MoveTraffic(activate, tuple(channel.ref for channel in drain), False, reason)
