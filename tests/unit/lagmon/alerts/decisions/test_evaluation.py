"""Whole days of looks: quiet ones page nobody, and a breach is told at its threshold and once."""

import math
import random
from collections.abc import Callable

import pytest

from services.lagmon.alerts.decisions.domain import Alerts, AlertsDecider
from services.lagmon.alerts.decisions.evaluation import Evaluation, Look, open_keys
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    CopiesReading,
    DiskReading,
    Facts,
    Health,
    LaneKey,
    StreamFacts,
    TopicFacts,
)
from services.lagmon.alerts.decisions.past_windows import Moment, PastWindows
from services.lagmon.kept.rows import Step
from services.lagmon.kept.sampling import Sample, Sampler
from services.lagmon.model.lag import LagRow, RowKey, Source
from services.lagmon.policy import Now
from tests.unit.lagmon.alerts.decisions.test_domain import played

FACTS = Facts({"logs": StreamFacts({"live": 1.0}, 0.001, frozenset({"east"}))}, {"east": ClusterFacts(Health.WELL, "")})


def row(seconds: float, *, records: int = 1, stale: bool = False, offset: int = 0) -> LagRow:
    """One partition's lag."""
    key = RowKey("indexer", "logs", "live", "east", "t", 0)
    source = Source.ENVELOPE if records else Source.DONE
    return LagRow(key, 1, records, seconds, source, False, stale, 0, committed_offset=offset)


def busy_mesh(now: float) -> Facts:
    """The mesh of a usual day: logs that roll and are deleted, and each hour a rolling restart of three brokers."""
    used = 0.5 + 0.02 * (now % 3_000 / 3_000) + 0.01 * math.sin(now / 13_000)
    minute = int(now % 3_600 // 60)
    away = frozenset({minute}) if minute < 3 else frozenset()
    copies = CopiesReading(("t",) if away else (), len(away), away)
    disk = DiskReading(int(now // 10), 1, int((1 - used) * 10**12), 10**12)
    streams = {
        "logs": StreamFacts({"live": 1.0}, 0.001, frozenset({"east"}), topics={("east", "t"): TopicFacts("live", 1e6)})
    }
    return Facts(streams, {"east": ClusterFacts(Health.WELL, "", disk, copies)})


class Day:
    """An evaluation with its history, look by look."""

    def __init__(self) -> None:
        self.evaluation = Evaluation()
        self.steps: list[Step] = []
        self._sampler = Sampler()
        self.state: Alerts = AlertsDecider().initial("mesh")
        self.told: list[str] = []
        self.now = 0.0

    def look(self, seconds: float, *rows: LagRow, facts: Facts = FACTS, complete: bool = True) -> None:
        """One look, so many seconds after the last."""
        self.now += seconds
        now_ms = 1_770_000_000_000 + int(self.now * 1_000)
        sample = Sample(Now(self.now, now_ms))
        sample.add(rows)
        if (step := self._sampler.observe(sample)) is not None:
            self.steps.append(step)
        self.evaluation.look(Look(rows, complete), facts, open_keys(self.state), self.now, now_ms)
        commands = self.evaluation.commands(self.state, now_ms)
        self.state, events = played(*commands, state=self.state, now_ms=now_ms)
        self.told += [type(each).__name__ for each in events]

    def restart(self, seconds: float) -> None:
        """The process ends, and another one begins with what was kept."""
        self.now += seconds
        self.evaluation, self._sampler = Evaluation(), Sampler()
        lane = LaneKey("logs", "live", "indexer")
        past = PastWindows({lane: 1.0}, Moment(self.now, 1_770_000_000_000 + int(self.now * 1_000)))
        for step in self.steps:
            past.take([step.time_ms], [step.stepped], {lane: step.columns}, 10_000)
        for keys, seen in past.parts(1):
            self.evaluation.seed(keys, seen, self.now)


def idle(dice: random.Random, at: int) -> tuple[float, LagRow]:
    """Nothing comes, and everything is done."""
    return 5.0, row(0.0, records=0)


def stalling(dice: random.Random, at: int) -> tuple[float, LagRow]:
    """Records flow; commits, the machine and the monitor itself stall for 50 to 150 ms, and ends are stale at times."""
    stall = dice.uniform(0.05, 0.15)
    lag = row(dice.uniform(0.0, 0.5) + stall, records=dice.randrange(1, 50), stale=dice.random() < 0.001, offset=at)
    return dice.uniform(3.0, 4.8) + stall, lag


@pytest.mark.parametrize("hours", [1, pytest.param(24, marks=pytest.mark.extended)])
@pytest.mark.parametrize("day", [idle, stalling])
def test_time_without_a_breach_pages_nobody(
    day: Callable[[random.Random, int], tuple[float, LagRow]], hours: int
) -> None:
    played_day, dice = Day(), random.Random(7)
    at = 0
    for until in (hours * 1_800, hours * 3_600):
        while played_day.now < until:
            at += 1
            seconds, lag = day(dice, at)
            played_day.look(seconds, lag, facts=busy_mesh(played_day.now))
        played_day.restart(dice.uniform(3.0, 60.0))
    assert played_day.told == []


def test_short_breaches_within_the_budget_page_nobody() -> None:
    day = Day()
    for minute in range(65):
        breach = 3 if minute % 10 == 0 else 0  # half a percent of an hour, and less than five minutes' share
        for second in (*range(10), *range(10, 60, 5)):
            day.look(1.0 if second < 10 else 5.0, row(2.0 if second < breach else 0.1, offset=minute * 60 + second))
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


def test_a_breach_goes_on_over_a_restart() -> None:
    day = Day()
    for second in range(0, 3_600, 5):
        day.look(5.0, row(0.1, offset=second))
    for _ in range(45):
        day.look(1.0, row(2.0, offset=int(day.now)))
    day.restart(5.0)
    looks = 0
    while not day.told:
        looks += 1
        day.look(1.0, row(2.0, offset=int(day.now)))
    assert looks <= 51.84 - 45 + 2 * 10 + 2  # the open row is lost, and the one in which the breach began is not sure
    day.restart(5.0)
    for _ in range(60):
        day.look(1.0, row(2.0, offset=int(day.now)))
    assert day.told == ["AlertFired"]


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
