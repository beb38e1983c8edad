"""A day of load: shares, handlers and members answer it together, and nothing goes to and fro.

Loads move for two hours, as a step, a ramp, a wave or spikes, and then stand still for four.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pytest

from braid.kernel.limits.assigner.responses import RESPONSE_AGAIN_SECONDS
from services.assigner.model.lag.responses import ResponseKind
from services.assigner.policy.responses import answering, facts, shift_shares
from tests.unit.assigner.policy.answering_day import SCALING, AnsweringDay
from tests.unit.assigner.policy.answering_group import HOUR, Arrivals, returned

LIVE: Final = 30.0  # records a second: two members do 80
BULK: Final = 20.0
STANDING_MOST: Final = 150.0  # so much stands still at most
MOVING_SECONDS: Final = 2 * HOUR
STANDING_SECONDS: Final = 4 * HOUR
SETTLED_SECONDS: Final = RESPONSE_AGAIN_SECONDS + SCALING.window_seconds + 120.0  # the longest waits, one by one


class Stood(NamedTuple):
    """A load that stood still: when nothing may change any more, and when it ended."""

    settled_at: float
    ended_at: float


def steady(rate: float) -> Arrivals:
    return lambda now: rate


def step(day: AnsweringDay) -> Arrivals:
    return steady(250.0)


def ramp(day: AnsweringDay) -> Arrivals:
    begun = day.now
    return lambda now: LIVE + (now - begun) / MOVING_SECONDS * 220.0


def sine(day: AnsweringDay) -> Arrivals:
    return lambda now: 10.0 + 120.0 * (1 + math.sin(2 * math.pi * now / 600.0))


def spikes(day: AnsweringDay) -> Arrivals:
    return lambda now: 200.0 if now % 300.0 < 20 else 10.0


LOADS: Final[dict[Callable[[AnsweringDay], Arrivals], str]] = {spikes: "bulk", step: "bulk", ramp: "live", sine: "live"}


def pass_load(
    day: AnsweringDay, load: Callable[[AnsweringDay], Arrivals], moving_seconds: float = MOVING_SECONDS
) -> Stood:
    """Lets a load move, and then stand still."""
    day.live, day.bulk = steady(LIVE), steady(BULK)
    arrivals = load(day)
    setattr(day, LOADS[load], arrivals)
    day.run(moving_seconds)
    stood_at = day.now
    setattr(day, LOADS[load], steady(min(arrivals(stood_at), STANDING_MOST)))
    day.run(STANDING_SECONDS * moving_seconds / MOVING_SECONDS)
    drains = day.drained_at < day.now - SETTLED_SECONDS
    return Stood((max(day.drained_at, stood_at) if drains else stood_at) + SETTLED_SECONDS, day.now)


def restless(day: AnsweringDay, stood: Sequence[Stood]) -> list[float]:
    """Moments at which something changed although the load had stood still for all waits."""
    return [at for each in stood for at in day.changed(each.settled_at, each.ended_at)]


@pytest.mark.timeout(120)
def test_a_day_of_load_settles_and_redoes_nothing() -> None:
    day = AnsweringDay(steady(LIVE), steady(BULK))
    stood = [pass_load(day, load) for load in LOADS]
    assert day.now == 24 * HOUR
    assert all(each.settled_at < each.ended_at for each in stood)
    assert not restless(day, stood)
    assert not returned(day.changes, RESPONSE_AGAIN_SECONDS)
    assert {each.key.kind for each in day.changes} == {ResponseKind.SHIFT_SHARES, ResponseKind.RAISE_CONCURRENCY}
    assert day.scaled and len(day.changes) + len(day.scaled) < 24, "less than one change an hour"
    assert day.late[-1] < stood[-1].settled_at, "lane live keeps its target at last"


def test_a_day_without_the_hour_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "RESPONSE_AGAIN_SECONDS", 0.0)
    day = AnsweringDay(steady(LIVE), steady(BULK))
    pass_load(day, spikes, HOUR / 2)
    assert returned(day.changes, RESPONSE_AGAIN_SECONDS)


def test_a_day_without_a_dead_band_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one threshold and no hour, what relieves a lane is undone as soon as it has, and done again."""
    monkeypatch.setattr(facts.LaneFacts, "calm", property(lambda lane: not lane.late))
    monkeypatch.setattr(shift_shares, "pressing_lanes", _pressing_while_late)
    monkeypatch.setattr(shift_shares, "needs_more", lambda facts, lane: False)
    monkeypatch.setattr(answering, "RESPONSE_AGAIN_SECONDS", 0.0)
    day = AnsweringDay(steady(LIVE), steady(BULK))
    stood = pass_load(day, step)
    assert restless(day, [stood])


def _pressing_while_late(given: facts.ResponseFacts, lane: str) -> list[facts.LaneFacts]:
    return [each for each in given.lanes if each.lane != lane] if any(given.late()) else []
