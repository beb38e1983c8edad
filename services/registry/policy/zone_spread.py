"""Keeps an active channel in each zone for lanes that declare `spread: zones`. Pure.

A zone counts if the stream may use a cluster that is declared to stand in it. Its channel is on a healthy cluster with
room. A zone that has none is listed with the reason, and its producers write to other zones meanwhile. All channels of
such a lane have the same weight, because producers put weights before zones.

After a failover the lane keeps to its other zones for `ZONE_RETURN_SECONDS`, so that a cluster which comes and goes
does not carry the traffic to and fro.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.limits.registry.traffic import ZONE_RETURN_SECONDS, ZONES_MAX
from services.registry.model.channels import Channel, ChannelWeight
from services.registry.model.stream_commands import MoveTraffic, PlanChannel, StreamCommand
from services.registry.model.streams import Stream
from services.registry.policy.spares import ready
from services.registry.policy.world import Room, Wanted, World, clusters_of, rank, refusals

_Step = tuple[StreamCommand, str]
_WHY = "a channel in each zone"


class MissingZone(NamedTuple):
    """A zone without an active channel of a lane, and why; '' while a channel is on its way."""

    lane: str
    zone: str
    reason: str


def zones_of(world: World, stream: Stream) -> Mapping[str, Sequence[str]]:
    """Returns the clusters that a stream may use, by zone; those without a zone are left out."""
    zones: dict[str, list[str]] = {}
    for name in clusters_of(world, stream):
        if zone := world.cluster(name).spec.zone:
            zones.setdefault(zone, []).append(name)
    return dict(sorted(zones.items()))


def spread_over_zones(world: World, stream: Stream, room: Room) -> Iterator[_Step]:
    """The next steps towards an active channel in each zone; none while traffic must leave a cluster, or just did."""
    activate: list[ChannelWeight] = []
    for lane in stream.spec.zone_lanes:
        active = stream.active(lane)
        if not active or any(world.in_trouble(each) for each in active):
            continue
        activate += _evened(active)
        if _left_lately(world, stream):
            continue
        for zone in _without_channel(world, stream, active):
            if standby := _standby(world, stream, lane, room, zone):
                room.activate(standby)
                activate.append(ChannelWeight(standby.ref, active[0].weight))
            elif target := _place(world, stream, lane, room, zone):
                partitions = stream.spec.lanes[lane]
                room.promise(target, partitions)
                prefix = world.cluster(target).spec.topic_prefix
                yield PlanChannel(lane, target, prefix, partitions), f"lane {lane} has no channel in zone {zone}"
    if activate:
        yield MoveTraffic(tuple(activate), (), True, _WHY), "lanes are spread over zones"


def missing_zones(world: World, stream: Stream) -> Sequence[MissingZone]:
    """Returns the zones without an active channel of a lane that is spread over zones."""
    zones = zones_of(world, stream) if stream.spec.zone_lanes else {}
    lacking = [
        (lane, zone)
        for lane in stream.spec.zone_lanes
        for zone in zones
        if zone not in {world.cluster(each.cluster).spec.zone for each in stream.active(lane)}
    ]
    room = Room(world) if lacking else None  # a look at all streams
    return [
        MissingZone(lane, zone, _why_none(world, stream, lane, room, zones[zone]))
        for lane, zone in lacking
        if room is not None
    ]


def _evened(active: Sequence[Channel]) -> Sequence[ChannelWeight]:
    """Returns the weights to set so that all channels have the same; none if they have."""
    weight = active[0].weight
    return [ChannelWeight(each.ref, weight) for each in active if each.weight != weight]


def _left_lately(world: World, stream: Stream) -> bool:
    """Whether a failover moved the stream a short time ago."""
    return any(abs(world.now_ms - at) < ZONE_RETURN_SECONDS * 1_000 for at in stream.failovers_ms)


def _without_channel(world: World, stream: Stream, active: Sequence[Channel]) -> Sequence[str]:
    """Returns the zones that lack a channel, no more than leave the lane with `ZONES_MAX`."""
    there = {world.cluster(each.cluster).spec.zone for each in active}
    return [zone for zone in zones_of(world, stream) if zone not in there][: max(ZONES_MAX - len(active), 0)]


def _standby(world: World, stream: Stream, lane: str, room: Room, zone: str) -> Channel | None:
    """Returns a standby of the lane's shape that can take traffic in a zone."""
    found = ready(world, stream, lane, room, zone=zone)
    return found if found is not None and found.partitions == stream.spec.lanes[lane] else None


def _place(world: World, stream: Stream, lane: str, room: Room, zone: str) -> str:
    """Returns the cluster for a zone's channel; '' if there is none, or a channel is on its way."""
    partitions = stream.spec.lanes[lane]
    wanted = Wanted(partitions)
    here, refused = zones_of(world, stream)[zone], refusals(world, stream, wanted, room)
    for spare in stream.channels:
        same = spare.spare and spare.ref.lane == lane and spare.partitions == partitions and not spare.retiring
        if same and spare.cluster in here and spare.cluster not in refused and not world.in_trouble(spare):
            return ""
    free = [name for name in here if name not in refused]
    return min(free, key=lambda name: rank(world, stream, wanted, room, name), default="")


def _why_none(world: World, stream: Stream, lane: str, room: Room, here: Sequence[str]) -> str:
    """Returns why a zone with these clusters has no channel, by cluster; '' while one is on its way."""
    active = stream.active(lane)
    if len(active) >= ZONES_MAX:
        return f"the lane has a channel in {ZONES_MAX} zones, which is the most"
    if _left_lately(world, stream):
        return f"traffic left a cluster less than {ZONE_RETURN_SECONDS:g} s ago"
    refused = refusals(world, stream, Wanted(stream.spec.lanes[lane]), room)
    if any(name not in refused for name in here):
        return ""
    return ", ".join(f"{name} {refused[name]}" for name in here)
