"""A lane's spares: which may take its traffic now, whether another is needed, and where it goes. Pure."""

from collections.abc import Collection, Sequence

from braid.kernel.limits.registry.traffic import SPARE_LATE_SECONDS
from services.registry.model.channels import Channel, ChannelRef, ChannelState
from services.registry.model.streams import Stream
from services.registry.policy.world import Rank, Room, Wanted, World, find_target, rank, refusals


def ready(
    world: World, stream: Stream, lane: str, room: Room, *, last_resort: bool = False, zone: str = ""
) -> Channel | None:
    """The best standby that may take the lane's traffic now; one of the lane's present shape is preferred.

    With `last_resort`, a standby on a mostly working cluster qualifies too; with `zone`, only standbys there.
    """
    partitions = stream.spec.lanes.get(lane, 0)
    wanted = Wanted(partitions, _carrying(stream, lane), spare=True)
    able = [
        spare
        for spare in _spares(stream, lane)
        if spare.state is ChannelState.STANDBY and _able(world, spare, room, last_resort=last_resort)
        if zone in ("", world.cluster(spare.cluster).spec.zone)
    ]

    def worse(spare: Channel) -> tuple[bool, bool, Rank, ChannelRef]:
        place = rank(world, stream, wanted, room, spare.cluster)
        return not world.cluster(spare.cluster).takes_traffic, spare.partitions != partitions, place, spare.ref

    return min(able, key=worse, default=None)


def covered(world: World, stream: Stream, lane: str, room: Room) -> bool:
    """Whether a lane has a spare on another cluster than its active channels, or is getting one.

    While the lane needs one, a spare counts only if it could take the traffic now or soon. Otherwise a spare on an
    unwell cluster counts too, because that may pass.
    """
    active = stream.active(lane)
    taken = {channel.cluster for channel in active}
    elsewhere = [spare for spare in _spares(stream, lane) if spare.cluster not in taken]
    if all(world.in_trouble(channel) for channel in active):
        return any(_able(world, spare, room) and not _late(world, spare) for spare in elsewhere)
    return any(_stands_by(world, spare, room) for spare in elsewhere)


def place(world: World, stream: Stream, lane: str, room: Room, together: Collection[str] = ()) -> str:
    """The cluster for a lane's next spare, or for its first channel; '' if there is none."""
    return find_target(world, stream, _wanted(stream, lane, together), room)


def why_none(world: World, stream: Stream, lane: str, room: Room) -> dict[str, str]:
    """Why each cluster cannot take a lane's traffic, if none can and no spare is under way."""
    wanted = Wanted(stream.spec.lanes[lane], _carrying(stream, lane))
    reasons = dict(refusals(world, stream, wanted, room))
    for spare in _spares(stream, lane):
        if spare.cluster not in wanted.exclude:
            why = "cannot make" if world.in_trouble(spare) else "has not made"
            reasons.setdefault(spare.cluster, f"{why} topic {spare.topic} yet")
    return reasons


def _wanted(stream: Stream, lane: str, together: Collection[str]) -> Wanted:
    """Describes the next spare's place. It excludes clusters with a spare of the same shape: a second one would be no
    better."""
    partitions, taken = stream.spec.lanes[lane], _carrying(stream, lane)
    there = {spare.cluster for spare in _spares(stream, lane) if spare.partitions == partitions}
    return Wanted(partitions, taken | there, spare=bool(taken), together=together)


def _carrying(stream: Stream, lane: str) -> set[str]:
    return {channel.cluster for channel in stream.active(lane)}


def _spares(stream: Stream, lane: str) -> Sequence[Channel]:
    return [channel for channel in stream.channels if channel.ref.lane == lane and channel.spare]


def _able(world: World, spare: Channel, room: Room, *, last_resort: bool = False) -> bool:
    """Whether a spare's cluster may take its lane's traffic."""
    cluster = world.cluster(spare.cluster)
    well = cluster.takes_traffic or (last_resort and cluster.last_resort)
    return well and not world.in_trouble(spare) and room.has(spare.cluster, spare.partitions)


def _late(world: World, spare: Channel) -> bool:
    """Whether its topic should have been created by now."""
    overdue = world.now_ms - spare.state_since_ms >= SPARE_LATE_SECONDS * 1_000
    return spare.state is ChannelState.PROVISIONING and overdue


def _stands_by(world: World, spare: Channel, room: Room) -> bool:
    """Whether a spare may become useful."""
    cluster = world.cluster(spare.cluster)
    there = cluster.reachable and not cluster.refusal and not world.lost(spare)
    return there and room.has(spare.cluster, spare.partitions)
