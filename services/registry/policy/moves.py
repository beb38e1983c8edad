"""An operator's move: which channels give traffic up, and which take it. Pure; the shell provisions missing ones."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from braid.kernel.errors import FailoverBlocked, Invalid, NotFound, Refused
from services.registry.model.channels import Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.stream_commands import MoveTraffic
from services.registry.model.streams import Stream, check_partitions, check_size
from services.registry.policy.reasons import CARRIES_TOO, STANDBY, Choice, chosen
from services.registry.policy.world import Room, Wanted, World, find_target, rank, why_no_target


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """The requested move: exactly one of `to_cluster`, `away_from_cluster` and `spread` (weights by cluster).

    `partitions` 0 keeps their number. `percent` is the share of records that `to_cluster` gets; None for all.
    """

    lanes: tuple[str, ...] = ()
    to_cluster: str = ""
    away_from_cluster: str = ""
    partitions: int = 0
    reason: str = ""
    spread: tuple[tuple[str, float], ...] = ()
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class LaneMove:
    """One lane's part of a move: channels that begin to drain, and the one that takes their share (None: to be
    provisioned).

    `joins` says that the target carries a share of the lane already; `share`, unless 0, is its weight afterwards. `why`
    says why it goes there, if nobody named the cluster.
    """

    lane: str
    drain: tuple[Channel, ...]
    to: ChannelRef | None
    cluster: str
    partitions: int
    joins: bool = False
    share: float = 0.0
    why: str = ""

    @property
    def weight(self) -> float:
        """The share of the lane that moves."""
        return sum(channel.weight for channel in self.drain)


def plan_move(world: World, stream: Stream, order: MoveOrder, room: Room | None = None) -> Sequence[LaneMove]:
    """Returns the moves of all lanes that must change; none if everything is as wanted.

    Room that the moves need is taken from `room` (that of the world without them), whether they are all possible or
    not.

    Raises:
        Invalid: the order is malformed, or names an unknown lane.
        NotFound: it names an unknown cluster.
        Refused: the named cluster takes no traffic.
        FailoverBlocked: no cluster can take the traffic.
    """
    _check(world, stream, order)
    room = room or Room(world)
    moves: list[LaneMove] = []
    for lane in order.lanes or tuple(stream.spec.lanes):
        move = _lane_move(world, stream, lane, order, room)
        if not move.drain:
            continue
        if not move.joins:
            room.take(move.cluster, move.partitions)
        moves.append(move)
    return moves


def as_command(world: World, stream: Stream, moves: Sequence[LaneMove], reason: str) -> MoveTraffic:
    """The one command that performs the moves, once every lane has its channel."""
    activate: list[ChannelWeight] = []
    for move in moves:
        if move.to is not None:
            target = stream.channel(move.to)
            activate.append(ChannelWeight(move.to, move.share or move.weight + target.weight))
    drain = [channel for move in moves for channel in move.drain]
    planned = not any(world.in_trouble(channel) for channel in drain)
    refs, left = tuple(channel.ref for channel in drain), {channel.cluster for channel in drain}
    choices = [Choice(move.lane, move.cluster, move.why) for move in moves if move.why]
    whys = chosen(world, stream, Room(world), choices, left) if choices else ()
    return MoveTraffic(tuple(activate), refs, planned, "; ".join([reason or "asked for", *whys]), asked_for=True)


def _check(world: World, stream: Stream, order: MoveOrder) -> None:
    if bool(order.to_cluster) == bool(order.away_from_cluster):
        raise Invalid("exactly one of to_cluster and away_from_cluster is needed", field="to_cluster")
    check_lanes(stream, order)
    check_resized(stream, order)
    field = "to_cluster" if order.to_cluster else "away_from_cluster"
    name = order.to_cluster or order.away_from_cluster
    check_exists(world, name, field)
    if order.to_cluster:
        check_target(world, stream, name, field)


def check_lanes(stream: Stream, order: MoveOrder) -> None:
    """Raises `Invalid` for a lane that the stream does not have, or for more than it has."""
    if len(order.lanes) > len(stream.spec.lanes):
        message = f"{len(order.lanes)} lanes are more than the {len(stream.spec.lanes)} of stream {stream.name}"
        raise Invalid(message, field="lanes", remedy="name each once, or none for all of them")
    for lane in order.lanes:
        if lane not in stream.spec.lanes:
            known = ", ".join(stream.spec.lanes)
            raise Invalid(f"stream {stream.name} has no lane {lane}", field="lanes", remedy=f"it has {known}")


def check_resized(stream: Stream, order: MoveOrder) -> None:
    """Raises `Invalid` for no partitions or too many, in one lane or in all together."""
    if order.partitions:
        check_partitions(order.partitions, "partitions")
        resized = dict.fromkeys(order.lanes or stream.spec.lanes, order.partitions)
        check_size({**stream.spec.lanes, **resized}, stream.spec.lanes, "partitions")


def check_exists(world: World, name: str, field: str) -> None:
    """Raises `NotFound` for a cluster that is not registered."""
    if not world.cluster(name).exists:
        raise NotFound(f"there is no cluster {name}", field=field, remedy="list them: braid get clusters")


def check_target(world: World, stream: Stream, name: str, field: str) -> None:
    """Raises `Refused` for a cluster that may not take the stream's traffic now."""
    cluster = world.cluster(name)
    if stream.spec.clusters and name not in stream.spec.clusters:
        remedy = f"add it to the stream's clusters ({', '.join(stream.spec.clusters)})"
        raise Refused(f"stream {stream.name} may not use cluster {name}", field=field, remedy=remedy)
    if not cluster.takes_traffic:
        state = cluster.refusal or cluster.health.name
        raise Refused(f"cluster {name} takes no traffic: it is {state}", field=field, remedy="choose another cluster")


def _lane_move(world: World, stream: Stream, lane: str, order: MoveOrder, room: Room) -> LaneMove:
    if lane in stream.spec.zone_lanes and (within := _zone_move(world, stream, lane, order, room)):
        return within
    partitions = order.partitions or stream.spec.lanes[lane]
    active = stream.active(lane)
    drain = tuple(channel for channel in active if _leaves(channel, order, partitions))
    if not drain:
        return LaneMove(lane, (), None, "", partitions)
    stays = [channel for channel in active if channel not in drain and channel.partitions == partitions]
    if order.away_from_cluster:
        stays = sorted((each for each in stays if _takes(world, each)), key=lambda each: room.used(each.cluster))
    if stays:
        why = CARRIES_TOO if order.away_from_cluster else ""
        return LaneMove(lane, drain, stays[0].ref, stays[0].cluster, partitions, joins=True, why=why)
    exclude = {order.away_from_cluster} - {""}
    shared = {channel.cluster for channel in active if order.away_from_cluster and channel.partitions == partitions}
    cluster = order.to_cluster or _target(world, stream, lane, partitions, exclude | shared, room)
    if not cluster or not room.has(cluster, partitions):
        raise FailoverBlocked(why_no_target(world, stream, partitions, exclude, room), field="lanes")
    to = standby_on(world, stream, lane, cluster, partitions)
    why = STANDBY if order.away_from_cluster else ""
    return LaneMove(lane, drain, to, cluster, partitions, why=why)


def _zone_move(world: World, stream: Stream, lane: str, order: MoveOrder, room: Room) -> LaneMove | None:
    """The move of a lane that is spread over zones: only the zone of the named cluster changes, all weights stay equal.

    Without another cluster in the zone, its traffic joins that of another zone. None if the lane is in no other zone.
    """
    partitions, name = stream.spec.lanes[lane], order.to_cluster or order.away_from_cluster
    if order.partitions not in (0, partitions):
        message = f"lane {lane} of stream {stream.name} is spread over zones: its channels are resized together"
        remedy = "name a cluster of each zone, all with weight 1, by a spread: --spread east=1,west=1"
        raise Refused(message, field="partitions", remedy=remedy)
    zone = world.cluster(name).spec.zone
    if order.to_cluster and not zone:
        message = f"lane {lane} of stream {stream.name} is spread over zones, and cluster {name} is in none"
        raise Refused(message, field="to_cluster", remedy="declare the cluster's zone, or name another cluster")
    active = stream.active(lane)
    here = [each for each in active if world.cluster(each.cluster).spec.zone == zone]
    if order.to_cluster:
        drain = tuple(each for each in here if each.cluster != name)
        cluster, beside = name, [each for each in here if each.cluster == name]
    else:
        drain = tuple(each for each in active if each.cluster == name)
        beside = [each for each in active if each not in drain and _takes(world, each)]
        beside.sort(key=lambda each: (each not in here, room.used(each.cluster)))
        cluster = "" if beside and beside[0] in here else _in_zone(world, stream, partitions, active, room, zone)
    if not drain:
        return LaneMove(lane, (), None, "", partitions)
    if not cluster or (order.to_cluster and beside):
        if not beside:
            return None
        to = beside[0]
        return LaneMove(lane, drain, to.ref, to.cluster, partitions, joins=True, share=to.weight, why=CARRIES_TOO)
    if not room.has(cluster, partitions):
        raise FailoverBlocked(why_no_target(world, stream, partitions, (), room), field="lanes")
    return LaneMove(lane, drain, standby_on(world, stream, lane, cluster, partitions), cluster, partitions)


def _in_zone(world: World, stream: Stream, partitions: int, active: Sequence[Channel], room: Room, zone: str) -> str:
    """The best cluster of a zone that does not carry the lane; '' if there is none."""
    others = {each for each in world.clusters if not zone or world.cluster(each).spec.zone != zone}
    return find_target(world, stream, Wanted(partitions, others | {each.cluster for each in active}), room)


def _leaves(channel: Channel, order: MoveOrder, partitions: int) -> bool:
    if order.away_from_cluster:
        return channel.cluster == order.away_from_cluster
    return channel.cluster != order.to_cluster or channel.partitions != partitions


def _takes(world: World, channel: Channel) -> bool:
    """Whether an active channel may be given more traffic."""
    return world.cluster(channel.cluster).takes_traffic and not world.lost(channel)


def _target(world: World, stream: Stream, lane: str, partitions: int, exclude: Collection[str], room: Room) -> str:
    """The target of a move: a cluster with a waiting standby, else the best one.

    A stream that names no clusters leaves a standby unused if another cluster is emptier even with the lane on it.
    """
    wanted = Wanted(partitions, exclude)
    best = find_target(world, stream, wanted, room)
    waiting: list[str] = []
    for channel in stream.channels:
        waits = channel.ref.lane == lane and channel.spare and channel.partitions == partitions
        fits = world.cluster(channel.cluster).takes_traffic and room.has(channel.cluster, partitions)
        if waits and fits and channel.cluster not in exclude and not world.lost(channel):
            waiting.append(channel.cluster)
    standby = min(waiting, key=lambda name: rank(world, stream, wanted, room, name), default=best)
    stays = stream.spec.clusters or room.used(standby) <= room.used(best) + partitions
    return standby if stays else best


def standby_on(world: World, stream: Stream, lane: str, cluster: str, partitions: int) -> ChannelRef | None:
    """The channel that can take a lane's traffic on a cluster at once; None if there is none."""
    for channel in stream.channels:
        fits = channel.ref.lane == lane and channel.cluster == cluster and channel.partitions == partitions
        if fits and channel.spare and channel.state is ChannelState.STANDBY and not world.lost(channel):
            return channel.ref
    return None
