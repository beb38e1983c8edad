"""Forecasts of disks: straight growth is known in time, and use that only goes up and down fills nothing."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.alerts import ALERT_DISK_TAKEN
from services.lagmon.alerts.decisions.cluster_rules import cluster_conditions
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.facts import ClusterFacts, DiskReading, Facts, Health
from tests.support.examples import examples

GB = 10**9
TOTAL = 1_000 * GB
HOUR = 3_600.0
DAY = 24 * HOUR
Use = Callable[[float], float]


class Watched:
    """A cluster with one disk that is used so, read every so many seconds."""

    def __init__(self, used: Use, step: float = 10.0) -> None:
        self.disks = Disks()
        self.now = 0.0
        self._used = used
        self.step = step

    def after(self, seconds: float, health: Health = Health.WELL, broker: int = 1) -> dict[str, bool | None]:
        """Lets so many seconds pass, and returns the conditions about the disk."""
        until = self.now + seconds
        while self.now < until:
            self.now += self.step
            free = int(TOTAL - self._used(self.now))
            self.facts = Facts({}, {"east": ClusterFacts(health, "", DiskReading(int(self.now), broker, free, TOTAL))})
            self.disks.observe(self.facts.clusters or {}, self.now)
        return self.said()

    def said(self, facts: Facts | None = None) -> dict[str, bool | None]:
        """Returns the conditions about the disk now."""
        told = cluster_conditions(facts or self.facts, Copies(), self.disks, self.now)
        return {each.key.rule: each.holds for each in told if each.key.rule.startswith("disk")}

    def summary(self) -> str:
        """The words of the page or ticket that holds."""
        told = cluster_conditions(self.facts, Copies(), self.disks, self.now)
        return next(each.summary for each in told if each.key.rule.startswith("disk") and each.holds)


def line(per_hour: float, start: float = 500 * GB) -> Use:
    """Use that grows evenly."""
    return lambda at: start + per_hour * at / HOUR


@pytest.mark.parametrize(
    ("per_hour", "after", "holds"),
    [
        (0.0, 19 * HOUR, {"disk-page": False, "disk-ticket": False}),
        (1_000 * GB, 600.0, {"disk-page": True, "disk-ticket": None}),  # half an hour to live, seen within ten minutes
        (100 * GB, 2 * HOUR, {"disk-page": True, "disk-ticket": None}),
        (60 * GB, HOUR, {"disk-page": None, "disk-ticket": None}),  # eight hours to live: not watched for long enough
        (20 * GB, 6 * HOUR, {"disk-page": False, "disk-ticket": True}),
        (7 * GB, 19 * HOUR, {"disk-page": False, "disk-ticket": True}),
        (3 * GB, 19 * HOUR, {"disk-page": False, "disk-ticket": False}),
        (-20 * GB, 19 * HOUR, {"disk-page": False, "disk-ticket": False}),
    ],
)
def test_even_growth_leads_to_these_alerts(per_hour: float, after: float, holds: dict[str, bool | None]) -> None:
    assert Watched(line(per_hour), 10.0 if after < 6 * HOUR else 60.0).after(after) == holds


def test_a_forecast_names_its_time_and_its_error() -> None:
    dice = random.Random(3)
    watched = Watched(lambda at: 500 * GB + 100 * GB * at / HOUR + dice.uniform(0, 10 * GB))
    watched.after(2 * HOUR)
    assert watched.summary() == (
        "the fullest disk of cluster east, on broker 1, is full in 2.9 hours (2.9 hours to 3.0 hours), "
        "as it filled over 90 minutes"
    )
    forecast = watched.disks.forecast("east")
    assert forecast is not None and forecast.soonest < forecast.seconds < forecast.latest


@settings(max_examples=examples(6))
@given(st.randoms(use_true_random=False), st.floats(0.01, 0.95), st.sampled_from(["saw", "square", "dice", "wave"]))
def test_use_that_varies_little_fills_nothing(dice: random.Random, free: float, shape: str) -> None:
    period, most = dice.uniform(60.0, 40_000.0), free * TOTAL / (ALERT_DISK_TAKEN + 1)
    shapes: dict[str, Use] = {
        "saw": lambda at: at / period % 1.0,
        "square": lambda at: float(at / period % 1.0 < 0.5),
        "dice": lambda at: dice.random(),
        "wave": lambda at: 0.5 + 0.5 * math.sin(at / period),
    }
    watched = Watched(lambda at: (1 - free) * TOTAL - most + most * shapes[shape](at), 30.0)
    for _ in range(40):
        assert True not in watched.after(300.0).values()


def test_a_ripple_after_a_gap_fills_nothing() -> None:
    watched = Watched(lambda at: 500 * GB + 70 * GB * max(0.0, at - 5_000.0) / 400)
    watched.after(2.0)
    watched.now, watched.step = 5_000.0, 2.0
    for _ in range(20):
        assert True not in watched.after(20.0).values()


def test_growth_that_is_over_pages_nobody_anew() -> None:
    watched = Watched(lambda at: 500 * GB + 200 * GB * min(at, HOUR) / HOUR)
    assert watched.after(HOUR)["disk-page"] is True
    assert watched.after(1_900.0)["disk-page"] is None
    assert watched.after(2 * HOUR)["disk-page"] is False


def test_a_replica_that_has_just_begun_resolves_nothing() -> None:
    watched = Watched(line(0.0))
    assert watched.after(HOUR) == {"disk-page": None, "disk-ticket": None}
    assert watched.after(HOUR) == {"disk-page": False, "disk-ticket": None}


def test_another_disk_that_is_fuller_is_no_growth() -> None:
    watched = Watched(lambda at: 500 * GB if at < HOUR else 900 * GB)
    watched.after(HOUR)
    for _ in range(60):
        assert True not in watched.after(60.0, broker=2).values()


def test_a_cluster_that_is_down_or_not_measured_decides_nothing() -> None:
    watched = Watched(line(100 * GB))
    watched.after(2 * HOUR)
    for cluster in (ClusterFacts(Health.WELL, ""), ClusterFacts(Health.DOWN, "", DiskReading(1, 1, 1, TOTAL))):
        assert set(watched.said(Facts({}, {"east": cluster})).values()) == {None}
