"""Who holds what, kept beside the column of holders: it says what the column says, after any hand-overs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.assigner.policy import by_load
from services.assigner.policy.arrays import Indices
from services.assigner.policy.by_load import Placement
from services.assigner.policy.holdings import Holdings

MEMBERS = 5
HOLDERS = st.lists(st.integers(-1, MEMBERS - 1), max_size=40)


def check_held(held: Holdings, holders: Indices) -> None:
    """What each member is said to hold is what the column gives to it."""
    for member in range(MEMBERS):
        assert held.of(member, holders).tolist() == np.flatnonzero(holders == member).tolist()


@given(HOLDERS, st.data())
def test_it_says_what_the_column_says_after_any_hand_overs(before: list[int], data: st.DataObject) -> None:
    holders = np.array(before, np.int64)
    held = Holdings(holders, MEMBERS)
    check_held(held, holders)
    for _ in range(data.draw(st.integers(0, 6))):
        some = data.draw(st.lists(st.integers(0, len(before) - 1), unique=True)) if before else []
        takers = data.draw(st.lists(st.integers(-1, MEMBERS - 1), min_size=len(some), max_size=len(some)))
        partitions = np.array(some, np.int64)
        holders[partitions] = takers
        held.add(partitions, np.array(takers, np.int64))
        check_held(held, holders)


def test_a_hand_over_nobody_told_of_is_noticed() -> None:
    """A negative control: the checker is red over what was changed behind its back."""
    holders = np.array([0, 1, 1, -1])
    held = Holdings(holders, MEMBERS)
    holders[3] = 2
    with pytest.raises(AssertionError):
        check_held(held, holders)


def test_after_many_hand_overs_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members die one after the other; what is kept of hand-overs stays within the number of partitions."""
    begun: list[int] = []

    class Counted(Holdings):
        def __init__(self, holders: Indices, members: int) -> None:
            begun.append(members)
            super().__init__(holders, members)

    monkeypatch.setattr(by_load, "Holdings", Counted)
    partitions = 1_024
    placement = Placement(np.full(partitions, 0.1), np.arange(partitions) % 8, np.ones(8))
    for member in range(7):
        placement.remove([member])
        check = np.bincount(placement.holders, minlength=8)
        assert [len(placement.held_by(each)) for each in range(8)] == check.tolist()
    assert begun == [8, 8]
    assert placement.held_by(7) == list(range(partitions))
