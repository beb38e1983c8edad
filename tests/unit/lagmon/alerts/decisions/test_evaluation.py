"""Whole days of looks: quiet ones page nobody, and a breach is told at its threshold and once."""

import random
from collections.abc import Callable

import pytest

from services.lagmon.alerts.decisions.domain import Alerts, AlertsDecider
from services.lagmon.alerts.decisions.evaluation import Evaluation, Look, open_keys
from services.lagmon.alerts.decisions.facts import ClusterFacts, Facts, Health, StreamFacts
from services.lagmon.model.lag import LagRow, RowKey, Source
from tests.unit.lagmon.alerts.decisions.test_domain import played

FACTS = Facts(
    {"logs": StreamFacts({"live": 1.0}, 0.001, 86_400.0, frozenset({"east"}))}, {"east": ClusterFacts(Health.WELL, "")}
)


def row(seconds: float, *, records: int = 1, stale: bool = False, offset: int = 0) -> LagRow:
    """One partition's lag."""
    key = RowKey("indexer", "logs", "live", "east", "t", 0)
    source = Source.ENVELOPE if records else Source.DONE
    return LagRow(key, 1, records, seconds, source, False, stale, 0, committed_offset=offset)


class Day:
    """An evaluation with its history, look by look."""

    def __init__(self) -> None:
        self.evaluation = Evaluation()
        self.state: Alerts = AlertsDecider().initial("mesh")
        self.told: list[str] = []
        self.now = 0.0

    def look(self, seconds: float, *rows: LagRow, facts: Facts = FACTS, complete: bool = True) -> None:
        """One look, so many seconds after the last."""
        self.now += seconds
        now_ms = 1_770_000_000_000 + int(self.now * 1_000)
        self.evaluation.look(Look(rows, complete), facts, open_keys(self.state), self.now, now_ms)
        commands = self.evaluation.commands(self.state, now_ms)
        self.state, events = played(*commands, state=self.state, now_ms=now_ms)
        self.told += [type(each).__name__ for each in events]


def idle(dice: random.Random, at: int) -> tuple[float, LagRow]:
    """Nothing comes, and everything is done."""
    return 5.0, row(0.0, records=0)


def stalling(dice: random.Random, at: int) -> tuple[float, LagRow]:
    """Records flow; commits, the machine and the monitor itself stall for 50 to 150 ms, and ends are stale at times."""
    stall = dice.uniform(0.05, 0.15)
    lag = row(dice.uniform(0.0, 0.5) + stall, records=dice.randrange(1, 50), stale=dice.random() < 0.001, offset=at)
    return dice.uniform(3.0, 4.8) + stall, lag


@pytest.mark.parametrize("hours", [2, pytest.param(24, marks=pytest.mark.extended)])
@pytest.mark.parametrize("day", [idle, stalling])
def test_time_without_a_breach_pages_nobody(
    day: Callable[[random.Random, int], tuple[float, LagRow]], hours: int
) -> None:
    played_day, dice = Day(), random.Random(7)
    at = 0
    while played_day.now < hours * 3_600:
        at += 1
        seconds, lag = day(dice, at)
        played_day.look(seconds, lag)
    assert played_day.told == []


def test_short_breaches_within_the_budget_page_nobody() -> None:
    day = Day()
    for minute in range(65):
        for second in range(60):
            breach = minute % 10 == 0 and second < 3  # half a percent of an hour, and less than five minutes' share
            day.look(1.0, row(2.0 if breach else 0.1, offset=minute * 60 + second))
    assert day.told == []


def test_a_breach_fires_within_two_seconds_of_its_threshold() -> None:
    day = Day()
    for second in range(0, 21_600, 5):  # as long as the longest window of a page
        day.look(5.0, row(0.1, offset=second))
    breached = day.now
    while not day.told:
        day.look(1.0, row(2.0, offset=int(day.now)))
    assert 51.84 <= day.now - breached <= 51.84 + 2
    for _ in range(60):
        day.look(1.0, row(2.0, offset=int(day.now)))
    assert day.told == ["AlertFired"]
    healed = day.now
    while len(day.told) < 2:
        day.look(1.0, row(0.1, offset=int(day.now)))
    assert day.told == ["AlertFired", "AlertResolved"]
    assert day.now - healed <= 300 + 10 + 10  # the short window, its oldest bucket, and ten seconds


def test_a_paused_process_decides_nothing_by_its_gap() -> None:
    day = Day()
    for second in range(20):
        day.look(1.0, row(2.0, offset=second))
    day.look(600.0, row(2.0, offset=99))
    assert day.told == []


def test_a_deleted_stream_resolves_its_alert() -> None:
    day = Day()
    for second in range(60):
        day.look(1.0, row(2.0, offset=second))
    assert day.told == ["AlertFired"]
    for _ in range(30):
        day.look(1.0, complete=False)
    assert day.told == ["AlertFired"]
    for _ in range(10):
        day.look(1.0, facts=Facts({}, {}))
    assert day.told == ["AlertFired", "AlertResolved"]
