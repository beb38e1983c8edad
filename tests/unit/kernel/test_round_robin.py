"""Turns follow the shares, however many records are taken together, and what nobody else wants is lent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.round_robin import RoundRobin

TURNS = {"live": 32, "bulk": 8, "rest": 1}
sizes = st.lists(st.integers(1, 2_000), min_size=30, max_size=300)


def played(taken: list[int], waits: dict[str, bool]) -> dict[str, int]:
    """How much each queue got, where so much is taken at a time; `waits` may change meanwhile."""
    turns = RoundRobin(waits.__getitem__, TURNS.__getitem__)
    for name in waits:
        turns.add(name)
    got = dict.fromkeys(waits, 0)
    for count in taken:
        name = turns.next() or "nobody"
        assert waits[name]
        got[name] += count
        turns.charge(count - 1, lent=sum(waits.values()) == 1)
    return got


@given(sizes)
def test_all_that_wait_get_their_shares_but_for_one_taking_each(taken: list[int]) -> None:
    got = played(taken, dict.fromkeys(TURNS, True))
    rounds = {name: got[name] / turn for name, turn in TURNS.items()}
    for one in TURNS:
        for other in TURNS:
            assert rounds[one] - rounds[other] <= max(taken) / TURNS[one] + 2


@given(sizes)
def test_who_is_alone_gets_everything_and_owes_nothing_for_it(taken: list[int]) -> None:
    waits = {"live": False, "bulk": True}
    turns = RoundRobin(waits.__getitem__, TURNS.__getitem__)
    for name in waits:
        turns.add(name)
    for count in taken:
        assert turns.next() == "bulk"
        turns.charge(count - 1, lent=True)
    waits["live"] = True
    turns.end_turn()
    assert {turns.next() for _ in range(TURNS["live"] + TURNS["bulk"])} == {"live", "bulk"}


def test_a_debt_is_paid_by_turns_that_come_while_nothing_waits() -> None:
    waits = {"live": True, "bulk": True}
    turns = RoundRobin(waits.__getitem__, TURNS.__getitem__)
    for name in waits:
        turns.add(name)
    while turns.next() != "bulk":
        pass
    turns.charge(8 * 3 - 1, lent=False)  # three turns together
    waits["bulk"] = False
    for _ in range(3 * TURNS["live"]):
        assert turns.next() == "live"
    waits["bulk"] = True
    assert turns.next() == "bulk"


def test_nothing_is_next_while_nothing_waits() -> None:
    waits = {"live": False}
    turns = RoundRobin(waits.__getitem__, TURNS.__getitem__)
    assert turns.next() is None
    turns.add("live")
    assert turns.next() is None


def test_turns_that_count_takings_instead_of_records_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the first test."""
    monkeypatch.setattr(RoundRobin, "charge", lambda self, more, *, lent: None)
    with pytest.raises(AssertionError):
        test_all_that_wait_get_their_shares_but_for_one_taking_each()
