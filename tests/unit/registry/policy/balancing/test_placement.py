"""The search for few moves that even out load, beside an exhaustive one on small worlds."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.registry.policy.balancing.placement import Placement, Step, Unit, search

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


RATES = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)


@given(rates=RATES, at=st.lists(st.integers(0, 2), min_size=6, max_size=6), big=st.floats(1.0, 4.0))
def test_at_most_one_move_more_than_needed(rates: list[float], at: list[int], big: float) -> None:
    placement = placed(rates, at[: len(rates)], (1.0, 1.0, big))
    needed, found = fewest(placement), search(placement)
    if needed is None:
        assert not found.balanced
    else:
        assert found.balanced
        assert len(found.steps) <= needed + 1
        assert balanced(placement.moved(found.steps))


@given(rates=RATES, at=st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_no_plan_makes_the_worst_cluster_worse(rates: list[float], at: list[int]) -> None:
    placement = placed(rates, at[: len(rates)])
    steps = search(placement).steps
    if not steps:
        return
    before, after = placement.over() - 1.0, placement.moved(steps).over() - 1.0
    assert np.maximum(0, after).sum() < np.maximum(0, before).sum()


def test_a_stream_larger_than_every_cluster_stays() -> None:
    assert search(placed([100.0, 0.1, 0.1], [0, 1, 2])).steps == ()


def test_a_forbidden_target_is_never_taken() -> None:
    placement = placed([10.0, 10.0, 10.0], [0, 0, 0])
    placement.allowed[:, 1] = False
    found = search(placement)
    assert {step.target for step in found.steps} == {2}


def test_a_stream_and_its_counterpart_are_exchanged() -> None:
    found = search(placed([10.0, 6.0, 6.0, 3.0, 3.0], [0, 0, 1, 1, 2], (16.0, 9.0, 6.0)))
    assert found.balanced
