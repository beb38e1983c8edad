"""Members count by their processors and handlers, and leases cost what they take of the scarcer of the two."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.assigner.placement import CAPACITY_SAID_FACTOR
from services.assigner.policy.member_work import MemberWork, SpentMicros, ToldWork

SECOND = 1_000_000


def told(members: dict[str, tuple[float, int]], cpu: int = 0, busy: int = 0, seconds: int = 60) -> MemberWork:
    """Members that tell their cores and handlers each second, with the CPU and busy microseconds of one."""
    work = MemberWork()
    for now in range(seconds):
        for member, (cores, handlers) in members.items():
            work.heard(member, ToldWork(cores, handlers, cpu), SpentMicros(busy, cpu), 1.0, float(now))
    work.look(members)
    return work


def test_a_lease_costs_what_it_takes_of_the_scarcer_resource() -> None:
    work = told({"a": (1.0, 50), "b": (1.0, 50)})
    assert work.cost_micros(SpentMicros(10 * SECOND, SECOND // 100)) == 10 * SECOND / 50, "it waits"
    assert work.cost_micros(SpentMicros(SECOND, SECOND)) == SECOND, "it computes"
    assert work.cost_micros(SpentMicros(SECOND, 9 * SECOND)) == SECOND, "CPU time is part of busy time"


def test_members_count_by_cores_or_handlers_as_the_load_binds() -> None:
    unlike = {"a": (1.0, 10), "b": (2.0, 10), "c": (1.0, 30)}
    computing = told(unlike, cpu=SECOND, busy=SECOND).capacities
    assert computing["b"] / computing["a"] == pytest.approx(2.0, rel=0.1), "cores bind"
    waiting = told(unlike, cpu=0, busy=15 * SECOND).capacities
    assert waiting["c"] / waiting["a"] == pytest.approx(3.0, rel=0.01), "handlers bind"
    assert sum(waiting.values()) == pytest.approx(3.0), "handlers are counted in processors"


def test_a_large_member_counts_as_it_shows_what_it_says() -> None:
    sizes = {"a": (1.0, 10), "b": (1.0, 10), "large": (16.0, 10)}
    idle = told(sizes, cpu=0, busy=0)
    assert idle.capacities["large"] == pytest.approx(idle.capacities["a"]), "it has shown nothing yet"
    used = told(sizes, cpu=SECOND, busy=SECOND)
    assert used.capacities["large"] == pytest.approx(2 * used.capacities["a"], rel=0.1)
    most = told(sizes, cpu=9 * SECOND, busy=9 * SECOND)
    assert 3 < most.capacities["large"] / most.capacities["a"] <= 4, "four times the median at most"


def test_a_group_is_placed_by_busy_time_until_all_tell_both() -> None:
    work = told({"a": (1.0, 50), "b": (1.0, 50)})
    work.look(["a", "b", "c"])
    assert not work.capacities
    assert work.cost_micros(SpentMicros(SECOND, 1)) == SECOND
    work.look(["a"])
    assert list(work.capacities) == ["a"], "b is gone"
    work.heard("a", None, SpentMicros(0, 0), 1.0, 1.0)
    work.look(["a"])
    assert not work.capacities, "a tells nothing any more"


def test_what_a_member_waits_for_is_its_busy_time_without_cpu() -> None:
    usage = told({"a": (1.0, 50)}, cpu=SECOND // 4, busy=3 * SECOND).usages["a"]
    assert (round(usage.cpu_per_s, 2), round(usage.wait_per_s, 2)) == (0.25, 2.75)


NUMBERS = st.floats() | st.integers(-(2**63), 2**63 - 1).map(float)


@given(cores=NUMBERS, handlers=st.integers(-(2**31), 2**31 - 1), micros=st.integers(-(2**63), 2**63 - 1))
def test_a_liar_counts_for_four_times_the_median_at_most(cores: float, handlers: int, micros: int) -> None:
    work = told({"a": (1.0, 8), "b": (1.0, 8), "c": (1.0, 8)}, cpu=1000, busy=8000, seconds=3)
    for now in (4.0, 5.0):
        work.heard("liar", ToldWork(cores, handlers, micros, micros), SpentMicros(micros, micros, micros), 1.0, now)
    members = ["a", "b", "c", *(["liar"] if handlers >= 1 else [])]
    work.look(members)
    assert all(math.isfinite(each) and each > 0 for each in work.capacities.values())
    honest = work.capacities["a"]
    assert work.capacities.get("liar", 0.0) <= CAPACITY_SAID_FACTOR * honest * (1 + 1e-9)
    for usage in work.usages.values():
        assert all(math.isfinite(each) and each >= 0 for each in usage)
