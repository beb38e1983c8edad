"""A group as the placement sees it: partitions and members in a fixed order, costs, and what rules allow. Pure.

All of it is arithmetic on columns: a decision looks at every partition, and at none by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from braid.kernel.limits.assigner.leases import HOME_SECONDS
from braid.kernel.limits.assigner.placement import (
    LOAD_FLOOR,
    LOAD_PART_MIN,
    MOVES_COUNTED_SECONDS,
    MOVES_PER_MINUTE_MIN,
    PLACEMENT_BAND_HIGH,
    PLACEMENT_BAND_INNER,
    PLACEMENT_BAND_LOW,
    WARM_UP_PART_MIN,
    WARM_UP_SECONDS,
)
from services.assigner.model import group_channels
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group, Lease
from services.assigner.model.leases.columns import HELD, Blocks, Codes
from services.assigner.model.members import index_of
from services.assigner.model.rules import Basis, PlacementPolicy
from services.assigner.policy.arrays import (
    Floats,
    Indices,
)
from services.assigner.policy.by_number import Measured
from services.assigner.policy.constraints import borne, crowded, drained, forced, masks
from services.assigner.policy.costs import costs_of
from services.assigner.policy.improvement import Band
from services.assigner.policy.lease_names import LeaseNames, names_of
from services.assigner.policy.slow_members import probing_capacities, slow_members, slow_parts
from services.assigner.policy.zone_preference import with_preferred_zones


def _none() -> Indices:
    return np.zeros(0, np.int64)


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
        homes: Per partition, the index of the member whose name held it before a restart, or -1.
        states: Per partition, its lease's state as `columns` counts them.
        crowd: Partitions that are to go elsewhere because their host holds too many of their lane.
    """

    members: Sequence[str]
    leases: LeaseNames
    channels: Indices
    holders: Indices
    measured: Measured
    ruled_max: int
    homes: Indices
    states: Codes
    crowd: Indices = field(default_factory=_none)

    def relative(self, holders: Indices) -> Floats:
        """Returns each member's load for its capacity over the mean of all, with these holders."""
        held, capacities = holders >= 0, self.measured.capacities
        sums = np.bincount(holders[held], self.measured.weights[held], len(self.members))
        loads = np.divide(sums, capacities, out=np.zeros(len(self.members)), where=capacities > 0)
        mean = float(self.measured.weights[held].sum()) / max(float(capacities.sum()), 1e-9)
        result: Floats = loads / mean if mean else loads
        return result


def layout(
    state: Group, members: Sequence[str], loads: Loads, now_ms: int, policy: PlacementPolicy | None = None
) -> Layout:
    """Builds the layout of a group.

    Args:
        state: The group.
        members: Those of its members that can be told something, sorted.
        loads: What was measured.
        now_ms: Now, wall clock; newcomers are warmed up by it.
        policy: What is to be evened out; the group's own unless it is said.
    """
    policy = policy or state.rules.policy
    counted = policy.basis is Basis.COUNT
    blocks = _wanted(state)
    names = names_of(tuple(blocks))
    states = state.lease_columns.states(blocks)
    holders = _columns(state, members)[state.lease_columns.holders(blocks)]
    holders[states > HELD] = -1
    homes = _homes(state, members, blocks, now_ms)
    weights = costs_of({} if counted else loads.costs, blocks)
    np.maximum(weights, least_weight(weights), out=weights)
    here = np.flatnonzero((holders >= 0) | (states != HELD))
    if len(here) < len(holders):
        names, holders, homes, weights, states = names.at(here), holders[here], homes[here], weights[here], states[here]
    uneven = len(weights) > 0 and bool(weights.min() < weights.max())
    capacities = _capacities(state, members, loads, now_ms, warming=uneven)
    if counted:
        capacities = np.where(capacities > 0, 1.0, 0.0)
    else:
        capacities = probing_capacities(
            state, members, _lightest(weights, holders, len(members)), capacities, weights.sum()
        )
    band = band_of(policy)
    rules = masks(state, members, names)
    rules = with_preferred_zones(state, members, names, rules, holders, weights, capacities, band)
    share = -(-len(names) // max(len(members), 1))
    ruled = max(share + 1, MOVES_PER_MINUTE_MIN)
    leaving = share * len(slow_parts(state))  # what a slow member holds does not wait for what loads have moved
    budget = max(share * _newcomers(state, members, now_ms) + 1, ruled) + leaving
    keeping = slow_members(state, members)
    measured = Measured(weights, capacities, max(budget - loads.moved, 0), rules, band, keeping)
    return Layout(members, names, names.of_channel, holders, measured, max(ruled - loads.ruled, 0), homes, states)


def _lightest(weights: Floats, holders: Indices, members: int) -> Floats:
    """Returns the lightest lease of each member; infinite where it has none."""
    lightest = np.full(members + 1, np.inf)
    np.minimum.at(lightest, holders, weights)  # the last is for free ones
    return lightest[:-1]


def least_weight(costs: Floats) -> float:
    """Returns what a lease counts at least: nobody draws many leases by hiding what they cost."""
    return max(LOAD_FLOOR, LOAD_PART_MIN * float(costs.mean())) if len(costs) else LOAD_FLOOR


def band_of(policy: PlacementPolicy) -> Band:
    """Returns when a placement counts as uneven enough to be changed."""
    high, low = policy.high or PLACEMENT_BAND_HIGH, policy.low or PLACEMENT_BAND_LOW
    return Band(high, low, min(PLACEMENT_BAND_INNER, high, low))


def relieved(placed: Layout) -> Layout:
    """Returns the layout without what members hold against the rules, so that it is dealt out, within the budget.

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
    """Returns the target without moves of crowded partitions to crowded hosts: such moves would never end."""
    rules = placed.measured.rules
    if rules is None or not len(crowd):
        return target
    vain = crowd[np.isin(crowd, crowded(rules, target))]
    result = target.copy()
    result[vain] = placed.holders[vain]
    return result


def at_home(lease: Lease, now_ms: int) -> str:
    """Returns whose the lease was before a restart; empty when no member's, or when that was long ago."""
    return lease.home if now_ms - lease.home_since_ms < HOME_SECONDS * 1000 else ""


def _wanted(state: Group) -> Blocks:
    """Returns the channels whose leases are wanted, with their partitions, in a fixed order."""
    wanted = sorted((channel.id, name) for name, channel in group_channels.wanted(state).items())
    return [(name, state.channels[name].partitions) for _, name in wanted]


def _columns(state: Group, members: Sequence[str]) -> Indices:
    """Returns by a holder's number its index among these members, or -1; the last element is for no holder."""
    numbers = state.lease_columns.numbers(members)
    result = np.full(len(state.lease_columns.members.names) + 1, -1, np.int64)
    result[numbers] = np.arange(len(numbers))
    result[-1] = -1  # where those who never held anything were written
    return result


def _homes(state: Group, members: Sequence[str], blocks: Blocks, now_ms: int) -> Indices:
    """Returns the array of `Layout.homes`; -1 if several members have the same name."""
    clients = state.lease_columns.clients.names
    recent, whose = state.lease_columns.homes(blocks, now_ms - round(HOME_SECONDS * 1000))
    homes = np.full(sum(size for _, size in blocks), -1, np.int64)
    if not len(recent):
        return homes
    named = np.zeros(len(clients), np.bool_)
    named[whose] = True
    index = np.full(len(clients), -1, np.int64)
    for number in np.flatnonzero(named).tolist():
        called = state.member_columns.clients.get(clients[number], ())
        here = [id for id in called if not drained(state, state.members[id])]
        found = [at for at in (index_of(members, id) for id in here) if at >= 0]
        index[number] = found[0] if len(found) == 1 else -1
    homes[recent] = index[whose]
    return homes


def _newcomers(state: Group, members: Sequence[str], now_ms: int) -> int:
    """Returns members that joined within the minute whose moves are counted; each may be filled within it."""
    everybody = state.member_columns
    joined_at_ms = everybody.joined_at_ms[everybody.positions(members)]
    return int(np.count_nonzero(now_ms - joined_at_ms < 1000 * MOVES_COUNTED_SECONDS))


def _capacities(state: Group, members: Sequence[str], loads: Loads, now_ms: int, *, warming: bool) -> Floats:
    """Returns each member's capacity, 0 while it is drained; a newcomer's grows if partitions cost differently."""
    everybody = state.member_columns
    at = everybody.positions(members)
    capacities: Floats = borne(state, loads.capacities)[at]
    if warming:
        ages = (now_ms - everybody.joined_at_ms[at]) / 1000 / WARM_UP_SECONDS
        capacities = capacities * np.clip(ages, WARM_UP_PART_MIN, 1.0)
    return capacities
