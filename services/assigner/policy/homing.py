"""Returns to a restarted member what it held before. Pure.

A process that ends and comes back under its client id within `HOME_SECONDS` gets its partitions back, as far as it is
short of its share. So a fleet of any size that is restarted one by one, with loads within their band, moves each
partition at most twice, away and back. Without that every restart would shuffle what others hold.
"""

from dataclasses import replace

import numpy as np

from services.assigner.model.events import LeasesReleased, ReleaseReason
from services.assigner.model.group import Group, Lease, LeaseState, Member
from services.assigner.policy.layout import Layout, at_home


def homeward(placed: Layout, *, still: bool) -> Layout:
    """Returns the layout as if members that are back had taken back their partitions, up to their share.

    Who holds it now gives it only where that makes nothing worse: not to one that would then bear more than the giver
    did, nor its only partition to one that holds any. Else newcomers, and the relieved, would be given it again.

    Args:
        placed: What is held now, and whose it was.
        still: Nothing that is held may move: only what is free goes home.
    """
    measured = placed.measured
    away = (placed.homes >= 0) & (placed.homes != placed.holders)
    if still:
        away &= placed.holders < 0
    at_stake = np.flatnonzero(away)
    if measured.rules is not None:
        at_stake = at_stake[measured.rules.allowed[measured.rules.kinds[at_stake], placed.homes[at_stake]]]
    if not len(at_stake):
        return placed
    holders, capacities = placed.holders.copy(), measured.capacities
    held = holders >= 0
    loads = np.bincount(holders[held], measured.weights[held], len(placed.members))
    counts = np.bincount(holders[held], minlength=len(placed.members))
    share = float(measured.weights.sum()) / max(float(capacities.sum()), 1e-9)
    left = len(holders) if measured.plain else measured.moves_max
    for at, member in zip(at_stake.tolist(), placed.homes[at_stake].tolist(), strict=True):
        source, weight = int(holders[at]), float(measured.weights[at])
        if loads[member] >= share * capacities[member]:
            continue
        if source >= 0:
            worse = (loads[member] + weight) * capacities[source] > loads[source] * capacities[member]
            if left <= 0 or worse or counts[source] <= 1 <= counts[member]:
                continue
            loads[source] -= weight
            counts[source] -= 1
            left -= 1
        loads[member] += weight
        counts[member] += 1
        holders[at] = member
    after = measured if measured.plain else replace(measured, moves_max=max(left, 0))
    return replace(placed, holders=holders, measured=after)


# --- what events change


def gone(state: Group, member: Member, now_ms: int) -> dict[str, Lease | None]:
    """Records in each of the member's leases that it was the member's."""
    return {name: _homed(lease, member.client_id, now_ms) for name, lease in state.held_by(member.id).items()}


def given_back(state: Group, event: LeasesReleased, now_ms: int) -> Group:
    """Records the former holder of leases that a closing member gives back unasked."""
    if event.reason is not ReleaseReason.RELEASED:
        return state
    homed: dict[str, Lease | None] = {}
    for grant in event.leases:
        lease, member = state.leases.get(grant.lease), state.members.get(grant.member)
        if lease is None or member is None or lease.epoch != grant.epoch or lease.state is not LeaseState.HELD:
            continue
        homed[grant.lease] = _homed(lease, member.client_id, now_ms)
    return state.with_leases(homed)


def _homed(lease: Lease, home: str, now_ms: int) -> Lease:
    """Keeps the claim with the first member that lost the lease: its successors only stood in."""
    if not home or at_home(lease, now_ms):
        return lease
    return replace(lease, home=home, home_since_ms=now_ms)
