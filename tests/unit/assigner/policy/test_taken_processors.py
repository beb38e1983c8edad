"""Processors that other processes take from a member: what it counts for then, and which of its leases leave."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.assigner.placement import PROCESSOR_PART_MIN
from services.assigner.policy import member_work
from services.assigner.policy.member_work import MemberWork, SpentMicros, ToldWork
from tests.unit.assigner.groups import member
from tests.unit.assigner.policy.fleet import HANDLERS, Fleet

SECOND = 1_000_000
HANDLERS_ON_LOOP = 64


def computing(cpu: float, taken: float, at_once: int = 1) -> tuple[ToldWork, SpentMicros]:
    """One second of a member that computes on one core: `at_once` handlers are under way whenever any is."""
    delay = cpu * taken / (1 - taken)
    lost = (cpu + delay) * at_once * taken  # the thread is delayed in others' steps, too
    told = ToldWork(1.0, HANDLERS_ON_LOOP, round(cpu * SECOND), round(delay * SECOND))
    return told, SpentMicros(round((cpu + delay) * at_once * SECOND), round(cpu * SECOND), round(lost * SECOND))


def waiting(busy: float, taken: float) -> tuple[ToldWork, SpentMicros]:
    """One second of a member whose handlers wait for something else, and need a core for a thousandth of the time."""
    cpu = busy / 1000
    delay = cpu * taken / (1 - taken)
    told = ToldWork(1.0, HANDLERS_ON_LOOP, round(cpu * SECOND), round(delay * SECOND))
    return told, SpentMicros(round(busy * SECOND), round(cpu * SECOND), round(delay * SECOND))


def heard(*members: tuple[ToldWork, SpentMicros], seconds: int = 60) -> MemberWork:
    """Members a, b and so on, that tell the same each second."""
    work = MemberWork()
    for now in range(seconds):
        for name, (told, spent) in zip("abcdefgh", members, strict=False):
            work.heard(name, told, spent, 1.0, float(now))
    work.look("abcdefgh"[: len(members)])
    return work


@given(
    taken=st.floats(0.0, 0.9),
    cpu=st.floats(0.1, 1.0),
    at_once=st.integers(1, HANDLERS_ON_LOOP),
)
def test_a_member_counts_with_the_part_of_its_core_that_it_gets(taken: float, cpu: float, at_once: int) -> None:
    """Load and capacity together say how full the member's part of the core is, however many handlers share it."""
    alone, beside = computing(cpu, 0.0, at_once), computing(cpu, taken, at_once)
    work = heard(alone, alone, beside)
    part = work.capacities["c"] / work.capacities["a"]
    assert part == pytest.approx(1 - taken, abs=0.1)
    assert work.cost_micros(beside[1]) == pytest.approx(work.cost_micros(alone[1]), rel=0.02), "the work is the same"


@given(taken=st.floats(0.0, 0.9), busy=st.floats(1.0, HANDLERS_ON_LOOP))
def test_handlers_that_wait_lose_nothing_to_a_neighbour(taken: float, busy: float) -> None:
    work = heard(waiting(busy, 0.0), waiting(busy, 0.0), waiting(busy, taken))
    assert work.capacities["c"] == pytest.approx(work.capacities["a"], rel=0.1)


@given(told=st.integers(-(2**63), 2**63 - 1), lost=st.integers(-(2**63), 2**63 - 1))
def test_what_a_member_says_of_its_neighbours_is_bounded(told: int, lost: int) -> None:
    honest = computing(0.5, 0.0)
    work = heard(honest, honest, (honest[0]._replace(delay_micros=told), honest[1]._replace(lost=lost)), seconds=5)
    part = work.capacities["c"] / work.capacities["a"]
    assert PROCESSOR_PART_MIN * 0.99 <= part <= 1
    assert 0 <= work.cost_micros(SpentMicros(SECOND, 0, lost)) <= SECOND


def test_the_part_falls_at_once_and_rises_slowly() -> None:
    work, alone, beside = MemberWork(), computing(0.3, 0.0), computing(0.3, 0.6)
    parts = []
    for now in range(200):
        told, spent = beside if 60 <= now < 90 else alone
        work.heard("a", told, spent, 1.0, float(now))
        parts.append(work.usages["a"].core_part)
    assert parts[59] == 1.0
    assert parts[66] < 0.7, "within seconds"
    assert parts[105] < 0.7, "a pause of the neighbour says little"
    assert parts[199] > 0.85, "it has gone"


def test_a_member_that_does_nothing_counts_whole_again() -> None:
    work, idle = MemberWork(), (ToldWork(1.0, HANDLERS_ON_LOOP), SpentMicros(0, 0))
    for now in range(400):
        told, spent = computing(0.3, 0.6) if now < 30 else idle
        work.heard("a", told, spent, 1.0, float(now))
    assert work.usages["a"].core_part > 0.9


def taken(part: float) -> Fleet:
    """Four members of one core each, half full, of which one has lost a part of its core for a minute."""
    fleet = Fleet(4, 64, lambda _: 2.5, policy=None)
    for worker in fleet.workers.values():
        worker.work = ToldWork(1.0, HANDLERS)
        worker.tells = lambda sample: sample if sample.cpu_micros else sample._replace(cpu_micros=sample.busy_micros)
    fleet.pass_(60)
    assert fleet.held(4) == 16
    fleet.workers[member(4)].taken = part
    fleet.pass_(60)
    return fleet


def test_leases_leave_a_member_whose_core_others_take() -> None:
    fleet = taken(0.8)
    assert 1 <= fleet.held(4) <= 8
    fleet.pass_(120)
    assert 1 <= fleet.held(4) <= 6, "a fifth of a core beside three whole ones: 4 of 64"
    assert fleet.lag < 2.0
    fleet.workers[member(4)].taken = 0.0
    fleet.pass_(300)
    assert fleet.held(4) >= 12, "the neighbour has gone"


def test_without_what_others_take_all_leases_stay() -> None:
    """The control: CPU time alone says that nothing has changed."""
    with patch.object(member_work, "_part", lambda got, not_got: 1.0):
        assert taken(0.8).held(4) == 16


def test_placement_comes_to_rest_beside_a_neighbour() -> None:
    fleet = taken(0.6)
    fleet.pass_(240)
    before = fleet.now
    fleet.pass_(600)
    assert fleet.moves(before) == 0
