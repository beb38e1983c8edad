"""Windows with a kept past: they never say what the full sequence of samples would not, and say much of it at once."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.lagmon.alerts.decisions.burn_rates import FAST, SLOW, STEADY, BurnAlert, BurnRates, SeenTime
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.facts import LaneKey
from services.lagmon.alerts.decisions.model import Alert, AlertKey, Severity
from services.lagmon.alerts.decisions.past_windows import Moment, Outage, PastWindows, outages
from services.lagmon.kept.chunks import chunk_of
from services.lagmon.kept.downsampling import summed_up
from services.lagmon.kept.rows import Column, Columns, Flag, SeriesKey, Step
from services.lagmon.kept.sampling import Sample, Sampler
from services.lagmon.model.lag import LagRow, RowKey, Source
from services.lagmon.policy import Now
from tests.support.examples import examples

LANE = LaneKey("logs", "live", "g")
SERIES = SeriesKey("g", "logs", "live")
TARGET = 5.0
BUDGET = 0.001
WINDOWS = (FAST.short, SLOW.short, FAST.long, SLOW.long, STEADY.long)
SHARES = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99)
START_MS = 1_770_000_000_000
FIVE_MINUTES = 300_000


class Seen(NamedTuple):
    """One sample: the lag in seconds, and whether it was known; None while nobody looked."""

    seconds: float
    known: bool


class Past:
    """A process that keeps lag, and the windows of one that sees every sample and never ends."""

    def __init__(self, skew: float = 0.0, elapsed: float = 70_000.0) -> None:
        self.truth: BurnRates[LaneKey] = BurnRates()
        self.truth.advance(elapsed)
        self.now = elapsed
        self.steps: list[Step] = []
        self.wall_off_ms = 0.0
        self._first = elapsed
        self._skew = skew
        self._sampler = Sampler()

    @property
    def wall_ms(self) -> int:
        """The wall clock, which may run a little fast or slow."""
        return START_MS + round((self.now - self._first) * 1_000 * (1 + self._skew) + self.wall_off_ms)

    def see(self, sample: Seen | None, seconds: float, *, kept: bool = True) -> None:
        """Time passes, then everybody looks; while nothing is kept only the truth sees it."""
        before, self.now = self.now, self.now + seconds
        self.truth.advance(self.now)
        if sample is None:
            return
        bad = True if sample.seconds > TARGET else False if sample.known else None
        if bad is not None and seconds <= 5.0:
            self.truth.observe({LANE: bad}, before, self.now)
        if kept:
            source = Source.ENVELOPE if sample.known else Source.UNKNOWN
            found = Sample(Now(self.now, self.wall_ms))
            key = RowKey(*SERIES, "east", "t", 0)
            found.add([LagRow(key, 1, 1, sample.seconds, source, False, False, 0, end_offset=1)])
            step = self._sampler.observe(found)
            self.steps += [step] if step is not None else []

    def windows(self, *, coarse_before: int = 0, down: Sequence[Outage] = ()) -> BurnRates[LaneKey]:
        """The windows of a process that begins now; of rows before a time only sums of five minutes are left."""
        past = PastWindows({LANE: TARGET}, Moment(self.now, self.wall_ms), down)
        for steps in _chunks([each for each in self.steps if each.time_ms < coarse_before]):
            chunk = chunk_of(steps)
            time_ms = steps[0].time_ms - steps[0].time_ms % FIVE_MINUTES
            past.take([time_ms], [any(chunk.stepped)], {LANE: summed_up(chunk.columns, [0])[:, 0]}, FIVE_MINUTES)
        for step in self.steps:
            if step.time_ms >= coarse_before:
                past.take([step.time_ms], [step.stepped], {LANE: step.columns}, 10_000)
        windows: BurnRates[LaneKey] = BurnRates()
        windows.advance(self.now)
        for keys, seen in past.parts(100):
            windows.seed(keys, seen)
        return windows


def _chunks(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Cuts steps where the ring cuts chunks: at each five minutes, and where the clock steps back."""
    chunk: list[Step] = []
    for step in steps:
        if chunk and (
            step.time_ms // FIVE_MINUTES != chunk[0].time_ms // FIVE_MINUTES or step.time_ms <= chunk[-1].time_ms
        ):
            yield chunk
            chunk = []
        chunk.append(step)
    if chunk:
        yield chunk


def _story(dice: Random) -> Iterator[tuple[Seen | None, float]]:
    """Samples of a lane that is well, behind, in between, not known, or not looked at."""
    for _ in range(dice.randint(2, 6)):
        mood = dice.choice(["well", "well", "behind", "between", "unknown", "away"])
        pace = dice.choice([1.0, 1.3, 4.0, 4.9])
        for _ in range(dice.choice([3, 30, 200])):
            lag = {"well": 1.0, "behind": 9.0}.get(mood, dice.choice([1.0, 4.9996, 5.0004, 9.0]))
            seen = None if mood == "away" else Seen(lag, mood != "unknown" or dice.random() < 0.5)
            yield seen, pace if dice.random() < 0.98 else 7.0


@settings(max_examples=examples(5))
@given(st.integers(0, 2**32))
def test_a_kept_past_says_nothing_that_all_samples_would_not(seed: int) -> None:
    tell_story(seed)


def tell_story(seed: int) -> None:
    """A process keeps lag and ends; the next one compares its windows with those that saw everything."""
    dice = Random(seed)
    past = Past(dice.uniform(-0.0004, 0.0004), dice.choice([100.0, 70_000.0]) + dice.random())
    for sample, seconds in _story(dice):
        past.see(sample, seconds)
        if dice.random() < 0.001:
            past.wall_off_ms += dice.choice([-700_000, -4_000, 4_000, 90_000])
    gap = Seen(dice.choice([1.0, 9.0]), True)
    for _ in range(dice.choice([1, 20])):
        past.see(gap, 1.0, kept=False)
    windows = past.windows(coarse_before=past.wall_ms - dice.choice([0, 1_000_000, 10**9]))
    for number, (sample, seconds) in enumerate(_story(dice)):
        before = past.now
        past.see(sample, seconds, kept=False)
        windows.advance(past.now)
        bad = None if sample is None else True if sample.seconds > TARGET else False if sample.known else None
        if bad is not None and seconds <= 5.0:
            windows.observe({LANE: bad}, before, past.now)
        for window in WINDOWS if number % 10 == 0 else ():
            for share in SHARES:
                alert = BurnAlert(1.0, window, window)
                said, true = windows.burns(LANE, alert, share), past.truth.burns(LANE, alert, share)
                assert said in (None, true), (window, share, past.now)


def played(*parts: tuple[float, int]) -> Past:
    """A past of so many seconds of each lag."""
    past = Past()
    for lag, seconds in parts:
        for _ in range(seconds):
            past.see(Seen(lag, True), 1.0)
    return past


def test_a_budget_that_was_burnt_before_a_start_is_burnt() -> None:
    assert played((1.0, 300), (9.0, 90)).windows().burns(LANE, FAST, BUDGET) is True
    assert BurnRates[LaneKey]().burns(LANE, FAST, BUDGET) is None


def test_an_hour_that_was_good_is_known_to_be_good() -> None:
    past = played((1.0, 3_700))
    assert past.windows().burns(LANE, FAST, BUDGET) is False
    assert past.windows(coarse_before=past.wall_ms).burns(LANE, FAST, BUDGET) is None  # five minutes are too coarse


def test_five_minutes_count_in_the_long_windows() -> None:
    past = Past()
    for _ in range(6 * 900 + 100):
        past.see(Seen(1.0, True), 4.0)
    hour_ago = past.wall_ms - 3_600_000
    assert past.windows(coarse_before=hour_ago - hour_ago % FIVE_MINUTES).burns(LANE, SLOW, BUDGET) is False
    past.steps = past.steps[-100:]
    assert past.windows().burns(LANE, SLOW, BUDGET) is None


@pytest.mark.parametrize(
    ("lags", "bad", "good"),
    [([1.0] * 12, 0, 8), ([9.0] * 12, 8, 0), ([1.0, 9.0] * 6, 0, 0), ([5.0] * 12, 0, 0)],
)
def test_a_row_is_good_or_bad_only_as_a_whole(lags: list[float], bad: int, good: int) -> None:
    past = Past(elapsed=70_000.0 - 0.5)
    for lag in lags:
        past.see(Seen(lag, True), 1.0)
    ((_, seen),) = _parts(past)
    assert [round(int(each) / 100) for each in seen[0].times[:, 0].sum(axis=1)] == [bad, good]


def test_rows_without_a_smallest_lag_are_never_bad() -> None:
    past = played((9.0, 60))
    for step in past.steps:
        step.columns[Column.FLAGS] &= ~np.int64(Flag.SMALLEST)
    assert past.windows().rate(LANE, FAST.short, BUDGET) == 0.0


def test_what_lies_before_a_step_of_the_clock_is_not_counted() -> None:
    past = played((9.0, 60))
    past.wall_off_ms = -30_000
    for _ in range(25):
        past.see(Seen(9.0, True), 1.0)
    assert past.windows().rate(LANE, FAST.short, BUDGET) * BUDGET * 300 <= 20


def test_rows_of_the_future_and_open_ones_are_not_counted() -> None:
    past = played((9.0, 65))
    past.wall_off_ms = -3_600_000
    assert past.windows().rate(LANE, FAST.short, BUDGET) == 0.0


def test_time_in_which_a_cluster_was_down_burns_no_budget() -> None:
    past = played((9.0, 120))
    whole = past.windows().rate(LANE, FAST.short, BUDGET)
    part = past.windows(down=[Outage(START_MS + 50_000, START_MS + 60_000)]).rate(LANE, FAST.short, BUDGET)
    assert 0.0 < part < whole
    down = Alert(AlertKey("cluster-down", "", "east"), Severity.PAGE, "", 5)
    over = Alert(AlertKey("cluster-down", "", "west"), Severity.PAGE, "", 7, 9)
    assert set(outages(Alerts({down.name: down}, (over,)), 11)) == {Outage(5, 11), Outage(7, 9)}


def _parts(past: Past) -> list[tuple[Sequence[LaneKey], Sequence[SeenTime]]]:
    windows = PastWindows({LANE: TARGET}, Moment(past.now, past.wall_ms))
    rows: Columns
    for step in past.steps:
        rows = step.columns
        windows.take([step.time_ms], [step.stepped], {LANE: rows}, 10_000)
    return windows.parts(100)
