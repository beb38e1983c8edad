"""What a member held before its restart goes back to it. Pure.

A process that ends and comes back under its client id within `HOME_SECONDS` finds its partitions again, as far as it is
short of its share: so a fleet that is restarted one by one, with loads within their band, moves each partition at most
twice, away and back, however large it is. Without that every restart would shuffle what others hold.
"""

from dataclasses import replace

import numpy as np

from services.assigner.constraints import drained
from services.assigner.events import LeasesReleased, ReleaseReason
from services.assigner.group import Group, Lease, LeaseState, Member
from services.assigner.layout import Layout, at_home


def homeward(state: Group, placed: Layout, *, still: bool) -> Layout:
    """The layout as if members that are back had taken what was theirs, as far as they are short of their share.

    Args:
        state: The group.
        placed: What is held now.
        still: Nothing that is held may move: only what is free goes home.
    """
    measured = placed.measured
    index = _names(state, placed)
    homes = {at: index[name] for at, name in placed.homes.items() if index.get(name, -1) >= 0}
    if not homes:
        return placed
    holders, capacities = placed.holders.copy(), measured.capacities
    held = holders >= 0
    loads = np.bincount(holders[held], measured.weights[held], len(placed.members))
    share = float(measured.weights.sum()) / max(float(capacities.sum()), 1e-9)
    left = len(holders) if measured.plain else measured.moves_max
    for at, member in sorted(homes.items()):
        source, weight = int(holders[at]), float(measured.weights[at])
        stays = source == member or (source >= 0 and (still or left <= 0))
        barred = measured.rules is not None and not measured.rules.allowed[measured.rules.kinds[at], member]
        if stays or barred or loads[member] >= share * capacities[member]:
            continue
        if source >= 0:
            loads[source] -= weight
            left -= 1
        loads[member] += weight
        holders[at] = member
    after = measured if measured.plain else replace(measured, moves_max=max(left, 0))
    return replace(placed, holders=holders, measured=after)


def _names(state: Group, placed: Layout) -> dict[str, int]:
    """Columns by client id; -1 where several call themselves the same: nobody knows which is which."""
    index: dict[str, int] = {}
    for at, id in enumerate(placed.members):
        member = state.members[id]
        if not drained(state, member):
            index[member.client_id] = -1 if member.client_id in index else at
    return index


# --- what events change


def gone(leases: dict[str, Lease], member: Member, now_ms: int) -> None:
    """The member's leases remember whose they were."""
    for name, lease in leases.items():
        if lease.holder == member.id:
            leases[name] = _homed(lease, member.client_id, now_ms)


def given_back(state: Group, event: LeasesReleased, now_ms: int) -> Group:
    """What a member gives back unasked, because it closes, remembers whose it was."""
    if event.reason is not ReleaseReason.RELEASED:
        return state
    leases = dict(state.leases)
    for grant in event.leases:
        lease, member = leases.get(grant.lease), state.members.get(grant.member)
        if lease is None or member is None or lease.epoch != grant.epoch or lease.state is not LeaseState.HELD:
            continue
        leases[grant.lease] = _homed(lease, member.client_id, now_ms)
    return replace(state, leases=leases)


def _homed(lease: Lease, home: str, now_ms: int) -> Lease:
    """Who lost it first keeps the claim: its successors only stood in."""
    if not home or at_home(lease, now_ms):
        return lease
    return replace(lease, home=home, home_since_ms=now_ms)
