"""The stated bounds of the placement by load, as properties; mutants that ignore them turn the checkers red."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.assigner.policy import improvement
from services.assigner.policy.arrays import (
    Floats,
    Indices,
    Mask,
)
from services.assigner.policy.by_load import (
    LeaseMove,
    Placement,
)
from services.assigner.policy.by_number import Measured, Movable, place, placing
from services.assigner.policy.improvement import (
    Band,
    Improvement,
    improve,
)
from services.assigner.policy.placement_rules import Rules

T = TypeVar("T")
WEIGHTS = st.lists(st.sampled_from([0.01, 0.01, 0.02, 0.05, 0.1, 0.4, 1.0, 3.0]), min_size=1, max_size=60)
CAPACITIES = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=9)
UNBOUNDED: Final = 10_000
EXACT: Final = 1e-9
Deal = Callable[[Placement, Indices], None]


def empty(weights: list[float], capacities: list[float]) -> Placement:
    """Nobody holds anything."""
    return Placement(np.array(weights), np.full(len(weights), -1), np.array(capacities))


def dealt(weights: list[float], capacities: list[float], deal: Deal = Placement.deal) -> Placement:
    """Placed from nothing."""
    placement = empty(weights, capacities)
    deal(placement, np.arange(len(weights)))
    return placement


def anyhow(draw: st.DataObject, weights: list[float], capacities: list[float], least: int = 0) -> Placement:
    """Held by whom chance wants."""
    holder = st.integers(least, len(capacities) - 1)
    holders = draw.draw(st.lists(holder, min_size=len(weights), max_size=len(weights)))
    return Placement(np.array(weights), np.array(holders), np.array(capacities))


def after_deaths(before: Placement, dead: list[int]) -> Placement:
    """A placement in which the leases of dead members are dealt to the others."""
    free = np.isin(before.holders, dead)
    capacities = before.capacities.copy()
    capacities[dead] = 0.0
    after = Placement(before.weights, np.where(free, -1, before.holders), capacities)
    after.deal(np.flatnonzero(free))
    return after


# --- checkers


def check_books(placement: Placement, capacities: list[float]) -> None:
    """Asserts that the stored loads, relative loads and holders match the placement."""
    held = placement.holders >= 0
    loads = np.bincount(placement.holders[held], placement.weights[held], len(capacities))
    assert np.allclose(placement.loads, loads)
    live = np.isfinite(placement.relative)
    assert np.allclose(placement.relative[live], (loads / np.array(capacities))[live])
    for member in range(len(capacities)):
        assert sorted(placement.listed(member).tolist()) == np.flatnonzero(placement.holders == member).tolist()


def check_dealt(placement: Placement, before: Floats, capacities: list[float]) -> None:
    """Asserts that a member that got a lease is at most its heaviest partition above the mean."""
    assert (placement.holders >= 0).all()
    bound = placement.mean + placement.weights.max() / np.array(capacities)
    got = placement.loads > before + EXACT
    assert (placement.relative[got] <= bound[got] + EXACT).all(), (placement.relative, bound)


def check_moves(before: Placement, after: Placement, moves: list[LeaseMove]) -> None:
    """Load moved is at most what is above the mean, and one heaviest partition for each member that gives."""
    changed = np.flatnonzero(before.holders != after.holders)
    assert sorted(move.partition for move in moves) == changed.tolist(), "each moves once"
    givers, takers = {move.source for move in moves}, set()
    for move in moves:
        assert move.source not in takers, "who got something gives nothing afterwards"
        takers.add(move.target)
    mean, inverse = before.mean, before.relative / np.where(before.loads > 0, before.loads, np.inf)
    capacities = np.where(inverse > 0, 1 / np.where(inverse > 0, inverse, 1), 0)
    above = sum(max(0.0, before.loads[giver] - mean * capacities[giver]) for giver in givers)
    assert before.weights[changed].sum() <= above + len(givers) * before.weights.max() + EXACT


def check_evened(placement: Placement, capacities: list[float], inner: float) -> None:
    """No single move helps any more."""
    bound = max(placement.mean * (1 + inner), placement.mean + placement.weights.max() / min(capacities))
    assert placement.relative.max() <= bound + EXACT, (placement.relative, bound)


# --- properties


@given(WEIGHTS, CAPACITIES)
def test_a_first_deal_gives_at_most_one_above_the_mean(weights: list[float], capacities: list[float]) -> None:
    placement = dealt(weights, capacities)
    check_books(placement, capacities)
    check_dealt(placement, np.zeros(len(capacities)), capacities)


@given(WEIGHTS, st.integers(1, 40))
def test_equal_members_are_within_a_partition_of_one_another(weights: list[float], members: int) -> None:
    placement = dealt(weights, [1.0] * members)
    check_books(placement, [1.0] * members)
    if members < 8:
        check_dealt(placement, np.zeros(members), [1.0] * members)
    assert placement.loads.max() - placement.loads.min() <= max(weights) * 8 / 7 + EXACT


@given(st.integers(1, 60), st.integers(1, 9))
def test_equal_weights_give_even_numbers(partitions: int, members: int) -> None:
    counts = np.bincount(dealt([0.25] * partitions, [1.0] * members).holders, minlength=members)
    assert counts.max() - counts.min() <= 1


@given(WEIGHTS, CAPACITIES.filter(lambda each: len(each) > 1), st.data())
def test_a_death_moves_only_what_the_dead_held(
    weights: list[float], capacities: list[float], data: st.DataObject
) -> None:
    placement = anyhow(data, weights, capacities)
    dead = data.draw(st.sets(st.integers(0, len(capacities) - 1), min_size=1, max_size=len(capacities) - 1))
    holders, loads = placement.holders.copy(), placement.loads.copy()
    placement = after_deaths(placement, sorted(dead))
    kept = ~np.isin(holders, sorted(dead))
    assert (placement.holders[kept] == holders[kept]).all()
    assert not np.isin(placement.holders, sorted(dead)).any()
    check_books(placement, capacities)
    left = [0.0 if at in dead else each for at, each in enumerate(capacities)]
    if len({each for each in left if each}) > 1:  # dealt one by one
        check_dealt(placement, loads, [each or 1.0 for each in left])


@given(WEIGHTS, CAPACITIES, st.data())
def test_improving_is_bounded_ends_even_and_is_then_left_alone(
    weights: list[float], capacities: list[float], data: st.DataObject
) -> None:
    before = anyhow(data, weights, capacities)
    after = Placement(before.weights, before.holders, np.array(capacities))
    moves = improve(after, Band(0.0, 0.0, 0.0, 0.0), UNBOUNDED)
    check_books(after, capacities)
    check_moves(before, after, moves)
    check_evened(after, capacities, 0.0)


@given(WEIGHTS, CAPACITIES, st.data())
def test_steady_load_comes_to_rest_and_moves_nothing_then(
    weights: list[float], capacities: list[float], data: st.DataObject
) -> None:
    placement = anyhow(data, weights, capacities)
    steps = 0
    while improve(placement, Band(), UNBOUNDED):
        steps += 1
        assert steps <= len(capacities) + 2, "it goes on and on"
    holders = placement.holders.tolist()
    assert not improve(placement, Band(), UNBOUNDED)
    assert placement.holders.tolist() == holders


@given(st.lists(st.floats(0.9, 1.1), min_size=2, max_size=9))
def test_within_the_band_nothing_moves(loads: list[float]) -> None:
    parts = np.repeat(np.array(loads) / 10, 10)
    placement = Placement(parts, np.repeat(np.arange(len(loads)), 10), np.ones(len(loads)))
    mean = placement.mean
    outside = placement.relative.max() > mean * 1.15 or placement.relative.min() < mean * 0.7
    assert not improve(placement, Band(), UNBOUNDED) or outside


@given(WEIGHTS, CAPACITIES, st.integers(0, 5), st.data())
def test_a_budget_is_kept_and_every_move_of_it_helps(
    weights: list[float], capacities: list[float], budget: int, data: st.DataObject
) -> None:
    before = anyhow(data, weights, capacities)
    after = Placement(before.weights, before.holders, np.array(capacities))
    moves = improve(after, Band(), budget)
    assert len(moves) <= budget
    assert after.relative.max() <= before.relative.max() + EXACT
    check_books(after, capacities)


@given(WEIGHTS, CAPACITIES, st.integers(0, 9), st.integers(1, 4), st.data())
def test_sliced_it_comes_to_the_same(
    weights: list[float], capacities: list[float], budget: int, tries: int, data: st.DataObject
) -> None:
    before = anyhow(data, weights, capacities)
    whole, sliced = (Placement(before.weights, before.holders, np.array(capacities)) for _ in range(2))
    moves = improve(whole, Band(), budget)
    improvement = Improvement(sliced, Band(), budget)
    while not improvement.step(tries):
        assert (sliced.holders == before.holders).all(), "nothing moves before all is known"
    sliced.take(improvement.moves)
    assert improvement.moves == moves
    assert sliced.holders.tolist() == whole.holders.tolist()
    measured = Measured(before.weights, np.array(capacities), budget)
    if not measured.plain:
        dealt = placing(np.zeros(len(weights), np.int64), before.holders, measured)
        assert finished(dealt).tolist() == whole.holders.tolist()


def finished(steps: Generator[None, None, T]) -> T:
    """The return value of a generator that is run to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)


def test_a_slice_ends_in_time_and_what_was_found_is_done() -> None:
    """Twenty partitions too many with one of two members; three of them are moved at a time."""
    placement = Placement(np.full(40, 0.1), np.repeat([0, 1], [40, 0]), np.ones(2))
    assert [len(improve(placement, Band(), UNBOUNDED, 3)) for _ in range(9)] == [3, 3, 3, 3, 3, 3, 0, 0, 0]
    assert placement.relative.max() <= placement.mean * 1.15


@given(WEIGHTS, st.integers(2, 6), st.data())
def test_rules_are_never_broken(weights: list[float], members: int, data: st.DataObject) -> None:
    size = len(weights)
    kinds = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    row = st.lists(st.booleans(), min_size=members, max_size=members)
    allowed = np.array(data.draw(st.lists(row, min_size=3, max_size=3)))
    apart = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=size, max_size=size)))
    placement = Placement(np.array(weights), np.full(size, -1), np.ones(members), Rules(kinds, allowed, apart))
    placement.deal(np.arange(size))
    check_rules(placement, kinds, allowed, apart)
    improve(placement, Band(0.0, 0.0, 0.0, 0.0), UNBOUNDED)
    check_rules(placement, kinds, allowed, apart)
    for partition in np.flatnonzero((placement.holders < 0) & (apart < 0)).tolist():
        assert not allowed[kinds[partition]].any(), "free though somebody may hold it"


@given(WEIGHTS, st.integers(2, 8), st.integers(1, 4), st.data())
def test_hosts_have_room_for_their_part_and_nobody_is_left_alone(
    weights: list[float], members: int, hosts: int, data: st.DataObject
) -> None:
    size = len(weights)
    at = np.array([number % hosts for number in range(members)])
    apart = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    room = np.array([-(-int((apart == each).sum()) // len(set(at.tolist()))) for each in range(2)])
    row = st.lists(st.booleans(), min_size=members, max_size=members)
    allowed = np.array([[True] * members, data.draw(row)])
    kinds = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    rules = Rules(kinds, allowed, apart, at, room, soft=True)
    placement = Placement(np.array(weights), np.full(size, -1), np.ones(members), rules)
    placement.deal(np.arange(size))
    improve(placement, Band(0.0, 0.0, 0.0, 0.0), UNBOUNDED)
    held = placement.holders >= 0
    assert held[allowed[kinds].any(axis=1)].all()
    assert allowed[kinds[held], placement.holders[held]].all()
    if allowed.all():
        pairs = zip(apart.tolist(), at[placement.holders].tolist(), strict=True)
        assert all(count <= room[each] for (each, _), count in Counter(pairs).items())


def check_rules(placement: Placement, kinds: Indices, allowed: Mask, apart: Indices) -> None:
    """Nobody holds what it may not, nor two of a set."""
    held = np.flatnonzero(placement.holders >= 0)
    assert allowed[kinds[held], placement.holders[held]].all()
    pairs = [(int(apart[each]), int(placement.holders[each])) for each in held if apart[each] >= 0]
    assert len(pairs) == len(set(pairs))


# --- cases


def test_who_may_get_nothing_keeps_what_it_holds() -> None:
    placement = Placement(np.array([1.0, 1.0, 1.0]), np.array([0, -1, -1]), np.array([0.0, 1.0]))
    placement.deal(np.array([1, 2]))
    assert placement.holders.tolist() == [0, 1, 1]


def test_a_hot_partition_is_left_alone_with_its_member() -> None:
    measured = Measured(np.array([1.0, 0.1, 0.1, 0.1]), np.ones(2), UNBOUNDED)
    target = place(np.zeros(4, np.int64), np.array([0, 0, 0, 1]), 2, movable=Movable.ALL, measured=measured)
    assert target.tolist() == [0, 1, 1, 1]


def test_free_partitions_go_by_load_though_nothing_may_move() -> None:
    measured = Measured(np.array([1.0, 0.1, 0.2]), np.ones(2), 0)
    target = place(np.zeros(3, np.int64), np.array([0, 0, -1]), 2, movable=Movable.NONE, measured=measured)
    assert target.tolist() == [0, 0, 1]


def test_capacities_are_borne_in_mind() -> None:
    measured = Measured(np.full(12, 0.3), np.array([1.0, 2.0]), 0)
    target = place(np.zeros(12, np.int64), np.full(12, -1), 2, movable=Movable.ALL, measured=measured)
    assert np.bincount(target).tolist() == [4, 8]


def test_before_it_has_measured_only_a_newcomer_gets_anything() -> None:
    channels, holders = np.zeros(9, np.int64), np.array([0, 0, 0, 0, 0, 0, 0, 1, 1])
    assert place(channels, holders, 2, movable=Movable.TO_NEWCOMERS).tolist() == holders.tolist()
    target = place(channels, holders, 3, movable=Movable.TO_NEWCOMERS)
    assert np.bincount(target).tolist() == [4, 2, 3]
    assert (target != holders).sum() == 3


def test_without_a_budget_nothing_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """An uneven group is looked at every few seconds, however long its budget is spent."""
    planned: list[float] = []

    def plan(planned_on: Placement, live: Mask, mean: float, *_: object) -> Iterator[LeaseMove]:
        planned.append(mean)
        yield from ()

    monkeypatch.setattr(improvement, "improving_moves", plan)
    uneven = Placement(np.full(6, 0.5), np.zeros(6, np.int64), np.ones(2))
    assert improve(uneven, Band(), 0) == []
    assert planned == []
    improve(uneven, Band(), 1)
    assert len(planned) == 1


def test_many_members_die_and_the_rest_stay_even() -> None:
    weights = np.random.default_rng(7).lognormal(0.0, 0.5, 100_000) * 0.01
    placement = Placement(weights, np.full(100_000, -1), np.ones(1_000))
    placement.deal(np.arange(100_000))
    placement = after_deaths(placement, list(range(0, 1_000, 100)))
    live = placement.relative[np.isfinite(placement.relative)]
    assert live.max() / live.mean() <= 1.10


# --- mutants


def by_number(placement: Placement, free: Indices) -> None:
    """A mutant that ignores load: round robin."""
    placement.holders[free] = free % len(placement.loads)
    placement.loads[:] = np.bincount(placement.holders, placement.weights, len(placement.loads))
    placement.relative[:] = placement.loads


def restless(placement: Placement) -> list[LeaseMove]:
    """A mutant without regard for what is held: deals everything out anew."""
    before = placement.holders.copy()
    again = Placement(placement.weights, np.full(len(before), -1), np.ones(len(placement.loads)))
    again.deal(np.arange(len(before)))
    placement.holders[:] = again.holders
    return [
        LeaseMove(at, int(before[at]), int(again.holders[at]))
        for at in np.flatnonzero(before != again.holders).tolist()
    ]


def test_an_assignor_that_ignores_load_is_noticed() -> None:
    weights = [3.0, 0.01, 3.0, 0.01, 3.0, 0.01]
    check_dealt(dealt(weights, [1.0, 1.0]), np.zeros(2), [1.0, 1.0])
    with pytest.raises(AssertionError):
        check_dealt(dealt(weights, [1.0, 1.0], by_number), np.zeros(2), [1.0, 1.0])


def test_an_assignor_that_moves_what_it_need_not_is_noticed() -> None:
    before = Placement(np.full(6, 0.5), np.array([1, 1, 1, 0, 0, 0]), np.ones(2))
    after = Placement(before.weights, before.holders, np.ones(2))
    check_moves(before, after, improve(after, Band(0.0, 0.0, 0.0, 0.0), UNBOUNDED))
    with pytest.raises(AssertionError):
        check_moves(before, after, restless(after))


def test_an_assignor_that_stops_early_is_noticed() -> None:
    uneven = Placement(np.full(6, 0.5), np.zeros(6, np.int64), np.ones(2))
    with pytest.raises(AssertionError):
        check_evened(uneven, [1.0, 1.0], 0.0)


def test_a_broken_rule_is_noticed() -> None:
    placement = Placement(np.ones(2), np.array([0, 0]), np.ones(2))
    with pytest.raises(AssertionError):
        check_rules(placement, np.array([0, 0]), np.array([[False, True]]), np.array([-1, -1]))
    with pytest.raises(AssertionError):
        check_rules(placement, np.array([0, 0]), np.array([[True, True]]), np.array([1, 1]))
