"""How many members a group should have: the formula, its bounds, and that no load makes the number go to and fro."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.assigner.model.lag.scaling import CapacityLimit, Scaling, SeenRates
from services.assigner.policy.desired_capacity import (
    GroupFacts,
    LaneLag,
    ScalingMemory,
    Wish,
    after_restore,
    enough_by_rate,
    fitting_members,
    needed_members,
)
from tests.support.examples import examples
from tests.unit.assigner.policy.scaled_group import HOUR, POLICY, Arrivals, ScaledGroup

LATE = LaneLag("logs/live", 10.0, 60.0, 12_000, 100.0, 80.0, 1.0)
QUIET = LaneLag("logs/live", 10.0, 1.0, 100, 100.0, 100.0, 1.0)


def facts(*lanes: LaneLag, members: int = 4, leases: int = 32, fitting: int = 4, busy: float = 2.0) -> GroupFacts:
    return GroupFacts(lanes, members, leases, fitting, busy)


# --- the formula


def test_a_backlog_asks_for_what_works_it_off_in_time() -> None:
    required = 100 + (12_000 - 100 * 10) / 120
    assert needed_members(facts(LATE)) == pytest.approx(4 * required / 80)


def test_a_lane_within_its_target_needs_the_members_there_are() -> None:
    assert needed_members(facts(QUIET)) == 4
    assert needed_members(facts(LATE._replace(seconds=9.0))) == 4


def test_lanes_count_by_what_they_cost() -> None:
    bulk = QUIET._replace(name="logs/bulk", busy_per_s=9.0)
    assert needed_members(facts(LATE, bulk)) == pytest.approx(4 * (0.1 * (100 + 11_000 / 120) / 80 + 0.9))


def test_a_lane_that_members_cannot_hasten_asks_for_none() -> None:
    for lane in (LATE._replace(done_per_s=0.0), LATE._replace(stopped=True), LATE._replace(done_per_s=-5.0)):
        assert needed_members(facts(lane)) == 4


def test_a_liar_about_its_capacity_counts_as_the_median() -> None:
    assert fitting_members([1.0, 1.0, 1.0, 1.0, 1000.0, 1000.0], 4.0) == 6
    assert fitting_members([1.0, 1.0, 1.0], 1.0) == 2
    assert fitting_members([], 5.0) == 0
    assert fitting_members([1.0, 1.0], 50.0) == 2


def test_what_was_too_little_is_not_enough_later() -> None:
    short = SeenRates(3, 300.0, 330.0, 3.0)
    assert enough_by_rate(facts(QUIET._replace(produced_per_s=330.0, done_per_s=330.0), busy=3.3), short) == 5
    assert enough_by_rate(facts(QUIET), SeenRates()) == 1
    cheaper = facts(QUIET._replace(produced_per_s=330.0, done_per_s=330.0), busy=1.1)  # a third of the time a record
    assert enough_by_rate(cheaper, short) == 2


# --- one group in time


def test_a_step_is_answered_and_then_nothing_changes() -> None:
    group = ScaledGroup(lambda at: 90.0 if at < 600 else 950.0, members=1).run(HOUR)
    assert group.desired >= 10 and group.backlog == 0
    assert group.run(8 * HOUR).desired >= 10
    assert not group.run(8 * HOUR).numbers(9 * HOUR)


def test_a_ramp_is_followed_within_bounds() -> None:
    group = ScaledGroup(lambda at: min(100.0 + at / 10, 2_000.0), members=2).run(8 * HOUR)
    numbers = group.numbers()
    assert numbers == sorted(numbers) and numbers[-1] >= 20
    assert all(after <= 2 * before for before, after in zip([2, *numbers], numbers, strict=False))


def test_a_short_spike_asks_for_nothing() -> None:
    group = ScaledGroup(lambda at: 4_000.0 if 600 <= at < 620 else 80.0, members=2, target=600.0).run(2 * HOUR)
    assert group.numbers() == []


def test_a_calm_group_gives_members_back_step_by_step() -> None:
    group = ScaledGroup(lambda at: 150.0, members=16).run(10 * HOUR)
    assert group.numbers() == [8, 4, 3]
    first, second, _ = (at for at, _, _ in group.changes)
    assert first >= HOUR and second - first >= HOUR


def test_fewer_members_that_were_too_few_are_not_tried_again() -> None:
    """Members declare twice what they bear, so the first attempt fails; what that taught is kept."""
    group = ScaledGroup(lambda at: 390.0, members=8, declared=2.0).run(24 * HOUR)
    assert group.desired >= 4
    settled = group.changes[-1][0]
    assert settled < 8 * HOUR
    assert group.run(12 * HOUR).changes[-1][0] == settled


def test_more_members_in_vain_are_told_once() -> None:
    group = ScaledGroup(lambda at: 500.0, members=2, useful=2).run(12 * HOUR)
    assert group.numbers() == [4, 4]
    desired = group.scaling.desired
    assert desired is not None and desired.limit is CapacityLimit.NO_GAIN
    assert "more members do not help" in desired.reason


def test_a_target_beyond_the_bounds_is_told_once() -> None:
    for group, said in (
        (
            ScaledGroup(lambda at: 5_000.0, replace(POLICY, max_members=6), members=4),
            "the policy allows no more than 6",
        ),
        (ScaledGroup(lambda at: 5_000.0, members=4, leases=6), "there are partitions for no more than 6"),
    ):
        group.run(6 * HOUR)
        assert group.numbers() == [6, 6]
        assert said in group.changes[-1][2]


def test_a_limit_ends_when_the_lag_kept_its_target() -> None:
    group = ScaledGroup(lambda at: 900.0 if at < HOUR else 400.0, replace(POLICY, max_members=6), members=4)
    group.run(8 * HOUR)
    desired = group.scaling.desired
    assert desired is not None and desired.limit is CapacityLimit.NONE


def test_a_small_factor_still_gives_a_member_back() -> None:
    group = ScaledGroup(lambda at: 10.0, replace(POLICY, factor=1.01), members=3).run(5 * HOUR)
    assert group.numbers() == [2, 1]


def test_a_restored_number_sends_nobody_away() -> None:
    group = ScaledGroup(lambda at: 10.0, replace(POLICY, max_members=9), members=3)
    for members, wanted in ((7, 7), (1, 3), (12, 9)):
        wish = after_restore(group.scaling, members)
        assert wish is not None and wish.members == wanted and "restored from a backup" in wish.reason
    assert after_restore(Scaling(), 5) is None


# --- what changes nothing


def test_unknown_lag_changes_nothing_and_begins_anew() -> None:
    group = ScaledGroup(lambda at: 950.0, members=2)
    for number in range(400):
        group.step(known=number % 3 == 0)
    assert not group.changes


def test_a_new_leader_waits_out_cooldown_and_window() -> None:
    group = ScaledGroup(lambda at: 150.0, members=16)
    for _ in range(40):
        group.run(HOUR / 2)
        group.new_leader()
    assert not group.changes, "no leader saw a whole window"
    late = ScaledGroup(lambda at: 950.0, members=2)
    for _ in range(40):
        late.run(40.0)
        late.new_leader()
    assert not late.changes, "no leader saw a whole cool-down"


def test_members_that_are_yet_to_come_are_waited_for() -> None:
    group = ScaledGroup(lambda at: 950.0, members=2, start_seconds=2 * HOUR).run(HOUR)
    assert group.numbers() == [4]


def test_a_group_without_members_or_targets_is_left_alone() -> None:
    memory, scaling = ScalingMemory(0.0), ScaledGroup(lambda at: 1.0).scaling
    for measured in (None, facts(), facts(LATE, members=0)):
        assert all(memory.look(scaling, measured, at * 10.0) is None for at in range(500))
    assert memory.look(Scaling(), facts(LATE), 9_000.0) is None


# --- no load makes the number go to and fro


def step_load(low: float, high: float, at: float) -> Arrivals:
    return lambda now: high if now >= at else low


def sine_load(low: float, high: float, period: float) -> Arrivals:
    return lambda now: low + (high - low) * (1 - math.cos(2 * math.pi * now / period)) / 2


def spike_load(low: float, high: float, every: float) -> Arrivals:
    return lambda now: high if now % every < 300 else low


def ramp_load(low: float, high: float, seconds: float) -> Arrivals:
    return lambda now: low + (high - low) * min(now / seconds, 1.0)


LOADS = st.builds(
    lambda kind, low, high, seconds: kind(min(low, high), max(low, high), seconds),
    st.sampled_from([step_load, sine_load, spike_load, ramp_load]),
    st.floats(10, 1_500),
    st.floats(10, 1_500),
    st.floats(1_200, 6 * HOUR),
)


def undone_and_done_again(changes: Sequence[tuple[float, int, str]], begun: int) -> list[str]:
    """Turns that are turned back and taken again within an hour: up, down and up, or the other way round."""
    runs: list[tuple[bool, float, float]] = []  # direction, first and last change of it
    for (at, after, _), before in zip(changes, [begun, *(x[1] for x in changes)], strict=False):
        if after == before:
            continue
        if runs and runs[-1][0] == (after > before):
            runs[-1] = (*runs[-1][:2], at)
        else:
            runs.append((after > before, at, at))
    return [
        f"{left:.0f} to {again:.0f}"
        for (_, _, left), (_, again, _) in zip(runs, runs[2:], strict=False)
        if again - left < HOUR
    ]


def check_no_oscillation(group: ScaledGroup) -> None:
    begun = group.desired
    group.run(12 * HOUR)
    assert undone_and_done_again(group.changes, begun) == []
    stands = group.arrivals(group.now)
    group.arrivals = lambda now: stands
    group.run(8 * HOUR)  # each halving takes a window, and a lesson or two
    settled = group.now
    assert group.run(6 * HOUR).numbers(settled) == []


@settings(max_examples=examples(10))
@given(LOADS, st.integers(1, 30), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([20.0, 90.0, 300.0]))
def test_no_load_makes_the_number_go_to_and_fro(load: Arrivals, members: int, declared: float, start: float) -> None:
    check_no_oscillation(ScaledGroup(load, members=members, declared=declared, start_seconds=start))


class Hasty(ScalingMemory):
    """A mutant without a window: fewer members as soon as fewer seem enough."""

    def look(self, scaling: Scaling, measured: GroupFacts | None, now: float) -> Wish | None:
        return super().look(replace(scaling, policy=replace(scaling.policy, window_seconds=0.0)), measured, now)


class Forgetful(ScalingMemory):
    """A mutant without a dead band: it learns nothing from members that were too few."""

    def look(self, scaling: Scaling, measured: GroupFacts | None, now: float) -> Wish | None:
        desired = scaling.desired
        forgotten = replace(desired, shortage=SeenRates()) if desired else None
        return super().look(replace(scaling, desired=forgotten), measured, now)


def test_a_number_without_a_window_is_noticed() -> None:
    with pytest.raises(AssertionError):
        check_no_oscillation(ScaledGroup(sine_load(50, 1_500, 1_800), members=4, memory=Hasty))


def test_a_number_without_a_dead_band_is_noticed() -> None:
    with pytest.raises(AssertionError):
        check_no_oscillation(ScaledGroup(lambda at: 390.0, members=8, declared=2.0, memory=Forgetful))
