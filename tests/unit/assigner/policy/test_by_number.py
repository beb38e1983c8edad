"""The stated bounds of the placement, as properties; mutants that ignore them turn the checkers red."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.assigner.policy.arrays import Indices
from services.assigner.policy.balance import Assignor
from services.assigner.policy.by_number import Measured, Movable, place

CHANNELS = st.lists(st.integers(1, 12), min_size=1, max_size=8)
MEMBERS = st.integers(1, 9)


def partitions(sizes: Sequence[int]) -> Indices:
    """The channel of every partition."""
    return np.repeat(np.arange(len(sizes)), sizes)


def free(channels: Indices) -> Indices:
    """Nobody holds anything."""
    return np.full(len(channels), -1, np.int64)


def check_even(target: Indices, members: int) -> None:
    """Totals differ by at most one."""
    counts = np.bincount(target, minlength=members)
    assert counts.max() - counts.min() <= 1, counts


def check_moves(before: Indices, after: Indices, members: int) -> None:
    """At most ⌈P/N⌉ + 1 partitions changed."""
    assert int((before != after).sum()) <= math.ceil(len(before) / members) + 1


def check_join(assign: Assignor, sizes: Sequence[int], members: int) -> None:
    """One member more: even again, and little moved."""
    channels = partitions(sizes)
    before = assign(channels, free(channels), members, movable=Movable.ALL)
    after = assign(channels, before, members + 1, movable=Movable.ALL)
    check_even(after, members + 1)
    check_moves(before, after, members + 1)
    assert set(after[before != after].tolist()) <= {members}, "only the newcomer takes"


def check_leave(assign: Assignor, sizes: Sequence[int], members: int, leaver: int) -> None:
    """One member fewer: even again, only what it held moved."""
    channels = partitions(sizes)
    before = assign(channels, free(channels), members, movable=Movable.ALL)
    left = np.where(before == leaver, -1, before - (before > leaver))
    after = assign(channels, left, members - 1, movable=Movable.ALL)
    check_even(after, members - 1)
    check_moves(left, after, members)


def forgetful(
    channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
) -> Indices:
    """A mutant without stickiness: deals everything out anew."""
    return np.arange(len(channels)) % members


def greedy(
    channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
) -> Indices:
    """A mutant without regard for load: the first member takes what is free."""
    return np.maximum(holders, 0)


@given(CHANNELS, MEMBERS)
def test_a_first_placement_is_even_overall_and_in_each_channel(sizes: list[int], members: int) -> None:
    channels = partitions(sizes)
    target = place(channels, free(channels), members, movable=Movable.ALL)
    check_even(target, members)
    for channel in range(len(sizes)):
        check_even(target[channels == channel], members)


@given(CHANNELS, MEMBERS)
def test_a_join_moves_little(sizes: list[int], members: int) -> None:
    check_join(place, sizes, members)


@given(CHANNELS, st.integers(2, 9), st.data())
def test_a_leave_moves_only_what_the_leaver_held(sizes: list[int], members: int, data: st.DataObject) -> None:
    check_leave(place, sizes, members, data.draw(st.integers(0, members - 1)))


@given(CHANNELS, MEMBERS, st.data())
def test_an_even_placement_is_left_alone(sizes: list[int], members: int, data: st.DataObject) -> None:
    channels = partitions(sizes)
    seed = data.draw(st.lists(st.integers(-1, members - 1), min_size=len(channels), max_size=len(channels)))
    once = place(channels, np.array(seed, np.int64), members, movable=Movable.ALL)
    check_even(once, members)
    assert (place(channels, once, members, movable=Movable.ALL) == once).all()


@given(CHANNELS, MEMBERS, st.data())
def test_what_may_not_move_stays(sizes: list[int], members: int, data: st.DataObject) -> None:
    channels = partitions(sizes)
    seed = data.draw(st.lists(st.integers(-1, members - 1), min_size=len(channels), max_size=len(channels)))
    before = np.array(seed, np.int64)
    after = place(channels, before, members, movable=Movable.NONE)
    assert (after[before >= 0] == before[before >= 0]).all()
    assert (after >= 0).all()
    counts = np.bincount(before[before >= 0], minlength=members)
    raised = np.bincount(after, minlength=members)
    assert all(raised[m] <= max(counts[m], raised.min() + 1) for m in range(members)), "water fills the lowest first"


def test_one_member_does_not_get_all_of_one_channel() -> None:
    channels = partitions([4, 4])
    alone = place(channels, free(channels), 1, movable=Movable.ALL)
    both = place(channels, alone, 2, movable=Movable.ALL)
    assert [int((both[channels == channel] == 1).sum()) for channel in (0, 1)] == [2, 2]


def test_without_members_nothing_is_placed() -> None:
    assert place(partitions([3]), free(partitions([3])), 0, movable=Movable.ALL).tolist() == [-1, -1, -1]


def test_a_large_group_is_placed_in_good_time() -> None:
    channels = partitions([100] * 100)
    before = place(channels, free(channels), 999, movable=Movable.ALL)
    check_moves(before, place(channels, before, 1000, movable=Movable.ALL), 1000)


@pytest.mark.parametrize("mutant", [forgetful, greedy])
def test_mutants_turn_the_checkers_red(mutant: Assignor) -> None:
    with pytest.raises(AssertionError):
        check_join(mutant, [6, 6], 3)
