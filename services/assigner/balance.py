"""One balance step of a group: free partitions are granted, misplaced ones are asked back. Pure.

Level-triggered: it compares what is with what `policy` wants and may be repeated at any time; a step that finds
nothing to do leads to no event. A partition that is being revoked keeps its place in the plan until it is free.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import numpy as np

from braid.kernel.decider import Context
from braid.kernel.ids import make_epoch, split_epoch
from braid.kernel.limits import (
    GRANTS_PER_DECISION_MAX,
    LOAD_FLOOR,
    MOVES_PER_MINUTE_MIN,
    REVOKE_DEADLINE_SECONDS,
    WARM_UP_PART_MIN,
    WARM_UP_SECONDS,
)
from services.assigner import generations
from services.assigner.constraints import capacity_of, drained, forced, masks, why_not
from services.assigner.events import Event, LeaseGrant, LeasesGranted, Loads, ReleaseReason, RevokesStarted, released
from services.assigner.group import Group, Lease, LeaseState, channel_of, partition_of
from services.assigner.placement import Floats, Indices
from services.assigner.policy import Measured, Movable


class Assignor(Protocol):
    """A placement algorithm with `policy.place`'s contract."""

    def __call__(
        self, channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
    ) -> Indices: ...


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
    """

    members: Sequence[str]
    leases: Sequence[str]
    channels: Indices
    holders: Indices
    measured: Measured
    ruled_max: int

    def relative(self, holders: Indices) -> Floats:
        """Each member's load for its capacity over the mean of all, were these the holders."""
        held, capacities = holders >= 0, self.measured.capacities
        sums = np.bincount(holders[held], self.measured.weights[held], len(self.members))
        loads = np.divide(sums, capacities, out=np.zeros(len(self.members)), where=capacities > 0)
        mean = float(self.measured.weights[held].sum()) / max(float(capacities.sum()), 1e-9)
        result: Floats = loads / mean if mean else loads
        return result


@dataclass
class _Step:
    """What a step is to do."""

    free: list[tuple[str, str]] = field(default_factory=list)
    misplaced: list[tuple[LeaseGrant, str]] = field(default_factory=list)


def balance(
    state: Group, live: Sequence[str], context: Context, assign: Assignor, loads: Loads | None = None
) -> Sequence[Event]:
    """Decides one step.

    Args:
        state: The group.
        live: The members that can be told something now. While others are awaited, nothing is moved.
        context: Time and the leader's epoch.
        loads: What was measured; without it partitions are counted.
        assign: The placement algorithm.
    """
    if state.spec is None:
        return ()
    orphans = [
        LeaseGrant(name, lease.holder, lease.epoch)
        for name, lease in sorted(state.leases.items())
        if lease.holder and lease.holder not in state.members
    ]
    if orphans:
        return released(orphans, ReleaseReason.MEMBER_GONE)
    reachable = [member for member in sorted(live) if member in state.members]
    placed = layout(state, reachable, loads or Loads(), context.now_ms)
    movable = _movable(state, reachable, loads, context.now_ms)
    still = state.rules.freeze is not None or len(reachable) < len(state.members)
    dealt = placed if still else relieved(placed)
    target = assign(dealt.channels, dealt.holders, len(reachable), movable=movable, measured=dealt.measured)
    step = _step(state, placed, target)
    events: list[Event] = []
    if unwanted := _unwanted(state):
        events.append(_revoke(unwanted, context, "the group does not consume the channel any more"))
    events += _revokes(state, placed, target, step, context)
    gated = generations.gated(state)
    if free := [pair for pair in step.free if state.channels[channel_of(pair[0])].cluster not in gated]:
        events.append(_grant(state, free, context))
    return events


def _movable(state: Group, reachable: Sequence[str], loads: Loads | None, now_ms: int) -> Movable:
    """A leader that has not measured for long moves nothing but what newcomers need.

    Who has held nothing for long is none: loads had decided that. A frozen group moves nothing at all.
    """
    if len(reachable) < len(state.members) or state.rules.freeze is not None:
        return Movable.NONE
    if loads is None or loads.settled:
        return Movable.ALL
    holders = {lease.holder for lease in state.leases.values()}
    joined = [state.members[member].joined_at_ms for member in reachable if member not in holders]
    return Movable.TO_NEWCOMERS if joined and now_ms - max(joined) < WARM_UP_SECONDS * 1000 else Movable.NONE


def _unwanted(state: Group) -> Sequence[LeaseGrant]:
    """Held leases of channels the group's spec does not name any more."""
    gone = {name for name, channel in state.channels.items() if not state.wanted(channel)}
    return [
        LeaseGrant(name, lease.holder, lease.epoch)
        for name, lease in sorted(state.leases.items())
        if lease.state is LeaseState.HELD
        and (channel_of(name) in gone or partition_of(name) >= state.channels[channel_of(name)].partitions)
    ]


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
    for channel, name, lease in _partitions(state):
        holder = lease.holder if lease is not None and lease.state is LeaseState.HELD else ""
        if holder and holder not in index:
            continue
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
    return Layout(members, names, of_channel, np.array(holders, np.int64), measured, max(budget - loads.ruled, 0))


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
    left = replace(measured, moves_max=max(measured.moves_max - len(wrong), 0))
    return replace(placed, holders=holders, measured=left)


def _capacity(state: Group, member: str, now_ms: int, *, warming: bool) -> float:
    """What it bears, nothing while it is drained; a newcomer gets a part that grows, where partitions cost unlike."""
    known = state.members[member]
    if drained(state, known):
        return 0.0
    age = (now_ms - known.joined_at_ms) / 1000 / WARM_UP_SECONDS
    part = min(max(age, WARM_UP_PART_MIN), 1.0) if warming else 1.0
    return capacity_of(state, known) * part


def _step(state: Group, placed: Layout, target: Indices) -> _Step:
    """Sorts out what to grant and what to ask back."""
    step = _Step()
    for at in np.flatnonzero((target != placed.holders) & (target >= 0)).tolist():
        name, wanted = placed.leases[at], placed.members[target[at]]
        lease = state.leases.get(name)
        if lease is None or lease.state is LeaseState.FREE:
            step.free.append((name, wanted))
        elif lease.state is LeaseState.HELD:
            step.misplaced.append((LeaseGrant(name, lease.holder, lease.epoch), wanted))
    return step


def _partitions(state: Group) -> Iterator[tuple[int, str, Lease | None]]:
    """All partitions whose leases are wanted, with the index of their channel, in a fixed order."""
    wanted = sorted((channel.id, name) for name, channel in state.channels.items() if state.wanted(channel))
    for index, (_, name) in enumerate(wanted):
        for partition in range(state.channels[name].partitions):
            lease = f"{name}/{partition}"
            yield index, lease, state.leases.get(lease)


def _revokes(state: Group, placed: Layout, target: Indices, step: _Step, context: Context) -> Sequence[Event]:
    """Asks misplaced leases back: all with one reason where partitions are counted, else one for each holder."""
    misplaced = step.misplaced[:GRANTS_PER_DECISION_MAX]
    events: list[Event] = []
    by_rule = {lease: why_not(state, lease.lease, state.members[lease.member]) for lease, _ in misplaced}
    for reason, ruled in groupby(
        sorted((why, lease.lease, lease) for lease, why in by_rule.items() if why), itemgetter(0)
    ):
        events.append(_revoke([lease for _, _, lease in ruled], context, reason))
    misplaced = [pair for pair in misplaced if not by_rule[pair[0]]]
    if not misplaced:
        return events
    if placed.measured.plain:
        leases = [lease for lease, _ in misplaced]
        return [*events, _revoke(leases, context, f"balanced over {len(state.members)} members")]
    shares = dict(zip(placed.members, placed.relative(placed.holders).tolist(), strict=True))
    after = dict(zip(placed.members, placed.relative(target).tolist(), strict=True))
    for holder, group in groupby(sorted(misplaced, key=lambda pair: pair[0].member), lambda pair: pair[0].member):
        pairs = list(group)
        takers = ", ".join(
            f"{_name(state, taker)} ({shares[taker]:.2f} of it)" for taker in sorted({taker for _, taker in pairs})[:3]
        )
        reason = f"balanced by load: {_name(state, holder)} bore {shares[holder]:.2f} of the mean, meant for {takers}"
        reason += f"; then {after[holder]:.2f}"
        events.append(_revoke([lease for lease, _ in pairs], context, reason))
    return events


def _name(state: Group, member: str) -> str:
    return state.members[member].client_id or member


def _revoke(leases: Sequence[LeaseGrant], context: Context, reason: str) -> Event:
    deadline_ms = context.now_ms + round(REVOKE_DEADLINE_SECONDS * 1000)
    return RevokesStarted(tuple(leases[:GRANTS_PER_DECISION_MAX]), deadline_ms, reason)


def _grant(state: Group, free: Sequence[tuple[str, str]], context: Context) -> Event:
    """Grants under epochs above every earlier one, in the leader's store incarnation or a newer one."""
    last_incarnation, counter = split_epoch(state.last_epoch)
    incarnation = max(1, last_incarnation, split_epoch(context.leader_epoch)[0])
    chosen = enumerate(free[:GRANTS_PER_DECISION_MAX], counter + 1)
    return LeasesGranted(tuple(LeaseGrant(lease, member, make_epoch(incarnation, n)) for n, (lease, member) in chosen))
