"""One balance step of a group: free partitions are granted, misplaced ones are asked back. Pure.

Level-triggered: it compares what is with what `policy` wants and may be repeated at any time; a step that finds
nothing to do leads to no event. A partition that is being revoked keeps its place in the plan until it is free.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from braid.kernel.decider import Context
from braid.kernel.ids import make_epoch, split_epoch
from braid.kernel.limits import GRANTS_PER_DECISION_MAX, REVOKE_DEADLINE_SECONDS
from services.assigner import generations
from services.assigner.events import Event, LeaseGrant, LeasesGranted, ReleaseReason, RevokesStarted, released
from services.assigner.group import Group, Lease, LeaseState, channel_of, partition_of
from services.assigner.policy import Indices


class Assignor(Protocol):
    """A placement algorithm with `policy.place`'s contract."""

    def __call__(self, channels: Indices, holders: Indices, members: int, *, movable: bool) -> Indices: ...


def balance(state: Group, live: Sequence[str], context: Context, assign: Assignor) -> Sequence[Event]:
    """Decides one step.

    Args:
        state: The group.
        live: The members that can be told something now. While others are awaited, nothing is moved.
        context: Time and the leader's epoch.
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
    gated = generations.gated(state)
    free, misplaced = _plan(state, [member for member in sorted(live) if member in state.members], assign)
    if gated:
        free = [pair for pair in free if state.channels[channel_of(pair[0])].cluster not in gated]
    events: list[Event] = []
    if unwanted := _unwanted(state):
        events.append(_revoke(unwanted, context, "the group does not consume the channel any more"))
    if misplaced:
        events.append(_revoke(misplaced, context, f"balanced over {len(state.members)} members"))
    if free:
        events.append(_grant(state, free, context))
    return events


def _unwanted(state: Group) -> Sequence[LeaseGrant]:
    """Held leases of channels the group's spec does not name any more."""
    gone = {name for name, channel in state.channels.items() if not state.wanted(channel)}
    return [
        LeaseGrant(name, lease.holder, lease.epoch)
        for name, lease in sorted(state.leases.items())
        if lease.state is LeaseState.HELD
        and (channel_of(name) in gone or partition_of(name) >= state.channels[channel_of(name)].partitions)
    ]


def _plan(state: Group, live: Sequence[str], assign: Assignor) -> tuple[list[tuple[str, str]], list[LeaseGrant]]:
    """Returns the (lease, member) pairs to grant, and the grants to ask back."""
    index = {member: position for position, member in enumerate(live)}
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
    target = assign(
        np.array(channels, np.int64), np.array(holders, np.int64), len(live), movable=len(live) == len(state.members)
    )
    free: list[tuple[str, str]] = []
    misplaced: list[LeaseGrant] = []
    for name, holder_index, wanted in zip(names, holders, target.tolist(), strict=True):
        if wanted in (-1, holder_index):
            continue
        lease = state.leases.get(name)
        if lease is None or lease.state is LeaseState.FREE:
            free.append((name, live[wanted]))
        elif lease.state is LeaseState.HELD:
            misplaced.append(LeaseGrant(name, lease.holder, lease.epoch))
    return free, misplaced


def _partitions(state: Group) -> Iterator[tuple[int, str, Lease | None]]:
    """All partitions whose leases are wanted, with the index of their channel, in a fixed order."""
    wanted = sorted((channel.id, name) for name, channel in state.channels.items() if state.wanted(channel))
    for index, (_, name) in enumerate(wanted):
        for partition in range(state.channels[name].partitions):
            lease = f"{name}/{partition}"
            yield index, lease, state.leases.get(lease)


def _revoke(leases: Sequence[LeaseGrant], context: Context, reason: str) -> Event:
    deadline_ms = context.now_ms + round(REVOKE_DEADLINE_SECONDS * 1000)
    return RevokesStarted(tuple(leases[:GRANTS_PER_DECISION_MAX]), deadline_ms, reason)


def _grant(state: Group, free: Sequence[tuple[str, str]], context: Context) -> Event:
    """Grants under epochs above every earlier one, in the leader's store incarnation or a newer one."""
    last_incarnation, counter = split_epoch(state.last_epoch)
    incarnation = max(1, last_incarnation, split_epoch(context.leader_epoch)[0])
    chosen = enumerate(free[:GRANTS_PER_DECISION_MAX], counter + 1)
    return LeasesGranted(tuple(LeaseGrant(lease, member, make_epoch(incarnation, n)) for n, (lease, member) in chosen))
