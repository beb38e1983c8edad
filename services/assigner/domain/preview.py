"""Previews what would move if the group changed: members gone, clusters dead, capacities changed.

Pure; decides nothing.

It places leases as a balance step does, from the present state with the change made and without a budget. So it shows
where leases would lie in the end, not after the next step. That may be much work, so it is done in slices.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.assigner.placement import LOAD_FLOOR
from services.assigner.domain.admission import check_capacity
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group, Lease, LeaseState, channel_of
from services.assigner.model.rules import PlacementPolicy
from services.assigner.policy.arrays import Indices
from services.assigner.policy.by_number import Movable, placing
from services.assigner.policy.costs import Costs
from services.assigner.policy.homing import homeward
from services.assigner.policy.layout import Layout, layout, relieved, uncrowded


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a group to preview. Members are named by id or client id.

    Attributes:
        leaving: Members that are gone.
        lost: Clusters nobody can work on: their leases stay where they are, and cost nothing.
        capacities: What members can bear from now on, busy seconds per second.
        policy: What is evened out instead of what the group's own policy evens out.
    """

    leaving: Sequence[str] = ()
    lost: Sequence[str] = ()
    capacities: Mapping[str, float] = field(default_factory=dict)
    policy: PlacementPolicy | None = None


@dataclass(frozen=True, slots=True)
class PlacementMove:
    """A lease that would change hands; `source` is empty where nobody holds it now."""

    lease: str
    source: str
    target: str
    cost: float


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """A member now and after the change: its leases, and its load for its capacity relative to the mean."""

    member: str
    capacity: float
    leases: tuple[int, int]
    relative: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Preview:
    """The result of a preview."""

    moves: Sequence[PlacementMove]
    members: Sequence[MemberLoad]


def preview(state: Group, loads: Loads, change: Change, now_ms: int) -> Generator[None, None, Preview]:
    """Places a changed group; yields after each slice of the work.

    Args:
        state: The group as it is.
        loads: What was measured.
        change: What would be different.
        now_ms: Now, wall clock.

    Raises:
        NotFound: the change names a member or cluster the group does not have.
        Invalid: a capacity is absurd.
    """
    now = layout(state, state.member_columns.ids, loads, now_ms)
    changed = _changed(state, change)
    loads = replace(loads, costs=_without(state, loads.costs, change.lost))
    then = layout(changed, changed.member_columns.ids, loads, now_ms)
    target = yield from wanted(changed, layout(changed, changed.member_columns.ids, loads, now_ms, change.policy))
    return Preview(_moves(state, then, target.tolist()), _members(now, then, replace(then, holders=target)))


def wanted(state: Group, placed: Layout) -> Generator[None, None, Indices]:
    """Computes in slices where leases would lie in the end by a layout's policy, without a budget."""
    count = len(placed.leases)
    free = replace(placed, measured=replace(placed.measured, moves_max=count), ruled_max=count)
    movable = Movable.ALL if state.rules.freeze is None else Movable.NONE
    dealt = homeward(free, still=movable is Movable.NONE)
    dealt = dealt if movable is Movable.NONE else relieved(dealt)
    target = yield from placing(dealt.channels, dealt.holders, dealt.measured, movable)
    target = uncrowded(free, dealt.crowd, target)
    result: Indices = np.where(target < 0, placed.holders, target)  # what nobody else may hold stays
    return result


def _changed(state: Group, change: Change) -> Group:
    gone = {_member(state, name, "leaving_members") for name in change.leaving}
    known = {channel.cluster for channel in state.channels.values()}
    for cluster in change.lost:
        if cluster not in known:
            raise NotFound(
                f"group {state.name!r} has nothing on cluster {cluster!r}",
                field="lost_clusters",
                remedy=f"use {', '.join(sorted(known))}" if known else "",
            )
    capacities = dict(state.rules.capacities)
    for name, capacity in change.capacities.items():
        check_capacity(capacity, f"capacities.{name}")
        id = _member(state, name, "capacities")
        if id not in gone:
            capacities[id] = capacity
    left = without_members(state, gone)
    return replace(left, rules=replace(state.rules, capacities=capacities))


def without_members(state: Group, gone: Collection[str]) -> Group:
    """Returns the group as if some members were gone, by their ids; their leases are free."""
    freed = {name: _freed(lease) for id in gone for name, lease in state.held_by(id).items()}
    return state.with_leases(freed).without_members(*gone)


def _freed(lease: Lease) -> Lease:
    return replace(lease, state=LeaseState.FREE, holder="")


def _member(state: Group, name: str, field: str) -> str:
    found = [id for id, member in state.members.items() if name in (id, member.client_id)]
    if not found:
        remedy = "list them: braid get members"
        raise NotFound(f"group {state.name!r} has no member {name!r}", field=field, remedy=remedy)
    if len(found) > 1:
        raise Invalid(f"{len(found)} members are called {name!r}", field=field, remedy=f"use {found[0]}, its id")
    return found[0]


def _without(state: Group, costs: Mapping[str, float], lost: Sequence[str]) -> Mapping[str, float]:
    """Returns the costs without a dead cluster's leases, which keep no member busy."""
    dead = {name for name, channel in state.channels.items() if channel.cluster in lost}
    if isinstance(costs, Costs):
        return costs.without(dead)
    return {name: cost for name, cost in costs.items() if channel_of(name) not in dead}


def _moves(state: Group, then: Layout, target: Sequence[int]) -> Sequence[PlacementMove]:
    moves = []
    for at, wanted in enumerate(target):
        name = then.leases[at]
        lease = state.leases.get(name)
        source, taker = lease.holder if lease else "", then.members[wanted] if wanted >= 0 else ""
        if source != taker:
            cost = float(then.measured.weights[at])
            moves.append(PlacementMove(name, source, taker, cost if cost > LOAD_FLOOR else 0.0))
    return sorted(moves, key=lambda move: move.lease)


def _members(now: Layout, then: Layout, after: Layout) -> Sequence[MemberLoad]:
    before = dict(zip(now.members, now.relative(now.holders).tolist(), strict=True))
    held = {member: int((now.holders == at).sum()) for at, member in enumerate(now.members)}
    relative = after.relative(after.holders)
    counts = np.bincount(after.holders[after.holders >= 0], minlength=len(after.members))
    return [
        MemberLoad(
            member,
            float(then.measured.capacities[at]),
            (held[member], int(counts[at])),
            (before[member], float(relative[at])),
        )
        for at, member in enumerate(after.members)
    ]
