"""Sums up what is known of a group's lag, load and members, as the number of members is computed from it. Pure."""

from collections.abc import Mapping

import numpy as np

from braid.kernel.limits.assigner.placement import LOAD_FLOOR
from services.assigner.model import group_channels
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.lag.scaling import LaneRates
from services.assigner.policy.constraints import borne
from services.assigner.policy.costs import costs_of
from services.assigner.policy.desired_capacity import GroupFacts, LaneLag, fitting_members


def facts_of(
    state: Group, loads: Loads, lag: Mapping[str, LaneRates | None], targets: Mapping[str, float]
) -> GroupFacts | None:
    """Returns what is known of a group; None where the lag of a lane with a target is not.

    Args:
        state: The group.
        loads: What was measured of its leases.
        lag: By `<stream>/<lane>`.
        targets: Seconds, by `<stream>/<lane>`.
    """
    blocks = [(name, channel.partitions) for name, channel in sorted(group_channels.wanted(state).items())]
    costs = np.split(costs_of(loads.costs, blocks), np.cumsum([size for _, size in blocks])[:-1]) if blocks else []
    busy: dict[str, float] = {}
    for (name, _), cost in zip(blocks, costs, strict=True):
        lane = name.rpartition("/")[0]
        busy[lane] = busy.get(lane, 0.0) + float(cost[cost > LOAD_FLOOR].sum())
    stopped = {stop.lane for stop in state.stops.values()}
    lanes: list[LaneLag] = []
    for name, target in sorted(targets.items()):
        rates = lag.get(name)
        if rates is None:
            return None
        lanes.append(LaneLag(name, target, *rates, busy.get(name, 0.0), name.rpartition("/")[2] in stopped))
    capacities = borne(state, loads.capacities)
    capacities = capacities[capacities > 0]  # drained members hold nothing
    whole = sum(busy.values())
    fitting = fitting_members(capacities.tolist(), whole) if loads.settled else len(capacities)
    return GroupFacts(lanes, len(capacities), sum(size for _, size in blocks), fitting, whole, bool(loads.capacities))
