"""Keeps leases in the zone of their cluster, up to the load that its members can bear. Pure, NumPy.

The members of a zone bear their share of the whole load, by capacity. Leases of the zone are kept to its members up to
that share. What exceeds it may go to any member, so a zone with few members is not overloaded, and balance comes before
zones. A lease that is kept to members who do not hold it is asked back within the budget of rules.

Loads vary, so what is in its zone stays there up to an upper edge above the share, and what is elsewhere comes only
up to an inner one. Between the two nothing moves. The upper edge is that of the band, or lower: with all zones at it,
the smallest zone still has its share less the lower edge of the band.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from braid.kernel.zones import zone_key
from services.assigner.model.group import Group
from services.assigner.model.rules import Zones
from services.assigner.policy.arrays import Floats, Indices, Mask
from services.assigner.policy.improvement import Band
from services.assigner.policy.lease_names import LeaseNames
from services.assigner.policy.placement_rules import Rules

_INNER: Final = 1 / 3  # of the upper edge: leases come from elsewhere up to here


def with_preferred_zones(
    state: Group,
    members: Sequence[str],
    leases: LeaseNames,
    rules: Rules | None,
    holders: Indices,
    weights: Floats,
    capacities: Floats,
    band: Band,
) -> Rules | None:
    """Returns the rules with leases kept to members of their zone, where the group prefers zones.

    Args:
        state: The group.
        members: Ids of members, sorted.
        leases: Names of the leases.
        rules: What else constrains them.
        holders: Per lease, the index of its holder, or -1; shape (P,).
        weights: What each lease costs; shape (P,).
        capacities: What each member bears; shape (N,).
        band: How far loads may differ.
    """
    if state.rules.zones is not Zones.PREFER or not members or not len(leases):
        return rules
    of_channel = [zone_key(state.channels[channel].zone) for channel in leases.channels]
    of_member = [zone_key(state.members[member].zone) for member in members]
    zones = sorted({*of_channel} & {*of_member} - {""})
    if not zones:
        return rules
    index = {zone: number for number, zone in enumerate(zones)}
    lease_zones = np.array([index.get(zone, -1) for zone in of_channel], np.int64)[leases.of_channel]
    member_zones = np.array([index.get(zone, -1) for zone in of_member], np.int64)
    rules = rules or Rules(np.zeros(len(leases), np.int64), np.ones((1, len(members)), np.bool_))
    kept = np.zeros(len(leases), np.bool_)
    mean = float(weights.sum()) / max(float(capacities.sum()), 1e-9)
    slack = _slack(of_member, capacities, band)
    for zone in range(len(zones)):
        near: Mask = (member_zones == zone) & (capacities > 0)
        able = np.asarray((rules.allowed & near).any(axis=1), np.bool_)[rules.kinds]
        here = np.flatnonzero((lease_zones == zone) & able)
        share = mean * float(capacities[near].sum())
        kept[kept_near(here, np.isin(holders[here], np.flatnonzero(near)), weights[here], share, slack)] = True
    return _restricted(rules, kept, lease_zones, member_zones, len(zones))


def _slack(of_member: Sequence[str], capacities: Floats, band: Band) -> float:
    """Returns how far a zone's own leases may exceed its share, as a part of it."""
    _, groups = np.unique(of_member, return_inverse=True)
    sums = np.bincount(groups, capacities)
    smallest = float(sums[sums > 0].min(initial=np.inf))
    rest = float(sums.sum()) - smallest
    return min(band.high, band.low * smallest / rest) if rest > 0 else band.high


def kept_near(leases: Indices, at_home: Mask, weights: Floats, share: float, slack: float) -> Indices:
    """Returns the leases of a zone that its members bear: first those they hold, of each kind the heaviest first.

    Each counts by half: a share may be exceeded by half of the last, as any placement of whole leases exceeds it.
    """
    fits = weights <= 2 * share
    leases, at_home, weights = leases[fits], at_home[fits], weights[fits]
    order = np.lexsort((leases, -weights, ~at_home))
    middle = np.cumsum(weights[order]) - weights[order] / 2
    edge = np.where(at_home[order], 1 + slack, 1 + slack * _INNER)
    result: Indices = leases[order][middle <= share * edge]
    return result


def _restricted(rules: Rules, kept: Mask, lease_zones: Indices, member_zones: Indices, zones: int) -> Rules:
    """Returns the rules with a row more for each kind and zone of kept leases: the members of that zone only."""
    if not kept.any():
        return rules
    pairs = rules.kinds[kept] * zones + lease_zones[kept]
    known, rows = np.unique(pairs, return_inverse=True)
    near = rules.allowed[known // zones] & (member_zones[None, :] == (known % zones)[:, None])
    kinds = rules.kinds.copy()
    kinds[kept] = len(rules.allowed) + rows
    allowed: Mask = np.concatenate([rules.allowed, near])
    return Rules(kinds, allowed, rules.apart, rules.hosts, rules.room, rules.soft)
