"""Slow members: how they are told from the others, what they count for, and where their leases go."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.limits.assigner.placement import SLOW_RATIO, SLOW_RECOVERED_RATIO
from services.assigner.model.lag.responses import (
    Response,
    ResponseKey,
    ResponseKind,
    ResponseMode,
    ResponsePolicy,
    Responses,
    ResponseState,
)
from services.assigner.policy.by_load import Placement
from services.assigner.policy.improvement import Band, improve
from services.assigner.policy.responses.facts import MemberFacts, ResponseFacts
from services.assigner.policy.responses.leave_slow import LeaveSlowMembers
from services.assigner.policy.slowness import MemberTimes, Slowness, slowness
from services.assigner.policy.work_times import Spent, WorkTimes

KIND = ResponseKind.LEAVE_SLOW_MEMBERS
POLICY = ResponsePolicy(KIND, mode=ResponseMode.AUTOMATIC, budget=9, reach=0.1)


def compared(seconds: Mapping[str, float], hosts: Mapping[str, str] | None = None) -> Mapping[str, Slowness]:
    """Members by name, each with the seconds that a record takes at it."""
    names = list(seconds)
    on = [(hosts or {}).get(name, name) for name in names]
    lanes = np.zeros(len(names), np.int64)
    times = MemberTimes(lanes, np.arange(len(names)), np.array(list(seconds.values())), np.ones(len(names)))
    found = slowness(times, np.unique(on, return_inverse=True)[1])
    return {names[number]: each for number, each in found.items()}


def test_a_member_is_compared_with_the_median_of_the_others() -> None:
    found = compared({"a": 0.02, "b": 0.02, "c": 0.04, "slow": 0.2})
    assert found["slow"].ratio == pytest.approx(10)
    assert (found["slow"].seconds, found["slow"].usual_seconds) == (0.2, 0.02)
    assert found["c"].ratio == pytest.approx(2)
    assert found["a"].ratio < SLOW_RECOVERED_RATIO


def test_of_two_members_neither_is_judged_slow() -> None:
    assert not compared({"a": 0.02, "b": 0.2})


def test_members_of_a_slow_host_are_judged_together() -> None:
    hosts = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c", "d1": "d"}
    times = {"a1": 0.2, "a2": 0.2, "a3": 0.02, "b1": 0.02, "c1": 0.02, "d1": 0.02}
    found = compared(times, hosts)
    assert [found[name].ratio for name in ("a1", "a2", "a3")] == [pytest.approx(10)] * 3
    assert found["b1"].ratio == pytest.approx(1), "a host has one vote, however many members it has"
    alone = compared(times)
    assert alone["a3"].ratio == pytest.approx(1)


@given(liar=st.floats(1e-6, 1e6), honest=st.integers(2, 6))
def test_one_liar_makes_nobody_slow_but_itself(liar: float, honest: int) -> None:
    members = {f"m{number}": 0.02 for number in range(honest)} | {"liar": liar}
    found = compared(members)
    assert all(each.ratio < SLOW_RATIO for name, each in found.items() if name != "liar")


def facts(**ratios: float) -> ResponseFacts:
    members = {name: MemberFacts(name, ratio, ratio * 0.02, 0.02, "logs/live", 1.0) for name, ratio in ratios.items()}
    return ResponseFacts((), members=members)


def responses(*slow: str) -> Responses:
    taken = {
        ResponseKey(KIND, "", name): Response(KIND, "", name, ResponseState.APPLIED, (), (("capacity", 0.1),), "", 0)
        for name in slow
    }
    return Responses((POLICY,), taken)


def test_a_slow_member_counts_with_its_part_of_the_speed() -> None:
    [need] = LeaveSlowMembers().needs(facts(a=1, b=1, c=1, d=5), responses())
    assert (need.subject, need.after) == ("d", (("capacity", 0.2),))
    assert need.reason == "a record of logs/live takes 100 ms at d, 20 ms at the others"
    [need] = LeaveSlowMembers().needs(facts(a=1, b=1, c=1, d=500), responses())
    assert need.after == (("capacity", 0.1),), "never less than the policy says"


def test_fewer_than_half_of_the_members_count_as_slow() -> None:
    kind, seen = LeaveSlowMembers(), facts(a=1, b=1, c=9, d=9, e=9)
    assert len(kind.needs(seen, responses())) == 2
    assert len(kind.needs(seen, responses("c"))) == 1
    assert not kind.needs(seen, responses("c", "d"))


def test_a_member_that_works_little_is_left_alone() -> None:
    seen = facts(a=1, b=1, c=1, d=9)
    idle = {name: each._replace(part=0.5) for name, each in seen.members.items()}
    assert not LeaveSlowMembers().needs(ResponseFacts((), members=idle), responses())


def test_a_slow_member_is_slow_until_it_shows_otherwise() -> None:
    kind, [response] = LeaveSlowMembers(), responses("d").taken.values()
    for ratio, healed in ((9.0, False), (2.0, False), (1.2, True), (0.0, False)):
        assert (kind.healed(facts(a=1, b=1, c=1, d=ratio), response) is not None) is healed
    gone, few = kind.healed(facts(a=1, b=1, c=1), response), kind.healed(facts(a=1, d=9), response)
    assert gone and gone.at_once and few and few.at_once


def beats(times: WorkTimes, members: Mapping[str, float], seconds: float, now: float, handlers: int = 4) -> float:
    """Members handle records that take so long each, with a heartbeat every half second; returns the time after."""
    for _ in range(round(seconds / 0.5)):
        now += 0.5
        for member, each in members.items():
            done = int(now * handlers / each) - int((now - 0.5) * handlers / each)
            spent = 0.5 * handlers / 2
            told = [Spent(f"logs/live/1/{member}{lease}", "logs/live", done // 2, spent) for lease in (1, 2)]
            times.heard(member, told, now)
    return now


HOSTS = {name: name for name in ("a", "b", "c", "d")}


def test_a_member_that_slows_down_shows_in_five_seconds() -> None:
    times, usual = WorkTimes(), dict.fromkeys(HOSTS, 0.02)
    now = beats(times, usual, 30, 0.0)
    assert times.slowness(HOSTS, now)["d"][0].ratio == pytest.approx(1, rel=0.1)
    now = beats(times, usual | {"d": 0.2}, 5, now)
    found, lane = times.slowness(HOSTS, now)["d"]
    assert found.ratio > SLOW_RATIO and lane == "logs/live"
    now = beats(times, usual | {"d": 0.2}, 30, now)
    now = beats(times, usual, 6, now)
    assert times.slowness(HOSTS, now)["d"][0].ratio < SLOW_RECOVERED_RATIO


def test_a_handler_that_does_not_end_counts_while_it_runs() -> None:
    times = WorkTimes()
    now = beats(times, dict.fromkeys("abc", 0.02), 10, 0.0)
    for step in range(10):
        times.heard("d", [Spent("logs/live/1/d", "logs/live", 0, 0.5)], now - 5 + step / 2)
    assert times.slowness(HOSTS, now)["d"][0].ratio > SLOW_RATIO


def test_one_dear_partition_makes_no_slow_member() -> None:
    times = WorkTimes()
    now = beats(times, dict.fromkeys("abc", 0.02), 10, 0.0)
    for step in range(10):
        dear = Spent("logs/live/1/dear", "logs/live", 1, 3.0)
        usual = [Spent(f"logs/live/1/d{lease}", "logs/live", 10, 0.2) for lease in (1, 2)]
        times.heard("d", [dear, *usual], now - 5 + step / 2)
    assert times.slowness(HOSTS, now)["d"][0].ratio == pytest.approx(1, rel=0.1)
    now = beats(times, dict.fromkeys("abc", 0.02), 20, now)
    for step in range(40):
        times.heard("d", [Spent("logs/live/1/dear", "logs/live", 1, 3.0)], now - 20 + step / 2)
    assert times.slowness(HOSTS, now)["d"][0].ratio > SLOW_RATIO, "a lease alone says all there is"


def test_a_silent_or_gone_member_is_no_comparison() -> None:
    times = WorkTimes()
    now = beats(times, dict.fromkeys(HOSTS, 0.02), 10, 0.0)
    later = beats(times, dict.fromkeys("abc", 0.02), 10, now)
    assert set(times.slowness(HOSTS, later)) == {"a", "b", "c"}
    times.keep("ab")
    assert not times.slowness(HOSTS, later), "of two nobody is slow"


@settings(deadline=None)
@given(rates=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4))
def test_whatever_members_tell_the_comparison_holds(rates: list[int]) -> None:
    times = WorkTimes()
    for now in range(4):
        for member, rate in zip(HOSTS, rates, strict=True):
            seconds = min(max(rate, 0) / 1e6, 1e4)
            times.heard(member, [Spent(f"logs/live/1/{member}", "logs/live", rate, seconds)], float(now))
    for found, _ in times.slowness(HOSTS, 3.0).values():
        assert found.ratio >= 0 and found.seconds >= 0


@given(
    seed=st.integers(0, 2**32 - 1),
    members=st.integers(3, 6),
    each=st.integers(1, 4),
    dear=st.floats(1.0, 10.0),
)
def test_loads_never_take_a_slow_members_last_lease(seed: int, members: int, each: int, dear: float) -> None:
    before = with_one_lease(seed, members, each, dear)
    improve(before, Band(), 99, keeping={members - 1})
    assert (before.holders == members - 1).any()


def test_loads_that_may_take_a_last_lease_do() -> None:
    """The control: where the others are uneven, a lease of a slow member is what evens them out best."""
    taken = 0
    for seed in range(400):
        placement = with_one_lease(seed, 3, 1 + seed % 4, 1.0 + seed % 9)
        improve(placement, Band(), 99)
        taken += not (placement.holders == 2).any()
    assert taken


def with_one_lease(seed: int, members: int, each: int, dear: float) -> Placement:
    """An uneven placement, in which the last member is slow, and holds one lease that costs more there."""
    random = np.random.default_rng(seed)
    leases = members * each
    weights, holders = random.uniform(0.05, 0.5, leases), random.integers(0, members - 1, leases)
    weights[0], holders[0] = weights[0] * dear, members - 1
    capacities = np.ones(members)
    capacities[-1] = random.uniform(0.1, 1.0)  # as beside a second slow member, or under a large reach
    return Placement(weights, holders, capacities)
