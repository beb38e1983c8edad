"""Checks by a preview of the placement whether a group would do with fewer members. Pure; decides nothing.

Nobody knows which members will go, so those that bear most are taken away. What is left must bear the load with
head-room, and every partition that has a member now must have one then: pins, bans and zones may stand against it.
"""

from collections.abc import Generator, Sequence
from typing import Final

import numpy as np

from braid.kernel.limits.assigner.scaling import SCALING_LOAD_MAX
from services.assigner.domain.preview import wanted, without_members
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.policy.arrays import Indices
from services.assigner.policy.constraints import borne
from services.assigner.policy.layout import Layout, layout

_UNKNOWN: Final = Loads()
_WARM_MS: Final = 10 * 60_000  # previews look so far ahead: newcomers are warm by then


def enough_members(state: Group, loads: Loads, members: int, now_ms: int) -> Generator[None, None, bool]:
    """Returns whether the group would do with so many members; yields after each slice of the work.

    Args:
        state: The group as it is.
        loads: What was measured.
        members: How many would stay.
        now_ms: Now, wall clock.
    """
    leaving = strongest(state, len(state.members) - members, loads)
    now = layout(state, state.member_columns.ids, loads, now_ms + _WARM_MS)
    changed = without_members(state, leaving)
    then = layout(changed, changed.member_columns.ids, loads, now_ms + _WARM_MS)
    placed = yield from wanted(changed, then)
    if np.count_nonzero(placed < 0) > np.count_nonzero(now.holders < 0):
        return False
    return not _overloaded(then, placed)


def strongest(state: Group, count: int, loads: Loads = _UNKNOWN) -> Sequence[str]:
    """Returns the members with the largest capacities."""
    ids = state.member_columns.ids
    order = np.argsort(-borne(state, loads.capacities), kind="stable")
    return [ids[at] for at in order[: max(count, 0)].tolist()]


def _overloaded(then: Layout, placed: Indices) -> bool:
    """Whether a member would have more than its part; a single partition cannot be divided, so it does not count."""
    held = placed >= 0
    loads = np.bincount(placed[held], then.measured.weights[held], len(then.members))
    counts = np.bincount(placed[held], minlength=len(then.members))
    over = (loads > then.measured.capacities * SCALING_LOAD_MAX) & (counts > 1)
    return bool(over.any())
