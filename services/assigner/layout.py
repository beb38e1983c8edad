"""A group as the placement sees it: partitions and members in a fixed order, costs, and what rules allow. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from braid.kernel.limits import HOME_SECONDS, LOAD_FLOOR, MOVES_PER_MINUTE_MIN, WARM_UP_PART_MIN, WARM_UP_SECONDS
from services.assigner.constraints import capacity_of, crowded, drained, forced, masks
from services.assigner.events import Loads
from services.assigner.group import Group, Lease, LeaseState
from services.assigner.placement import Floats, Indices
from services.assigner.policy import Measured


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A group's partitions as the assignor sees them, in a fixed order; those of members out of reach are left out.

    Attributes:
        members: The members that can be told something, sorted.
        leases: Names.
        channels: Per partition, the index of its channel.
        holders: Per partition, the index of its holder, or -1 while it is free or being given back.
        measured: What it costs and whom.
        ruled_max: How many partitions may be moved now because rules ask for it.
        homes: Client ids of those who held partitions before a restart, by partition.
        crowd: Partitions that are to go elsewhere because their host holds too many of their lane.
    """

    members: Sequence[str]
    leases: Sequence[str]
    channels: Indices
    holders: Indices
    measured: Measured
    ruled_max: int
    homes: Mapping[int, str] = field(default_factory=dict)
    crowd: Indices = field(default_factory=lambda: np.zeros(0, np.int64))

    def relative(self, holders: Indices) -> Floats:
        """Each member's load for its capacity over the mean of all, were these the holders."""
        held, capacities = holders >= 0, self.measured.capacities
        sums = np.bincount(holders[held], self.measured.weights[held], len(self.members))
        loads = np.divide(sums, capacities, out=np.zeros(len(self.members)), where=capacities > 0)
        mean = float(self.measured.weights[held].sum()) / max(float(capacities.sum()), 1e-9)
        result: Floats = loads / mean if mean else loads
        return result


def layout(state: Group, members: Sequence[str], loads: Loads, now_ms: int) -> Layout:
    """A group as the assignor sees it.

    Args:
        state: The group.
        members: Those of its members that can be told something, sorted.
        loads: What was measured.
        now_ms: Now, wall clock; newcomers are warmed up by it.
    """
    index = {member: position for position, member in enumerate(members)}
    names: list[str] = []
    channels: list[int] = []
    holders: list[int] = []
    homes: dict[int, str] = {}
    for channel, name, lease in _partitions(state):
        holder = lease.holder if lease is not None and lease.state is LeaseState.HELD else ""
        if holder and holder not in index:
            continue
        if lease is not None and lease.home and (home := at_home(lease, now_ms)):
            homes[len(names)] = home
        names.append(name)
        channels.append(channel)
        holders.append(index.get(holder, -1))
    weights = np.full(len(names), LOAD_FLOOR)
    if loads.costs:
        weights = np.array([max(loads.costs.get(name, 0.0), LOAD_FLOOR) for name in names], np.float64)
    uneven = len(weights) > 0 and bool(weights.min() < weights.max())
    capacities = [_capacity(state, member, now_ms, warming=uneven) for member in members]
    of_channel = np.array(channels, np.int64)
    rules = masks(state, members, names, of_channel)
    budget = max(-(-len(names) // max(len(members), 1)) + 1, MOVES_PER_MINUTE_MIN)
    measured = Measured(weights, np.array(capacities, np.float64), max(budget - loads.moved, 0), rules)
    return Layout(
        members, names, of_channel, np.array(holders, np.int64), measured, max(budget - loads.ruled, 0), homes
    )


def relieved(placed: Layout) -> Layout:
    """The layout without what members hold against the rules, so that it is dealt out; no more than may be moved.

    What operators ask for does not wait for what a join has moved: it has a budget of the same size for itself.
    """
    measured = placed.measured
    if measured.rules is None:
        return placed
    wrong = forced(measured.rules, placed.holders, placed.ruled_max)
    holders = placed.holders.copy()
    holders[wrong] = -1
    crowd = crowded(measured.rules, holders)[: max(placed.ruled_max - len(wrong), 0)]
    holders[crowd] = -1
    left = replace(measured, moves_max=max(measured.moves_max - len(wrong) - len(crowd), 0))
    return replace(placed, holders=holders, measured=left, crowd=crowd)


def uncrowded(placed: Layout, crowd: Indices, target: Indices) -> Indices:
    """The target without moves of crowded partitions that lead to where it is crowded, too: they would never end."""
    rules = placed.measured.rules
    if rules is None or not len(crowd):
        return target
    vain = crowd[np.isin(crowd, crowded(rules, target))]
    result = target.copy()
    result[vain] = placed.holders[vain]
    return result


def at_home(lease: Lease, now_ms: int) -> str:
    """Whose it was before a restart; empty when nobody's, or when that was long ago."""
    return lease.home if now_ms - lease.home_since_ms < HOME_SECONDS * 1000 else ""


def _capacity(state: Group, member: str, now_ms: int, *, warming: bool) -> float:
    """What it bears, nothing while it is drained; a newcomer gets a part that grows, where partitions cost unlike."""
    known = state.members[member]
    if drained(state, known):
        return 0.0
    age = (now_ms - known.joined_at_ms) / 1000 / WARM_UP_SECONDS
    part = min(max(age, WARM_UP_PART_MIN), 1.0) if warming else 1.0
    return capacity_of(state, known) * part


def _partitions(state: Group) -> Iterator[tuple[int, str, Lease | None]]:
    """All partitions whose leases are wanted, with the index of their channel, in a fixed order."""
    wanted = sorted((channel.id, name) for name, channel in state.channels.items() if state.wanted(channel))
    for index, (_, name) in enumerate(wanted):
        for partition in range(state.channels[name].partitions):
            lease = f"{name}/{partition}"
            yield index, lease, state.leases.get(lease)
