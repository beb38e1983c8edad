"""How members that count as slow are placed: with a part of their capacity, and with a lease to be judged by. Pure."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from services.assigner.model.group import Group
from services.assigner.model.lag.responses import ResponseKind
from services.assigner.policy.arrays import Floats


def slow_parts(state: Group) -> Mapping[str, float]:
    """Returns the part of its capacity that each slow member counts with, by id."""
    figures = state.responses.values(ResponseKind.LEAVE_SLOW_MEMBERS)
    parts = {id: told.get("capacity", 1.0) for id, told in figures.items() if id in state.members}
    return {id: part for id, part in parts.items() if 0 < part < 1}


def slow_members(state: Group, members: Sequence[str]) -> Collection[int]:
    """Returns the indices of members that count as slow: each keeps a lease to be judged by."""
    return frozenset(at for at in (_index(members, id) for id in slow_parts(state)) if at >= 0)


def probing_capacities(
    state: Group, members: Sequence[str], lightest: Floats, capacities: Floats, load: float
) -> Floats:
    """Returns the capacities, those of slow members large enough that one lease is no more than their share.

    A member without a lease could not show that it has recovered.

    Args:
        state: The group.
        members: Ids, as the capacities are ordered.
        lightest: Per member, its lightest lease; infinite where it has none.
        capacities: What each counts for; 0 for one that is drained.
        load: The sum of all weights.
    """
    whole = float(capacities.sum())
    slow = [at for at in (_index(members, id) for id in slow_parts(state)) if at >= 0 and capacities[at] > 0]
    if not slow or whole <= 0 or load <= 0:
        return capacities
    known = lightest[np.isfinite(lightest)]
    usual = float(np.median(known)) if len(known) else 0.0
    result = capacities.copy()
    for at in slow:
        weight = float(lightest[at]) if np.isfinite(lightest[at]) else usual
        result[at] = max(result[at], weight * whole / load)
    return result


def _index(members: Sequence[str], id: str) -> int:
    return members.index(id) if id in members else -1
