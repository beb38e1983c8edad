"""Divides a lane's traffic over several clusters: a spread by weights, or a few percent for a trial. Pure.

A share is a channel of its own, active beside the others. Producers choose by weight (keys by rendezvous hashing, so
that a changed weight moves few of them). A channel that has no share any more drains, as after any move. All shares
have the lane's number of partitions: if it changes, each of them gets a new channel, and the old ones drain.
"""

import math
from collections.abc import Sequence

from braid.kernel.errors import FailoverBlocked, Invalid, Refused
from braid.kernel.limits.names import MOVE_PARTITIONS_MAX
from services.registry.model.channels import Channel
from services.registry.model.streams import Stream, check_clusters, check_order
from services.registry.policy.moves import (
    LaneMove,
    MoveOrder,
    check_exists,
    check_lanes,
    check_resized,
    check_target,
    standby_on,
)
from services.registry.policy.world import Room, World, why_no_target

_WEIGHT_MAX = 1e6
_SAME = 1e-9  # of all: weights closer than that are the same

_Shares = Sequence[tuple[str, float]]


def shares_traffic(order: MoveOrder) -> bool:
    """Whether a move leaves a lane on several clusters, or removes one of several."""
    return bool(order.spread) or order.percent is not None


def plan_shares(world: World, stream: Stream, order: MoveOrder) -> Sequence[LaneMove]:
    """Returns a move per lane and cluster with a share; none for lanes that are as wanted.

    Raises:
        Invalid: the order is malformed, or names an unknown lane.
        NotFound: it names an unknown cluster.
        Refused: a cluster may not take traffic; or the lane has no other cluster, or must stay on one to keep its
            order.
        FailoverBlocked: a cluster has no headroom.
    """
    _check(world, stream, order)
    room = Room(world)
    moves: list[LaneMove] = []
    for lane in order.lanes or tuple(stream.spec.lanes):
        active = stream.active(lane)
        wanted = order.spread or _trial(stream, lane, active, order.to_cluster, order.percent or 0.0)
        check_order(stream, lane, len(wanted), "spread" if order.spread else "percent")
        _check_zones(stream, lane, order)
        partitions = order.partitions or stream.spec.lanes[lane]
        if not _is_so(active, wanted, partitions):
            moves += _lane_moves(world, stream, lane, wanted, partitions, room)
    return moves


def _check_work(stream: Stream, order: MoveOrder) -> None:
    """Raises `Invalid` for a spread that may have to make too many logs: each share has all of a lane's partitions."""
    lanes = set(order.lanes or stream.spec.lanes) & set(stream.spec.lanes)
    partitions = len(order.spread) * sum(order.partitions or stream.spec.lanes[lane] for lane in lanes)
    if partitions > MOVE_PARTITIONS_MAX:
        message = f"{partitions} partitions of all shares together are more than {MOVE_PARTITIONS_MAX}"
        raise Invalid(message, field="spread", remedy="name fewer clusters, or spread one lane after the other")


def _check(world: World, stream: Stream, order: MoveOrder) -> None:
    if order.spread and (order.to_cluster or order.away_from_cluster or order.percent is not None):
        raise Invalid("a spread names all clusters itself", field="spread", remedy="leave to_cluster and percent out")
    if not order.spread and (not order.to_cluster or order.away_from_cluster):
        raise Invalid("a percentage is of a cluster", field="to_cluster", remedy="name it, and no other")
    check_lanes(stream, order)
    check_resized(stream, order)
    if order.percent is not None:
        if not 0.0 <= order.percent <= 100.0:
            raise Invalid(f"{order.percent:g} is not between 0 and 100", field="percent")
        _check_cluster(world, stream, order.to_cluster, "to_cluster", gains=order.percent > 0.0)
    check_clusters(len(order.spread), "spread")
    _check_work(stream, order)
    for position, (name, weight) in enumerate(order.spread):
        field = f"spread[{position}]"
        if not (math.isfinite(weight) and 0.0 < weight <= _WEIGHT_MAX):
            remedy = "leave a cluster out to have nothing on it"
            raise Invalid(f"{weight:g} is not a weight between 0 and {_WEIGHT_MAX:g}", field=field, remedy=remedy)
        if name in [each for each, _ in order.spread[:position]]:
            raise Invalid(f"cluster {name} is named twice", field=field)
        _check_cluster(world, stream, name, field, gains=True)


def _check_zones(stream: Stream, lane: str, order: MoveOrder) -> None:
    """Raises `Refused` for unequal shares of a lane that is spread over zones: they would send producers elsewhere."""
    if lane not in stream.spec.zone_lanes:
        return
    if order.percent is not None or len({weight for _, weight in order.spread}) > 1:
        message = f"lane {lane} of stream {stream.name} is spread over zones: its channels have the same weight"
        remedy = "give all clusters the same weight, or take spread: zones off the lane first"
        raise Refused(message, field="spread" if order.spread else "percent", remedy=remedy)


def _check_cluster(world: World, stream: Stream, name: str, field: str, *, gains: bool) -> None:
    """Checks a cluster that gains traffic. A cluster that loses it may be unwell: that is when a trial is ended."""
    check_exists(world, name, field)
    if gains:
        check_target(world, stream, name, field)


def _trial(stream: Stream, lane: str, active: Sequence[Channel], cluster: str, percent: float) -> _Shares:
    """The lane's shares if one cluster has this percentage; the others keep their proportions."""
    others = [channel for channel in active if channel.cluster != cluster]
    if percent < 100.0 and not others:
        message = f"lane {lane} of stream {stream.name} is on no other cluster than {cluster}"
        raise Refused(message, field="percent", remedy="name the others by a spread: --spread east=90,west=10")
    whole = sum(channel.weight for channel in others)
    left = [(channel.cluster, channel.weight * (100.0 - percent) / whole) for channel in others]
    return [*(left if percent < 100.0 else []), *([(cluster, percent)] if percent > 0.0 else [])]


def _is_so(active: Sequence[Channel], wanted: _Shares, partitions: int) -> bool:
    """Whether the lane's traffic is already divided this way, whatever the weights add up to."""
    fitting = {each.cluster: each.weight for each in active if each.partitions == partitions}
    if len(fitting) != len(active) or fitting.keys() != {cluster for cluster, _ in wanted}:
        return False
    has, wants = sum(fitting.values()), sum(weight for _, weight in wanted)
    return all(abs(fitting[cluster] / has - weight / wants) < _SAME for cluster, weight in wanted)


def _lane_moves(
    world: World, stream: Stream, lane: str, wanted: _Shares, partitions: int, room: Room
) -> Sequence[LaneMove]:
    there = {each.cluster: each for each in stream.active(lane) if each.partitions == partitions}
    clusters = {cluster for cluster, _ in wanted}
    drain = tuple(
        each for each in stream.active(lane) if there.get(each.cluster) != each or each.cluster not in clusters
    )
    moves: list[LaneMove] = []
    for cluster, weight in wanted:
        known = there.get(cluster)
        to = known.ref if known is not None else standby_on(world, stream, lane, cluster, partitions)
        if known is None:
            if not room.has(cluster, partitions):
                raise FailoverBlocked(_no_room(world, stream, partitions, cluster, room), field="lanes")
            room.take(cluster, partitions)
        moves.append(LaneMove(lane, () if moves else drain, to, cluster, partitions, known is not None, weight))
    return moves


def _no_room(world: World, stream: Stream, partitions: int, cluster: str, room: Room) -> str:
    others = {name for name in world.clusters if name != cluster}
    return why_no_target(world, stream, partitions, others, room)
