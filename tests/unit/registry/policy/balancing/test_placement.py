"""The search for few moves that even out load, beside an exhaustive one on small worlds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.registry.policy.balancing.placement import search
from tests.unit.registry.policy.balancing.exhaustive import balanced, fewest, placed

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
