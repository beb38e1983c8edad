"""Small placements of streams on three clusters, and the fewest moves that even them out, by trying all of them."""

from itertools import product

import numpy as np

from services.registry.policy.balancing.placement import Placement, Step, Unit

MIB = float(1 << 20)
CLUSTERS = ("east", "north", "west")


def placed(rates: list[float], at: list[int], capacities: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Placement:
    """Streams that bring so many MiB a second, each on a cluster."""
    units = [
        Unit(f"s{number}", CLUSTERS[place], CLUSTERS[place], ("live",), (rate * MIB, 0.0, 1.0))
        for number, (rate, place) in enumerate(zip(rates, at, strict=True))
    ]
    loads = np.zeros((3, 3))
    for unit in units:
        loads[CLUSTERS.index(unit.cluster)] += unit.load
    limits = np.array([[each, 1e15, np.inf] for each in capacities])
    return Placement(CLUSTERS, loads, limits, 0.2, units, np.ones((len(units), 3), dtype=np.bool_), limits[:, 0])


def fewest(placement: Placement) -> int | None:
    """The fewest moves that leave no cluster overloaded, of all placements there are; None if none does."""
    home = [CLUSTERS.index(unit.cluster) for unit in placement.units]
    best: int | None = None
    for places in product(range(3), repeat=len(home)):
        steps = [Step(unit, to) for unit, (to, was) in enumerate(zip(places, home, strict=True)) if to != was]
        if (best is None or len(steps) < best) and balanced(placement.moved(steps)):
            best = len(steps)
    return best


def balanced(placement: Placement) -> bool:
    """Whether no cluster is overloaded."""
    return bool((placement.over() <= 1.0 + 1e-9).all())
