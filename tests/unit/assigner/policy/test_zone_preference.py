"""Leases stay in the zone of their cluster as far as its members bear them, and rest there."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.assigner.model.commands import Balance, JoinMember, Loads, RemoveMember
from services.assigner.model.events import GoneReason, RevokesStarted
from services.assigner.model.rules import SetSpreading, Zones
from services.assigner.policy import layout, zone_preference
from tests.support.examples import examples
from tests.unit.assigner.groups import SPEC, History, check_single_holder, hello, member
from tests.unit.assigner.scenarios.test_spreading import TWO_ZONES, at, fleet, settle, strangers

HIGH: Final = 1.15  # of the mean: the band
THREE_ZONES: Final = tuple(at(f"logs/live/{n}", f"kafka-{zone}", zone, 6) for n, zone in enumerate("abc", 1))


def preferring(zones: Sequence[str], channels: Sequence[object] = TWO_ZONES) -> History:
    """A settled group that prefers zones, with a member in each of these."""
    history = fleet([(zone, f"h{number}") for number, zone in enumerate(zones)], *channels)  # type: ignore[arg-type]
    history.do(SetSpreading(zones=Zones.PREFER))
    settle(history)
    return history


def counts(history: History) -> list[int]:
    """How many leases each member holds, sorted by member."""
    held = list(history.holders().values())
    return [held.count(id) for id in sorted(history.state.members)]


def check_near(zones: str) -> None:
    """All leases are in their zone where each zone has its share of members."""
    history = preferring(list(zones), THREE_ZONES)
    assert not strangers(history) and len(history.holders()) == 18


@pytest.mark.parametrize("zones", ["abc", "cba", "aabbcc", "cabcab"])
def test_equal_zones_keep_all_their_leases(zones: str) -> None:
    check_near(zones)


def test_a_group_that_prefers_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "with_preferred_zones", lambda state, members, leases, rules, *rest: rules)
    with pytest.raises(AssertionError):
        check_near("cba")


def check_balanced() -> None:
    """One member in a zone of half the leases, nine in the other."""
    history = preferring(["b", *"aaaaaaaaa"], (at("logs/live/1", "east", "a", 20), at("logs/live/2", "west", "b", 20)))
    assert len(history.holders()) == 40
    assert max(counts(history)) <= 5 and min(counts(history)) >= 3
    only = member(1)
    assert all(lease.startswith("logs/live/2/") for lease, id in history.holders().items() if id == only)


def test_balance_comes_before_zones() -> None:
    check_balanced()


def test_zones_without_a_share_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_preference, "kept_near", lambda leases, *rest: leases)  # as the rule was before
    with pytest.raises(AssertionError):
        check_balanced()


def test_one_zone_with_all_members_holds_everything() -> None:
    history = preferring(["a", "a", "a"], THREE_ZONES)
    assert counts(history) == [6, 6, 6]


def test_a_zone_that_no_cluster_has_gets_its_share() -> None:
    history = preferring(["a", "b", "d"])
    assert counts(history) == [4, 4, 4]
    holders = history.holders()
    assert {holders[lease][-1] for lease in strangers(history)} == {member(3)[-1]}


def test_a_member_without_a_zone_gets_its_share() -> None:
    assert counts(preferring(["a", "b", ""])) == [4, 4, 4]


def test_zones_that_differ_in_case_are_one() -> None:
    history = preferring(["A", "B"])
    assert counts(history) == [6, 6]
    zones = {id: history.state.members[id].zone.lower() for id in history.state.members}
    channels = history.state.channels
    assert all(zones[id] == channels[lease[:11]].zone for lease, id in history.holders().items())


def test_a_lost_zone_leaves_no_lease_and_gets_them_back() -> None:
    history = preferring(["a", "b", "c"], THREE_ZONES)
    history.do(RemoveMember(member(1), GoneReason.DISCONNECTED))
    settle(history)
    assert len(history.holders()) == 18 and counts(history) == [9, 9]
    history.do(JoinMember(hello(member(4), zone="a"), SPEC))
    settle(history)
    assert not strangers(history) and counts(history) == [6, 6, 6]


def test_moves_towards_zones_keep_to_the_budget() -> None:
    history = fleet([("b", "h1"), ("a", "h2")], at("logs/live/1", "east", "a", 60), at("logs/live/2", "west", "b", 60))
    history.do(SetSpreading(zones=Zones.PREFER))
    wrong = len(strangers(history))
    made = history.do(Balance(tuple(history.state.members)))
    asked = sum(len(event.leases) for event in made if isinstance(event, RevokesStarted))
    assert 0 < asked <= 61
    assert wrong > 0
    reasons = {event.reason for event in made if isinstance(event, RevokesStarted)}
    assert any(reason.startswith("its zone is preferred: cluster") for reason in reasons)


def at_rest(history: History, loads: Loads) -> int:
    """Balances until nothing moves; returns how many leases were asked back."""
    asked = 0
    for _ in range(20):
        made = history.do(Balance(tuple(history.state.members), loads))
        moved = sum(len(each.leases) for each in made if isinstance(each, RevokesStarted))
        if not moved:
            return asked
        asked += moved
        while history.settle_revokes():
            history.do(Balance(tuple(history.state.members), loads))
    raise AssertionError("the balance does not settle")


@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", ""]), min_size=1, max_size=7),
    st.lists(st.floats(0.05, 2.0), min_size=18, max_size=18),
    st.lists(st.floats(-0.03, 0.03), min_size=18, max_size=18),
)
def test_all_is_placed_balanced_and_rests(zones: list[str], costs: list[float], noise: list[float]) -> None:
    history = fleet([(zone, f"h{number}") for number, zone in enumerate(zones)], *THREE_ZONES)
    history.do(SetSpreading(zones=Zones.PREFER))
    names = [f"logs/live/{1 + at // 6}/{at % 6}" for at in range(18)]
    loads = Loads(dict(zip(names, costs, strict=True)))
    at_rest(history, loads)
    held, members = history.holders(), history.state.members
    assert len(held) == 18
    check_single_holder(history.events)
    sums = np.array([sum(loads.costs[lease] for lease, id in held.items() if id == each) for each in members])
    assert sums.max() <= max(sums.mean() * HIGH, sums.mean() + max(costs)) + 1e-9
    wave = Loads({name: cost * (1 + part) for name, cost, part in zip(names, costs, noise, strict=True)})
    moved = [at_rest(history, each) for each in (wave, loads) * 4]
    assert not any(moved[2:]), "loads that vary a little move leases to and fro"
