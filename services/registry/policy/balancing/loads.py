"""Builds the placement that is balanced from the world and from what was measured. Pure.

A stream's bytes count where its traffic is now, wherever they lie: so a move shows at once in what is planned, and
drained logs count where new ones will grow to their size.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from braid.kernel.limits.registry.balancing import BALANCE_COOL_DOWN_SECONDS, BALANCE_MOVES_OF_STREAM
from braid.kernel.timing.days import DAY_MS
from services.registry.model.channels import Channel, ChannelState, DrainStep
from services.registry.model.rebalances import BalanceMode, BalanceRules
from services.registry.model.streams import FailoverMode, Stream
from services.registry.policy.balancing.memory import BalanceMemory
from services.registry.policy.balancing.placement import COPIES, Placement, Unit
from services.registry.policy.world import Room, Wanted, World, refusals

RESTS = "moved within the last hour"
SPREAD = "its traffic is spread over clusters"
MOVING = "is moving"
PROPOSED = "a move is proposed"
OFTEN = "moved as often as it may within a day"
_MODES = {
    FailoverMode.AUTOMATIC: BalanceMode.AUTOMATIC,
    FailoverMode.PROPOSE: BalanceMode.PROPOSE,
    FailoverMode.OFF: BalanceMode.OFF,
}


_Known = dict[tuple[tuple[str, ...], int, int, str], list[bool]]


@dataclass(frozen=True, slots=True)
class View:
    """The sources that a placement is built from.

    Attributes:
        avoided: Clusters where nothing new goes: their disks fill up.
        counted: Whether moves that are proposed or under way count as made.
        rested: Whether streams may move although they moved lately.
        targets: Whether it matters where units may go.
    """

    world: World
    memory: BalanceMemory
    rules: BalanceRules
    avoided: frozenset[str] = frozenset()
    counted: bool = True
    rested: bool = False
    targets: bool = True


def left_out(world: World) -> Mapping[str, str]:
    """Clusters that take no part, with the reason of each."""
    reasons: dict[str, str] = {}
    for name, cluster in sorted(world.clusters.items()):
        if not cluster.exists:
            continue
        if not cluster.takes_traffic:
            reasons[name] = f"is {cluster.refusal or cluster.health.name}"
        elif world.load(name) is None:
            reasons[name] = "is not measured"
    return reasons


def mode_of(stream: Stream, rules: BalanceRules) -> BalanceMode:
    """The mode that applies to a stream: the lesser of the mesh's mode and its own `failover`."""
    order = (BalanceMode.OFF, BalanceMode.PROPOSE, BalanceMode.AUTOMATIC)
    return min(rules.mode, _MODES[stream.spec.failover], key=order.index)


def placement_of(view: View) -> Placement:
    """The placement of everything measured, over the clusters that take part."""
    world, memory = view.world, view.memory
    out = left_out(world)
    names = tuple(name for name, each in sorted(world.clusters.items()) if each.exists and name not in out)
    index = {name: number for number, name in enumerate(names)}
    own = _own_bytes(world)
    loads, capacities, brokers = np.zeros((len(names), 3)), np.ones((len(names), 3)), np.ones(len(names))
    for name, number in index.items():
        load, cluster = world.loads[name], world.cluster(name)
        brokers[number] = max(load.brokers, len(cluster.usual_brokers), 1)
        disk = load.total_bytes * brokers[number] / min(COPIES, brokers[number])
        capacities[number] = brokers[number], disk, cluster.spec.capacity or np.inf
        used = (load.total_bytes - load.free_bytes) / load.total_bytes * disk
        loads[number] = memory.foreign_rate(name), max(0.0, used - own.get(name, 0.0)), 0.0
    units = [unit for stream in world.streams.values() if stream.exists for unit in _units(view, stream)]
    for unit in units:
        if unit.cluster in index:
            loads[index[unit.cluster]] += unit.load
    allowed = np.zeros((len(units), len(names)), dtype=np.bool_)
    if view.targets and names and units:
        known: _Known = {}
        room = Room(world)
        allowed[:] = [_allowed(view, unit, names, room, known) for unit in units]
    return Placement(names, loads, capacities, view.rules.band, units, allowed, brokers)


def _own_bytes(world: World) -> Mapping[str, float]:
    """Bytes of streams' topics, by the cluster where they lie."""
    own: dict[str, float] = {}
    for stream in world.streams.values():
        for channel in stream.channels:
            load = world.load(channel.cluster)
            topic = load.topics.get(channel.topic) if load is not None else None
            if topic is not None:
                own[channel.cluster] = own.get(channel.cluster, 0.0) + topic.bytes
    return own


def _units(view: View, stream: Stream) -> Iterator[Unit]:
    """The stream's lanes, by the cluster they are on."""
    by_cluster: dict[str, list[Channel]] = {}
    for channel in stream.channels:
        if channel.state is ChannelState.ACTIVE:
            by_cluster.setdefault(channel.cluster, []).append(channel)
    for cluster, channels in sorted(by_cluster.items()):
        lanes = tuple(sorted({each.ref.lane for each in channels}))
        fixed, place = _fixed(view, stream, cluster, channels), cluster
        if view.counted and not fixed:
            fixed, place = _under_way(view, stream, cluster)
        shares = [(each, _share(stream, each)) for each in channels]
        rate = sum(share * view.memory.rate((stream.name, each.ref.lane)) for each, share in shares)
        kept = sum(share * view.memory.kept((stream.name, each.ref.lane)) for each, share in shares)
        partitions = float(sum(each.partitions for each in channels))
        yield Unit(stream.name, cluster, place, lanes, (rate, kept, partitions), fixed)


def _share(stream: Stream, channel: Channel) -> float:
    whole = sum(each.weight for each in stream.active(channel.ref.lane))
    return channel.weight / whole if whole > 0 else 1.0


def _under_way(view: View, stream: Stream, cluster: str) -> tuple[str, str]:
    """Why a unit that moves already counts elsewhere, and where."""
    intent, proposal = view.memory.intents.get(stream.name), stream.rebalance
    if intent is not None:
        return MOVING, intent.to_cluster
    if proposal is not None and proposal.from_cluster == cluster:
        return PROPOSED, proposal.to_cluster
    return "", cluster


def _fixed(view: View, stream: Stream, cluster: str, channels: Iterable[Channel]) -> str:
    """Why the stream's lanes on a cluster may not move; '' if they may."""
    world = view.world
    if stream.spec.drill is not None or any(world.in_trouble(each) for each in channels):
        return "is left to other decisions"
    if any(len(stream.active(each.ref.lane)) > 1 for each in channels):
        return SPREAD
    if mode_of(stream, view.rules) is BalanceMode.OFF and view.rules.mode is not BalanceMode.OFF:
        return "its failover is off"
    if stream.name in view.memory.intents or view.rested:
        return ""
    if any(each.drain_step is DrainStep.PRODUCERS for each in stream.channels):
        return MOVING
    if stream.name in view.memory.resting or any(_came_lately(world, each) for each in channels):
        return RESTS
    lately = sum(abs(world.now_ms - each.at_ms) < DAY_MS for each in stream.rebalances)
    return OFTEN if lately >= BALANCE_MOVES_OF_STREAM else ""


def _came_lately(world: World, channel: Channel) -> bool:
    """Whether a move of any cause brought the traffic here lately. A lane's first channel came by none."""
    since_ms = abs(world.now_ms - channel.state_since_ms)
    return channel.ref.generation > 1 and since_ms < BALANCE_COOL_DOWN_SECONDS * 1_000


def _allowed(view: View, unit: Unit, names: tuple[str, ...], room: Room, known: _Known) -> list[bool]:
    """Whether a unit may go to each cluster, in the order of names. Streams alike share an answer in `known`."""
    if unit.fixed:
        return [False] * len(names)
    stream = view.world.streams[unit.stream]
    wanted = Wanted(int(unit.load[2]), {unit.cluster})
    alike = stream.spec.clusters, stream.spec.replication_factor, int(unit.load[2]), unit.cluster
    if alike not in known:
        named = stream.spec.clusters or names
        barred = {*refusals(view.world, stream, wanted, room), *view.avoided, unit.cluster}
        known[alike] = [name in named and name not in barred for name in names]
    return known[alike]
