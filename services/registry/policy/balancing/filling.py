"""Disks that fill up: which clusters give streams away before they are full, and which streams. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from braid.kernel.limits.registry.balancing import DISK_HORIZON_SECONDS, DISK_LEVEL, DISK_NEARLY
from braid.kernel.timing.forecasts import Forecast
from services.registry.policy.balancing.memory import BalanceMemory
from services.registry.policy.balancing.placement import BYTES, COPIES, DISK, Placement, Step, Unit
from services.registry.policy.world import World


@dataclass(frozen=True, slots=True)
class Filling:
    """A cluster whose fullest disk fills up, with the forecast."""

    cluster: str
    used_share: float
    forecast: Forecast


def filling(world: World, memory: BalanceMemory) -> Mapping[str, Filling]:
    """Clusters whose fullest disk is at its level within the horizon, or is nearly there and grows."""
    found: dict[str, Filling] = {}
    for name, load in sorted(world.loads.items()):
        forecast, used = memory.forecast(world, name), 1.0 - load.free_share
        if forecast is not None and (forecast.soonest <= DISK_HORIZON_SECONDS or used >= DISK_NEARLY):
            found[name] = Filling(name, used, forecast)
    return found


def nearly_full(world: World) -> Collection[str]:
    """Clusters whose fullest disk is nearly full, whether it grows or not: nothing goes there."""
    return {name for name, load in world.loads.items() if 1.0 - load.free_share >= DISK_NEARLY}


def relieve(placement: Placement, filling: Mapping[str, Filling]) -> Iterator[Step]:
    """Moves that let disks fill later: the streams that grow most, until none is at its level within the horizon.

    What is proposed or under way counts already: its units are elsewhere.
    """
    over = placement.over()
    for name, each in filling.items():
        if name not in placement.clusters:
            continue
        at = placement.clusters.index(name)
        growth = _growth(placement, each, at)
        missing = (DISK_LEVEL - each.used_share) * placement.capacities[at, DISK]
        units = [number for number, unit in enumerate(placement.units) if unit.cluster == name and not unit.fixed]
        for number in sorted(units, key=lambda number: (-placement.units[number].load[BYTES], number)):
            later = each.used_share < DISK_NEARLY and missing > growth * DISK_HORIZON_SECONDS
            if growth <= 0 or later:
                break
            rate = placement.units[number].load[BYTES]
            if rate <= 0 or not placement.allowed[number].any():
                continue
            targets = np.flatnonzero(placement.allowed[number])
            target = min((int(one) for one in targets), key=lambda one: (float(over[one].max()), one))
            if _holds(placement, target, placement.units[number]):
                growth -= rate
                yield Step(number, target)


def _growth(placement: Placement, filling: Filling, at: int) -> float:
    """Bytes a second that the cluster's disks will take, without streams that are on their way off it."""
    scale = placement.brokers[at] / min(COPIES, placement.brokers[at])  # of all disks for a byte of the fullest
    slope = filling.forecast.slope * scale
    if filling.forecast.seconds > 0:
        missing = (DISK_LEVEL - filling.used_share) * placement.capacities[at, DISK]
        slope = max(slope, missing / filling.forecast.seconds)
    leaving = [unit.load[BYTES] for unit in placement.units if unit.home == filling.cluster != unit.cluster]
    return float(slope - sum(leaving))


def _holds(placement: Placement, target: int, unit: Unit) -> bool:
    """Whether a cluster's disks hold the unit's growth until the horizon, and the bytes that it keeps now."""
    free = DISK_LEVEL * placement.capacities[target, DISK] - placement.loads[target, DISK]
    return bool(free > max(unit.load[BYTES] * DISK_HORIZON_SECONDS, unit.load[DISK]))
