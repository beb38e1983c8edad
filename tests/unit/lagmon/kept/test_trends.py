"""The trend of a lane is what its newest steps say, and nothing where they say nothing."""

import pytest

from services.lagmon.kept.trends import Trend, trend_of
from tests.unit.lagmon.kept.kept_steps import KEYS, STALE, START_MS, known, step_of

KEY = KEYS[0]


def test_produced_less_done_is_the_trend() -> None:
    steps = [step_of(START_MS, {KEY: known(1, 100, 300, 100)}), step_of(START_MS, {KEY: known(1, 100, 100, 400)})]
    assert trend_of(steps, KEY) == Trend(-5.0)
    assert trend_of(steps[:1], KEY) == Trend(20.0)


def test_steps_without_a_rate_are_passed() -> None:
    steps = [step_of(START_MS, {KEY: known(1, 100, 300, 100)}), step_of(START_MS, {KEY: STALE})]
    assert trend_of(steps, KEY) == Trend(20.0)
    assert trend_of(steps[1:], KEY) is None
    assert trend_of(steps, KEYS[1]) is None
    assert trend_of([], KEY) is None


@pytest.mark.parametrize(
    ("per_s", "records", "seconds"), [(-5.0, 100, 20.0), (5.0, 100, None), (0.0, 100, None), (5.0, 0, 0.0)]
)
def test_only_a_falling_lag_comes_to_zero(per_s: float, records: int, seconds: float | None) -> None:
    assert Trend(per_s).seconds_to_zero(records) == seconds
