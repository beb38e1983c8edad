"""How much slower than the others a member is, by the time that a record takes in the lane where it works most. Pure.

Members of a group do the same kind of work in a lane, so the time that a record takes at one of them should be that at
the others. What is compared is robust, because one partition may hold dear records, and one member may lie:

- the lease that takes a member longest does not count, where others say enough (`work_times`);
- the reference is the median of the others, of an even number the upper one: one liar accuses nobody;
- members on one host have one vote where there are three hosts or more, and a slow host makes all of them slow.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from services.assigner.policy.arrays import Floats, Indices

_OTHERS_MIN: Final = 2  # with one other nobody can say which of the two is slow
_HOSTS_MIN: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class MemberTimes:
    """Recent measurements of members; arrays of one element for each lane in which each works.

    Attributes:
        lanes: The number of the lane.
        members: The number of the member.
        seconds: Seconds that a record took.
        spent: Seconds that its handlers ran.
    """

    lanes: Indices
    members: Indices
    seconds: Floats
    spent: Floats


class Slowness(NamedTuple):
    """A member beside the others of its group.

    Attributes:
        ratio: How many times longer a record takes at it.
        seconds: Seconds that a record takes at it.
        usual_seconds: Seconds that a record takes at the others.
        lane: The number of the lane that was compared: the one in which it works most.
        part: The time that its handlers ran there, over that of an average member there.
    """

    ratio: float
    seconds: float
    usual_seconds: float
    lane: int
    part: float


def slowness(times: MemberTimes, hosts: Indices) -> dict[int, Slowness]:
    """Returns, by the number of a member, how it compares; members that cannot be compared are left out.

    Args:
        times: What was measured.
        hosts: The number of each member's host.
    """
    if not len(times.lanes):
        return {}
    lanes, members, own, spent = times.lanes, times.members, times.seconds, times.spent
    by_host = len(np.unique(hosts[members])) >= _HOSTS_MIN
    units = hosts[members] if by_host else members
    named, of_unit = np.unique(lanes * (int(units.max()) + 1) + units, return_inverse=True)
    unit_lanes = named // (int(units.max()) + 1)
    unit_seconds = _lower_medians(own, of_unit, len(named))
    usual = _of_others(unit_lanes, unit_seconds)[of_unit]
    seconds = np.maximum(own, unit_seconds[of_unit])
    in_lane = np.bincount(lanes, minlength=int(lanes.max()) + 1)
    average = np.bincount(lanes, spent)[lanes] / in_lane[lanes]
    found: dict[int, Slowness] = {}
    for at in np.argsort(spent, kind="stable").tolist():  # the lane in which it works most comes last
        found.pop(int(members[at]), None)
        if usual[at] > 0:
            found[int(members[at])] = Slowness(
                float(seconds[at] / usual[at]),
                float(seconds[at]),
                float(usual[at]),
                int(lanes[at]),
                float(spent[at] / average[at]) if average[at] > 0 else 0.0,
            )
    return found


def _lower_medians(values: Floats, groups: Indices, count: int) -> Floats:
    """Returns the median of each group of values, of an even number the lower one."""
    order = np.lexsort((values, groups))
    sizes = np.bincount(groups, minlength=count)
    starts = np.cumsum(sizes) - sizes
    result: Floats = values[order][starts + (sizes - 1) // 2]
    return result


def _of_others(lanes: Indices, seconds: Floats) -> Floats:
    """Returns, for each unit, the upper median of the others in its lane; 0 where they are too few."""
    order = np.lexsort((seconds, lanes))
    ranked, of_lane = seconds[order], lanes[order]
    sizes = np.bincount(lanes)
    starts = (np.cumsum(sizes) - sizes)[of_lane]
    others = sizes[of_lane] - 1
    rank = np.arange(len(ranked)) - starts
    middle = others // 2
    at = starts + middle + (rank <= middle)  # the one itself is passed over
    usual = np.where(others >= _OTHERS_MIN, ranked[np.minimum(at, len(ranked) - 1)], 0.0)
    result: Floats = np.empty(len(seconds))
    result[order] = usual
    return result
