"""One balance step of a group: free partitions are granted, misplaced ones are asked back. Pure.

Level-triggered: it compares what is with what `policy` wants and may be repeated at any time; a step that finds
nothing to do leads to no event. A partition that is being revoked keeps its place in the plan until it is free.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import numpy as np

from braid.kernel.decider import Context
from braid.kernel.ids import make_epoch, split_epoch
from braid.kernel.limits import GRANTS_PER_DECISION_MAX, REVOKE_DEADLINE_SECONDS, WARM_UP_SECONDS
from services.assigner import generations, returns
from services.assigner.constraints import CROWDED, why_not
from services.assigner.events import Event, LeaseGrant, LeasesGranted, Loads, ReleaseReason, RevokesStarted, released
from services.assigner.group import Group, LeaseState, channel_of, partition_of
from services.assigner.layout import Layout, layout, relieved, uncrowded
from services.assigner.placement import Indices
from services.assigner.policy import Measured, Movable


class Assignor(Protocol):
    """A placement algorithm with `policy.place`'s contract."""

    def __call__(
        self, channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
    ) -> Indices: ...


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
    dealt = returns.homeward(state, placed, still=still)
    dealt = dealt if still else relieved(dealt)
    target = assign(dealt.channels, dealt.holders, len(reachable), movable=movable, measured=dealt.measured)
    target = uncrowded(placed, dealt.crowd, target)
    step = _step(state, placed, target)
    apart = {placed.leases[at] for at in dealt.crowd.tolist()}
    events: list[Event] = []
    if unwanted := _unwanted(state):
        events.append(_revoke(unwanted, context, "the group does not consume the channel any more"))
    events += _revokes(state, placed, target, step, context, apart)
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


def _revokes(
    state: Group, placed: Layout, target: Indices, step: _Step, context: Context, apart: Collection[str]
) -> Sequence[Event]:
    """Asks misplaced leases back: all with one reason where partitions are counted, else one for each holder."""
    misplaced = step.misplaced[:GRANTS_PER_DECISION_MAX]
    events: list[Event] = []
    by_rule = {lease: _asked_for(state, lease, taker, apart) for lease, taker in misplaced}
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


def _asked_for(state: Group, lease: LeaseGrant, taker: str, apart: Collection[str]) -> str:
    """Why it moves whatever loads are; empty when it is for them."""
    why = why_not(state, lease.lease, state.members[lease.member])
    home = state.leases[lease.lease].home
    if not why and lease.lease in apart:
        return CROWDED
    return why or (f"{home} is back, and held it before" if home and home == state.members[taker].client_id else "")


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
