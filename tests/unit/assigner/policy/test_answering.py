"""Responses to lag: no load makes them go to and fro, and each wait that prevents it is needed."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.limits.assigner.responses import RESPONSE_AGAIN_SECONDS, RESPONSE_GAIN_SECONDS
from services.assigner.domain import responses
from services.assigner.model.lag.response_events import TakeResponse
from services.assigner.model.lag.responses import ResponseKind, ResponseMode, ResponsePolicy, ResponseState
from services.assigner.policy.responses import answering, facts, shift_shares
from services.assigner.policy.responses.kinds import KINDS
from tests.support.examples import examples
from tests.unit.assigner.policy.answering_group import HOUR, RAISE, SHIFT, AnsweringGroup, Arrivals, returned

LIVE = 30.0  # records a second: more than the 4 handlers of its own do, and less than what is lent to it
CALM = 10.0


def steady(rate: float) -> Arrivals:
    return lambda now: rate


def step(height: float) -> Arrivals:
    return lambda now: height if now > 100 else CALM


def ramp(height: float) -> Arrivals:
    return lambda now: min(CALM + now * height / HOUR, height)


def sine(height: float, period: float = 600.0) -> Arrivals:
    return lambda now: CALM + height * (1 + math.sin(2 * math.pi * now / period)) / 2


def spikes(height: float, period: float = 300.0) -> Arrivals:
    return lambda now: height if now % period < 20 else CALM


SHAPES: dict[str, Callable[[float], Arrivals]] = {"step": step, "ramp": ramp, "sine": sine, "spikes": spikes}


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(2))
@given(height=st.floats(20.0, 200.0))
def test_no_load_undoes_a_response_and_does_it_again(shape: str, height: float) -> None:
    group = AnsweringGroup(steady(LIVE), SHAPES[shape](height)).run(0.8 * HOUR)
    group.bulk = steady(group.bulk(group.now))  # it stands still from now on
    group.run(0.8 * HOUR)
    assert not returned(group.changes, RESPONSE_AGAIN_SECONDS)
    apart = [after.at - before.at for before, after in zip(group.changes, group.changes[1:], strict=False)]
    assert all(seconds >= SHIFT.cooldown_seconds for seconds in apart)
    settled_at = max(0.8 * HOUR, group.drained_at) + RESPONSE_GAIN_SECONDS + 4 * SHIFT.undo_after_seconds
    assert not [each for each in group.changes if each.at > settled_at]


def test_a_flood_is_answered_in_time_and_undone_after() -> None:
    def flood(now: float) -> float:
        return 100.0 if 100 < now <= 120 else CALM

    answered, left = (
        AnsweringGroup(steady(LIVE), flood, (SHIFT,), answers=answers).run(300) for answers in (True, False)
    )
    assert answered.late[-1] - answered.late[0] <= 15
    assert left.late[-1] - left.late[0] > 2 * (answered.late[-1] - answered.late[0])
    taken, undone = answered.changes
    assert taken.taken and not undone.taken
    assert undone.at <= 120 + 60


@pytest.mark.parametrize("flood", [50.5, 52.0, 58.0, 60.0, 62.0])
def test_a_flood_that_fits_its_share_is_answered(flood: float) -> None:
    """Lane bulk has no lag, or hardly any: its handlers keep up, and lend nothing to lane live."""
    group = AnsweringGroup(steady(LIVE), step(flood), (SHIFT,)).run(HOUR)
    assert [each.taken for each in group.changes] == [True]
    assert group.late[-1] - group.late[0] <= 15
    group.bulk = steady(CALM)
    group.run(0.5 * HOUR)
    assert [each.taken for each in group.changes] == [True, False]


def test_handlers_that_members_do_not_tell_are_not_counted() -> None:
    """An older member's busy handlers are among all that are busy, and its idle ones are unknown."""
    lanes = [
        facts.LaneFacts("logs", "live", 9.0, 90, 5.0, busy_per_s=4.0),
        facts.LaneFacts("logs", "bulk", 0.5, 9, busy_per_s=12.0),
    ]
    told = facts.ResponseFacts(lanes, own={"live": 1, "bulk": 3}, dividable=2, handlers=16, busy_per_s=16.0)
    policies = AnsweringGroup(steady(LIVE), steady(CALM), (SHIFT,)).responses
    assert [each.lane for each in shift_shares.ShiftShares().needs(told, policies)] == ["live"]
    older = replace(told, members={name: facts.MemberFacts(name) for name in ("a", "b", "old")})
    assert not shift_shares.ShiftShares().needs(older, policies)


def test_a_flood_that_leaves_enough_is_not_answered() -> None:
    group = AnsweringGroup(steady(LIVE), step(48.0), (SHIFT,)).run(HOUR)
    assert not group.changes


def test_a_flood_that_stays_is_answered_once() -> None:
    group = AnsweringGroup(steady(LIVE), step(400.0), (SHIFT,)).run(HOUR)
    assert [each.taken for each in group.changes] == [True]
    assert group.late[-1] < 200


def test_a_need_that_returns_within_the_hour_is_kept_then() -> None:
    group = AnsweringGroup(steady(LIVE), spikes(200.0, 900.0), (SHIFT,)).run(2.5 * HOUR)
    assert [each.taken for each in group.changes] == [True, False, True]
    assert not returned(group.changes, RESPONSE_AGAIN_SECONDS)


def test_a_target_that_nothing_reaches_is_told_once() -> None:
    group = AnsweringGroup(steady(500.0), steady(400.0)).run(HOUR)
    assert {each.state for each in group.responses.taken.values()} == {ResponseState.EXHAUSTED}
    assert [each.taken for each in group.changes] == [True] * 4, "each is taken, then told to be exhausted"


def test_no_answer_from_lagmon_changes_nothing() -> None:
    group = AnsweringGroup(steady(LIVE), step(400.0)).run(102)
    for _ in range(600):
        group.step(known=False)
    assert not group.changes
    group.run(2)
    assert not group.changes, "looks in a row count, and those of before are forgotten"
    assert group.run(20).changes


def test_a_new_leader_goes_on_and_changes_nothing_by_itself() -> None:
    group = AnsweringGroup(steady(LIVE), step(100.0), (SHIFT,)).run(300)
    before = list(group.changes)
    for _ in range(5):
        group.new_leader()
        group.run(60)
    assert group.changes == before
    group.bulk = steady(CALM)
    group.run(0.5 * HOUR)
    assert [each.taken for each in group.changes] == [True, False]
    group.new_leader()
    group.bulk = steady(100.0)
    group.run(0.5 * HOUR)
    assert len(group.changes) == 2, "it knows what was undone, and counts the hour anew"


def test_a_policy_that_proposes_changes_no_share() -> None:
    proposed = replace(SHIFT, mode=ResponseMode.PROPOSE)
    group = AnsweringGroup(steady(LIVE), step(100.0), (proposed,)).run(200)
    assert [each.state for each in group.responses.taken.values()] == [ResponseState.PROPOSED]
    assert not group.responses.division({"live": 1, "bulk": 3}).shares
    group.bulk = steady(CALM)
    assert not group.run(0.3 * HOUR).responses.taken, "nothing is to be proposed any more"


def test_a_paused_leader_counts_no_time_that_it_did_not_see() -> None:
    memory = answering.ResponseMemory(KINDS, 0.0)
    group = AnsweringGroup(steady(LIVE), steady(400.0), (SHIFT,)).run(1)
    late = facts.ResponseFacts(
        [facts.LaneFacts("logs", "live", 9.0, 90, 5.0), facts.LaneFacts("logs", "bulk", 90.0, 900)],
        own={"live": 1, "bulk": 3},
        dividable=1,
    )
    assert memory.look(group.responses, late, 20.0) is None
    assert memory.look(group.responses, late, 80.0) is None
    assert memory.look(group.responses, late, 81.0) is None
    assert memory.look(group.responses, late, 84.0) is not None


# --- mutants: each rule is needed


def test_without_a_dead_band_a_standing_flood_goes_to_and_fro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_shares, "pressing_lanes", _pressing_only_while_late)
    monkeypatch.setattr(shift_shares, "needs_more", lambda facts, lane: False)
    group = AnsweringGroup(steady(LIVE), step(400.0), (SHIFT,)).run(HOUR)
    assert [each.taken for each in group.changes] != [True]


def _pressing_only_while_late(given: facts.ResponseFacts, lane: str) -> list[facts.LaneFacts]:
    return [each for each in given.lanes if each.lane != lane] if any(given.late()) else []


def test_without_busy_handlers_a_flood_that_fits_is_not_seen() -> None:
    group = AnsweringGroup(steady(LIVE), step(58.0), (SHIFT,), tells_busy=False).run(600)
    assert not group.changes
    assert group.lanes["live"].seconds(group.now) > 100


def test_without_its_own_handlers_a_full_group_is_undone_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def played() -> list[bool]:
        group = AnsweringGroup(steady(LIVE), step(52.0), (SHIFT,), bulk_target=300.0).run(0.1 * HOUR)
        return [each.taken for each in group.changes]

    assert played() == [True]
    monkeypatch.setattr(shift_shares, "needs_more", lambda facts, lane: False)
    assert played() == [True, False]


def test_without_a_cool_down_two_things_change_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "RESPONSE_COOLDOWN_MIN", 0.0)
    policies = tuple(replace(each, cooldown_seconds=0.0) for each in (SHIFT, RAISE))
    group = AnsweringGroup(steady(200.0), steady(400.0), policies).run(100)
    first, second = group.changes[:2]
    assert second.at - first.at < SHIFT.cooldown_seconds


def test_without_the_hour_spikes_undo_and_do_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "RESPONSE_AGAIN_SECONDS", 0.0)
    group = AnsweringGroup(steady(LIVE), spikes(200.0), (SHIFT,)).run(HOUR)
    assert returned(group.changes, RESPONSE_AGAIN_SECONDS)


# --- budgets


def test_a_budget_bounds_the_responses_in_force() -> None:
    policy = ResponsePolicy(ResponseKind.SPLIT_BACKLOG, mode=ResponseMode.PROPOSE, budget=2, reach=0.2)
    group = AnsweringGroup(steady(0.0), steady(0.0), (policy,))
    memory = answering.ResponseMemory(KINDS, 0.0)
    leases = [facts.LeaseFacts(f"logs/live/1/{number}", "live", 90.0, 5_000) for number in range(5)]
    late = facts.ResponseFacts([facts.LaneFacts("logs", "live", 90.0, 25_000, 5.0)], leases)
    for second in range(200):
        change = memory.look(group.responses, late, float(second))
        if isinstance(change, answering.Take):
            group.do(TakeResponse(*change, group.responses))
    assert len(group.responses.taken) == 2
