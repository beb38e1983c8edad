"""The trend of a lane is what its newest steps say, and nothing where they say nothing."""

import pytest

from services.lagmon.kept.trends import Trend, Trends
from tests.unit.lagmon.kept.kept_steps import KEYS, STALE, START_MS, known, step_of

KEY = KEYS[0]


def test_produced_less_done_is_the_trend() -> None:
    steps = [step_of(START_MS, {KEY: known(1, 100, 300, 100)}), step_of(START_MS, {KEY: known(1, 100, 100, 400)})]
    assert Trends(steps).of(KEY) == Trend(-5.0)
    assert Trends(steps[:1]).of(KEY) == Trend(20.0)


def test_steps_without_a_rate_are_passed() -> None:
    steps = [step_of(START_MS, {KEY: known(1, 100, 300, 100)}), step_of(START_MS, {KEY: STALE})]
    assert Trends(steps).of(KEY) == Trend(20.0)
    assert Trends(steps[1:]).of(KEY) is None
    assert Trends(steps).of(KEYS[1]) is None
    assert Trends([]).of(KEY) is None


def test_series_that_come_and_go_count_where_they_are() -> None:
    other = KEYS[1]
    steps = [
        step_of(START_MS, {other: known(1, 100, 500, 100)}),
        step_of(START_MS, {KEY: known(1, 100, 300, 100), other: known(1, 100, 100, 100)}),
        step_of(START_MS, {KEY: known(1, 100, 100, 400)}),
    ]
    trends = Trends(steps)
    assert (trends.of(KEY), trends.of(other)) == (Trend(-5.0), Trend(20.0))


@pytest.mark.parametrize(
    ("per_s", "records", "seconds"), [(-5.0, 100, 20.0), (5.0, 100, None), (0.0, 100, None), (5.0, 0, 0.0)]
)
def test_only_a_falling_lag_comes_to_zero(per_s: float, records: int, seconds: float | None) -> None:
    assert Trend(per_s).seconds_to_zero(records) == seconds
