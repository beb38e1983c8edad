"""One balance step of a group: free partitions are granted, misplaced ones are asked back. Pure.

Level-triggered: it compares what is with what `policy` wants and may be repeated at any time; a step that finds
nothing to do leads to no event. A partition that is being revoked keeps its place in the plan until it is free.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

import numpy as np

from braid.kernel.decider import Context
from braid.kernel.ids import make_epoch, split_epoch
from braid.kernel.limits.assigner.leases import GRANTS_PER_DECISION_MAX, REVOKE_DEADLINE_SECONDS
from braid.kernel.limits.assigner.placement import WARM_UP_SECONDS
from services.assigner.model import generations, group_channels
from services.assigner.model.commands import Loads
from services.assigner.model.events import (
    Event,
    LeaseGrant,
    LeasesGranted,
    ReleaseReason,
    RevokesStarted,
    released,
)
from services.assigner.model.group import SMALL, Group
from services.assigner.model.leases.columns import FREE, HELD
from services.assigner.policy import homing
from services.assigner.policy.arrays import Indices
from services.assigner.policy.by_number import Measured, Movable
from services.assigner.policy.constraints import CROWDED, why_nearer, why_not
from services.assigner.policy.layout import Layout, layout, relieved, uncrowded

_TAKERS_NAMED: Final = 3  # in the reason for a move


class Assignor(Protocol):
    """A placement algorithm with the contract of `by_number.place`."""

    def __call__(
        self, channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
    ) -> Indices: ...


class _Asked(NamedTuple):
    """A lease that is asked back, and the member that gets it; members as their indices."""

    lease: LeaseGrant
    source: int
    taker: int


def balance(
    state: Group, live: Sequence[str], context: Context, assign: Assignor, loads: Loads | None = None
) -> Sequence[Event]:
    """Decides one balance step.

    Args:
        state: The group.
        live: The members that can be told something now. While others are awaited, nothing is moved.
        context: Time and the leader's epoch.
        loads: What was measured; without it partitions are counted.
        assign: The placement algorithm.
    """
    if state.spec is None or (not live and len(state.leases) <= SMALL and _is_in_order(state)):
        return ()
    everybody = state.member_columns.ids
    if orphans := state.lease_columns.orphans(everybody):
        return released(
            [LeaseGrant(name, each.holder, each.epoch) for name, each in orphans], ReleaseReason.MEMBER_GONE
        )
    told = sorted(live)
    reachable = everybody if told == everybody else [member for member in told if member in state.members]
    unwanted = _unwanted(state)
    events = [_revoke(unwanted, context, "the group does not consume the channel any more")] if unwanted else []
    if not reachable:  # as in all groups of a new leader: nothing can be placed
        return events
    placed = layout(state, reachable, loads or Loads(), context.now_ms)
    movable = _movable(state, reachable, loads, context.now_ms)
    still = state.rules.freeze is not None or len(reachable) < len(state.members)
    dealt = homing.homeward(placed, still=still)
    dealt = dealt if still else relieved(dealt)
    target = assign(dealt.channels, dealt.holders, len(reachable), movable=movable, measured=dealt.measured)
    target = uncrowded(placed, dealt.crowd, target)
    events += _revokes(state, placed, target, context, dealt.crowd)
    if free := _free(state, placed, target):
        events.append(_grant(state, free, context))
    return events


def _is_in_order(state: Group) -> bool:
    """Whether the group wants each lease that has a holder, and the holder is a member: no lease must be taken back."""
    sizes = {name: channel.partitions for name, channel in group_channels.wanted(state).items()}
    in_place = all(partition < sizes.get(channel, 0) for channel, partition, _ in state.held())
    return in_place and all(holder in state.members for holder in {holder for _, _, holder in state.held()})


def _movable(state: Group, reachable: Sequence[str], loads: Loads | None, now_ms: int) -> Movable:
    """Says which held partitions may move.

    A leader that has not measured for long moves only what newcomers need. A member that has held nothing for long is
    no newcomer: loads had decided that. A frozen group moves nothing at all.
    """
    if len(reachable) < len(state.members) or state.rules.freeze is not None:
        return Movable.NONE
    if loads is None or loads.settled:
        return Movable.ALL
    columns = state.lease_columns
    idle = np.flatnonzero(columns.counts(columns.numbers(reachable)) == 0)
    everybody = state.member_columns
    joined = everybody.joined_at_ms[everybody.positions(reachable)[idle]]
    newcomers = len(joined) and now_ms - int(joined.max()) < WARM_UP_SECONDS * 1000
    return Movable.TO_NEWCOMERS if newcomers else Movable.NONE


def _unwanted(state: Group) -> Sequence[LeaseGrant]:
    """Returns held leases of channels that the spec no longer names, or beyond a channel's partitions."""
    columns = state.lease_columns
    granted = group_channels.wanted(state)
    wanted = [(name, channel.partitions if name in granted else 0) for name, channel in state.channels.items()]
    if np.count_nonzero(columns.states(wanted) == HELD) == columns.held_in_all:
        return ()
    found = [f"{name}/{partition}" for name, last in wanted for partition in columns.held(name, last)]
    return [LeaseGrant(name, state.leases[name].holder, state.leases[name].epoch) for name in sorted(found)]


def _free(state: Group, placed: Layout, target: Indices) -> Sequence[tuple[str, str]]:
    """Returns free leases and the members that get them, as many as one decision may grant."""
    gated = generations.gated(state)
    closed = np.array([state.channels[name].cluster in gated for name in placed.leases.channels], np.bool_)
    free = np.flatnonzero((target >= 0) & (placed.states <= FREE))
    if closed.any():
        free = free[~closed[placed.channels[free]]]
    some = free[:GRANTS_PER_DECISION_MAX]
    takers = target[some].tolist()
    return [(placed.leases[at], placed.members[taker]) for at, taker in zip(some.tolist(), takers, strict=True)]


def _revokes(state: Group, placed: Layout, target: Indices, context: Context, crowd: Indices) -> Sequence[Event]:
    """Asks misplaced leases back: with one reason if partitions are counted, else with one for each holder."""
    moved = (target != placed.holders) & (target >= 0) & (placed.states == HELD)
    some = np.flatnonzero(moved)[:GRANTS_PER_DECISION_MAX]
    if not len(some):
        return ()
    apart = set(crowd.tolist())
    by_load: list[_Asked] = []
    by_rule: dict[str, list[LeaseGrant]] = {}
    for at in some.tolist():
        name, source, taker = placed.leases[at], int(placed.holders[at]), int(target[at])
        lease = LeaseGrant(name, placed.members[source], state.leases[name].epoch)
        if why := _asked_for(state, lease, placed.members[taker], crowded=at in apart):
            by_rule.setdefault(why, []).append(lease)
        else:
            by_load.append(_Asked(lease, source, taker))
    events = [
        _revoke(sorted(leases, key=lambda lease: lease.lease), context, why) for why, leases in sorted(by_rule.items())
    ]
    if by_load and placed.measured.plain:
        return [
            *events,
            _revoke([each.lease for each in by_load], context, f"balanced over {len(state.members)} members"),
        ]
    return events + _by_load(state, placed, target, context, by_load)


def _by_load(state: Group, placed: Layout, target: Indices, context: Context, asked: Sequence[_Asked]) -> list[Event]:
    if not asked:
        return []
    shares, after = placed.relative(placed.holders), placed.relative(target)
    events: list[Event] = []
    for source, group in groupby(sorted(asked, key=itemgetter(1)), itemgetter(1)):
        some = list(group)
        takers = ", ".join(
            f"{_name(state, placed.members[taker])} ({shares[taker]:.2f} of it)"
            for taker in sorted({each.taker for each in some})[:_TAKERS_NAMED]
        )
        who = _name(state, placed.members[source])
        reason = f"balanced by load: {who} bore {shares[source]:.2f} of the mean, meant for {takers}"
        events.append(_revoke([each.lease for each in some], context, f"{reason}; then {after[source]:.2f}"))
    return events


def _asked_for(state: Group, lease: LeaseGrant, taker: str, *, crowded: bool) -> str:
    """Says why a lease moves whatever loads are; empty if it moves because of loads."""
    why = ""
    if state.rules.constrain:
        holder = state.members[lease.member]
        why = why_not(state, lease.lease, holder) or why_nearer(state, lease.lease, holder, state.members[taker])
    home = state.leases[lease.lease].home
    if not why and crowded:
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
