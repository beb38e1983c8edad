"""Forecasts of disks: the error at half-way, whatever noise, gaps and restarts there are; and what is no growth."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.timing.days import DAY_SECONDS
from braid.kernel.timing.forecasts import FillSeries, Forecast
from tests.support.examples import examples

LEVEL = 0.9e12
SEEDS = st.integers(0, 1 << 16)


class Disk:
    """A disk that is at its level after a while, by a steady rate or one that swings daily by four fifths."""

    def __init__(self, days: float, dice: random.Random, *, daily: bool) -> None:
        self.seconds = days * DAY_SECONDS
        self.swing = 0.8 if daily else 0.0
        self.phase = dice.random() * 2 * math.pi
        low, high = 0.0, 3 * self.seconds
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.used(middle) < LEVEL else (low, middle)
        self.full_at = high

    def used(self, now: float) -> float:
        """Bytes used at a time."""
        wave = math.cos(self.phase) - math.cos(2 * math.pi * now / DAY_SECONDS + self.phase)
        return LEVEL / self.seconds * (now + self.swing * DAY_SECONDS / (2 * math.pi) * wave)


def watched(disk: Disk, dice: random.Random, start: float = 0.0, noise: float = 1e9) -> tuple[float, Forecast | None]:
    """Half-way, and what readings from the start until then forecast; some hours are missing."""
    series, now, half = FillSeries(), start, disk.full_at / 2
    while now < half:
        if dice.random() < 0.002:
            now += dice.random() * disk.full_at / 40  # a gap
        series.add(now, disk.used(now) + dice.gauss(0, noise))
        now += 300.0 if half - now > 1_800 else 10.0
    return now, series.forecast(LEVEL)


@settings(max_examples=examples(15))
@given(seed=SEEDS, days=st.floats(0.25, 7.0))
def test_a_steady_disk_is_forecast_within_a_tenth(seed: int, days: float) -> None:
    dice = random.Random(seed)
    disk = Disk(days, dice, daily=False)
    now, forecast = watched(disk, dice)
    assert forecast is not None
    assert forecast.seconds == pytest.approx(disk.full_at - now, rel=0.1)


@settings(max_examples=examples(15))
@given(seed=SEEDS, days=st.floats(3.0, 7.0))
def test_a_daily_disk_is_forecast_within_a_tenth(seed: int, days: float) -> None:
    dice = random.Random(seed)
    disk = Disk(days, dice, daily=True)
    now, forecast = watched(disk, dice)
    assert forecast is not None
    assert forecast.seasonal
    assert forecast.seconds == pytest.approx(disk.full_at - now, rel=0.1)


@settings(max_examples=examples(10))
@given(seed=SEEDS)
def test_a_restart_forgets_waves_but_not_that_it_fills(seed: int) -> None:
    dice = random.Random(seed)
    disk = Disk(4.0, dice, daily=False)
    now, forecast = watched(disk, dice, start=disk.full_at / 2 - 0.6 * DAY_SECONDS)
    assert forecast is not None
    assert not forecast.seasonal
    assert forecast.seconds == pytest.approx(disk.full_at - now, rel=0.1)
    assert forecast.soonest <= forecast.seconds <= forecast.latest


def test_a_level_that_stands_still_is_never_reached() -> None:
    dice, series = random.Random(1), FillSeries()
    for step in range(1_000):
        series.add(step * 10.0, 0.5e12 + dice.gauss(0, 1e9))
    forecast = series.forecast(LEVEL)
    assert forecast is None or forecast.seconds > 3_600.0


def test_two_minutes_of_readings_are_needed() -> None:
    series = FillSeries()
    for step in range(11):
        series.add(step * 10.0, step * 1e9)
    assert series.forecast(LEVEL) is None
    assert FillSeries().forecast(LEVEL) is None


def test_a_clock_that_goes_back_and_no_numbers_change_nothing() -> None:
    series = FillSeries()
    for step in range(60):
        series.add(step * 10.0, step * 1e9)
    before = series.forecast(1e11)
    series.add(5.0, 9e11)
    series.add(600.0, math.nan)
    series.add(601.0, math.inf)
    assert series.forecast(1e11) == before


def test_a_stream_that_left_takes_its_growth_with_it() -> None:
    series = FillSeries()
    for step in range(100):
        series.add(step * 10.0, step * 1e9)
    full = series.forecast(1e11)
    series.shift(990.0, -0.5e8)
    slower = series.forecast(1.5e11)
    assert full is not None
    assert slower is not None
    assert full.slope == pytest.approx(1e8)
    assert slower.slope == pytest.approx(0.5e8)


def test_a_disk_at_its_level_is_full_now() -> None:
    series = FillSeries()
    for step in range(100):
        series.add(step * 10.0, step * 1e9)
    forecast = series.forecast(0.9e11)
    assert forecast is not None
    assert forecast.seconds == 0.0
