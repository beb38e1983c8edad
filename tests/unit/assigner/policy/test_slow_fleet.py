"""A fleet with a slow member or a liar, played on a made-up clock: what moves, how soon, and that it comes to rest."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.ids import LeaseId
from services.assigner.codec.usages import slow_message
from services.assigner.domain.explain import explain
from services.assigner.model.group import Group
from services.assigner.policy import layout, member_work
from services.assigner.policy.by_load import Placement
from services.assigner.policy.improvement import Band, improve
from services.assigner.policy.measured_loads import Sample
from services.assigner.policy.member_work import ToldWork
from services.assigner.policy.slow_members import probing_capacities, slow_members
from tests.support.examples import examples
from tests.unit.assigner.groups import context, member
from tests.unit.assigner.policy.fleet import HANDLERS, POLICY, RECORD_SECONDS, Fleet

SLOW = 4
USUAL_COST = 5.0 * RECORD_SECONDS  # of a lease with five records a second
HOUR = 3_600.0


def steady(_: float) -> float:
    """Half of what four members bear with 64 leases."""
    return 2.5


def slowed(fleet: Fleet, times: float = 10.0) -> Fleet:
    """A fleet of which one member has become slow just now."""
    fleet.pass_(60)
    fleet.workers[member(SLOW)].slower = times
    return fleet


def test_leases_leave_a_slow_member_in_15_seconds_and_return() -> None:
    fleet = slowed(Fleet(4, 64, steady))
    assert fleet.held(SLOW) == 16
    fleet.pass_(15)
    assert 1 <= fleet.held(SLOW) <= 8
    fleet.pass_(45)
    assert 1 <= fleet.held(SLOW) <= 4
    assert fleet.lag < 2.0
    fleet.workers[member(SLOW)].slower = 1.0
    fleet.pass_(60)
    assert fleet.held(SLOW) >= 10
    assert [what for _, what in fleet.responses()] == ["taken", "undone"]


def test_what_leases_cost_under_a_slow_member_is_soon_forgotten() -> None:
    """Otherwise the recovered member looks full with its one lease, and gets the others late."""
    fleet = slowed(Fleet(4, 12, lambda _: 5.0))
    fleet.pass_(60)
    (kept,) = fleet.state.held_by(member(SLOW))
    assert fleet.loads.taken(fleet.state, fleet.now).costs[kept] > 4 * USUAL_COST
    fleet.workers[member(SLOW)].slower = 1.0
    while not fleet.state.responses.undone:
        fleet.pass_(1)
    fleet.pass_(10)
    assert fleet.loads.taken(fleet.state, fleet.now).costs[kept] == pytest.approx(USUAL_COST, rel=0.1)


@pytest.mark.parametrize("dear", [3.0, 6.0, 10.0, 15.0])
@pytest.mark.parametrize("held", [2, 3])
@pytest.mark.parametrize("each", [3, 4, 8])
def test_leases_that_are_dear_at_a_slow_member_leave_but_one(each: int, held: int, dear: float) -> None:
    """The cost of one lease there raises what the member counts for, and never so far that a second one stays."""
    fleet = slowed(Fleet(4, 16, steady))
    fleet.pass_(15)
    ids, leases = sorted(fleet.state.members), 4 * each
    for seed in range(10):
        weights = 0.05 * np.random.default_rng(seed).uniform(0.9, 1.1, leases)
        holders = np.arange(leases) % 3
        weights[:held], holders[:held] = weights[:held] * dear, 3
        lightest = np.array([weights[holders == at].min() for at in range(4)])
        capacities = probing_capacities(fleet.state, ids, lightest, np.array([1.0, 1.0, 1.0, 0.1]), weights.sum())
        placement = Placement(weights, holders, capacities)
        improve(placement, Band(), 99, keeping=slow_members(fleet.state, ids))
        assert (placement.holders == 3).sum() == 1


def test_a_slow_member_does_not_wait_for_spent_moves() -> None:
    fleet = slowed(Fleet(4, 64, steady))
    fleet.loads.moved(17, fleet.now)  # all that one minute allows for loads
    fleet.pass_(15)
    assert fleet.held(SLOW) <= 8


def test_a_lease_and_a_member_say_why_less_counts() -> None:
    fleet = slowed(Fleet(4, 64, steady))
    fleet.pass_(15)
    lease = next(iter(fleet.state.held_by(member(SLOW))))
    history = [(number, event, context()) for number, event in enumerate(fleet.history.events)]
    told = [step.text for step in explain(LeaseId.parse(lease), history, Group("indexer"))]
    assert any(
        "web-4 is counted at " in text and "% of its capacity: a record of logs/live takes" in text for text in told
    )
    slow = slow_message(fleet.state, member(SLOW))
    assert slow is not None and 0.1 <= slow.part < 0.5 and slow.reason.startswith("a record of logs/live takes")
    assert slow_message(fleet.state, member(1)) is None
    fleet.workers[member(SLOW)].slower = 1.0
    fleet.pass_(60)
    assert slow_message(fleet.state, member(SLOW)) is None


def test_without_a_policy_the_group_lags_behind_a_slow_member() -> None:
    """The control: with the policy off the same member keeps more, and its records wait."""
    on, off = slowed(Fleet(4, 64, steady)), slowed(Fleet(4, 64, steady, policy=None))
    for fleet in (on, off):
        fleet.pass_(25)
    assert off.lag > 2 * max(on.lag, 1.0)


def test_a_slow_member_keeps_a_lease_to_show_that_it_recovers() -> None:
    fleet = slowed(Fleet(4, 8, lambda _: 10.0), 100.0)
    fleet.pass_(300)
    assert fleet.held(SLOW) == 1
    assert fleet.moves(fleet.now - 200) == 0
    with (
        patch.object(layout, "probing_capacities", lambda state, members, lightest, capacities, load: capacities),
        patch.object(layout, "slow_members", lambda state, members: ()),
    ):
        fleet.pass_(120)
    assert fleet.moves(fleet.now - 120) > 2, "the control: without its share its last lease goes and comes"


LOADS: dict[str, Callable[[float], float]] = {
    "steady": steady,
    "step": lambda now: 1.0 if now < 1_300 else 3.0,
    "sine": lambda now: 2.0 + math.sin(now / 40),
    "spike": lambda now: 3.0 if 1_300 < now < 1_330 else 1.5,
}


@pytest.mark.parametrize("load", LOADS)
def test_nothing_oscillates_whatever_the_load_does(load: str) -> None:
    fleet = slowed(Fleet(4, 32, LOADS[load]), 5.0)
    fleet.pass_(600)
    taken = [what for _, what in fleet.responses()]
    assert taken == ["taken"], "a member that stays slow is told once"
    if load == "steady":
        assert fleet.moves(fleet.now - 300) == 0, "it has come to rest"


def test_a_member_slow_on_and_off_is_left_once_an_hour() -> None:
    fleet = Fleet(4, 32, steady)
    fleet.pass_(60)
    for _ in range(12):
        fleet.workers[member(SLOW)].slower = 10.0
        fleet.pass_(60)
        fleet.workers[member(SLOW)].slower = 1.0
        fleet.pass_(60)
    times = [at for at, what in fleet.responses() if what == "taken"]
    assert all(after - before >= HOUR for before, after in pairwise(times))


def test_a_group_in_which_most_became_slow_stays_as_it_is() -> None:
    fleet = Fleet(4, 32, steady, policy=replace(POLICY, budget=4))
    fleet.pass_(60)
    for number in (2, 3, 4):
        fleet.workers[member(number)].slower = 10.0
    fleet.pass_(60)
    assert len(fleet.state.responses.taken) <= 1


MEMBERS, LEASES = 24, 48
EVEN = LEASES // MEMBERS


@settings(max_examples=examples(3))
@given(cores=st.floats(0, 1e9), handlers=st.integers(1, 10**9), part=st.floats(0, 2))
def test_a_liar_draws_a_bounded_part_of_the_leases(cores: float, handlers: int, part: float) -> None:
    assert lied_to(cores, handlers, part) <= 9 * EVEN


def lied_to(cores: float, handlers: int, part: float, members: int = MEMBERS, leases: int = LEASES) -> int:
    """Returns how many leases a member draws that says it may use so much, and used only a part of what it did."""

    def tells(sample: Sample) -> Sample:
        micros = round(sample.busy_micros * part)
        return Sample(sample.lease, sample.records, 0, micros, micros // 2)

    fleet = Fleet(members, leases, lambda _: 15.0 * LEASES / MEMBERS * members / leases, policy=None)
    for worker in fleet.workers.values():
        worker.work = ToldWork(1.0, HANDLERS)
        worker.tells = lambda sample: sample._replace(cpu_micros=sample.busy_micros // 2)
    liar = fleet.workers[member(1)]
    liar.work, liar.tells = ToldWork(cores, handlers), tells
    fleet.pass_(240)
    return fleet.held(1)


def test_a_liar_that_is_believed_draws_more() -> None:
    """The control: without the bound on what members say, the same lie draws many leases."""
    assert lied_to(1e6, 10**6, 0.0) <= 2 * EVEN
    with patch.object(member_work, "bounded", lambda said, used=None: np.asarray(said)):
        assert lied_to(1e6, 10**6, 0.0) > 4 * EVEN


def test_a_member_that_hides_its_work_draws_few_leases() -> None:
    """The control beside it: without the least weight of a lease it draws half as many again."""
    hidden = lied_to(1.0, HANDLERS, 0.0, members=12)
    with patch.object(layout, "LOAD_PART_MIN", 0.0):
        assert lied_to(1.0, HANDLERS, 0.0, members=12) > 1.3 * hidden
