"""Tables of lag become steps of ten seconds; what a table does not know is absent, and a gap is no step."""

from collections.abc import Sequence

from braid.kernel.limits.lagmon import kept_lag
from services.lagmon.kept.rows import Column, Flag, KeptRow, SeriesKey, Step
from services.lagmon.kept.sampling import Sample, Sampler
from services.lagmon.model.lag import LagRow, RowKey, Source
from services.lagmon.policy import Now

KEY = SeriesKey("indexer", "logs", "live")
START_MS = 1_700_000_100_000


def partition(
    end: int,
    lag: int,
    seconds: float = 0.0,
    *,
    number: int = 0,
    source: Source = Source.ENVELOPE,
    stale: bool = False,
    cluster: str = "east",
    stream: str = "logs",
) -> LagRow:
    """A row of one partition."""
    key = RowKey("indexer", stream, "live", cluster, "topic", number)
    return LagRow(key, 1, lag, seconds, source, False, stale, 0, end_offset=end)


class Samples:
    """Samples once a second of a steady clock, beside a wall clock that may step."""

    def __init__(self) -> None:
        self.sampler = Sampler()
        self.elapsed = 50.0
        self.off_ms = 0
        self.steps: list[Step] = []

    def take(self, *rows: LagRow, catching_up: Sequence[str] = (), seconds: float = 1.0) -> None:
        """Takes one sample, and moves the clocks on."""
        now = Now(self.elapsed, START_MS + self.off_ms + round((self.elapsed - 50.0) * 1000))
        sample = Sample(now, catching_up)
        sample.add(rows)
        step = self.sampler.observe(sample)
        if step is not None:
            self.steps.append(step)
        self.elapsed += seconds

    def row(self, number: int, key: SeriesKey = KEY) -> KeptRow:
        """The row of one closed step."""
        row = self.steps[number].row(key)
        assert row is not None
        return row


def test_a_step_has_the_largest_and_the_last_lag() -> None:
    samples = Samples()
    for second in range(21):
        seconds = 7.5 if second == 14 else 1.0 + second / 10
        samples.take(partition(1000 + 10 * second, 40 - second, seconds), partition(50, 5, 0.5, number=1))
    assert [step.time_ms for step in samples.steps] == [START_MS, START_MS + 10_000]
    row = samples.row(1)
    assert (row.seconds_max, row.seconds_last, row.records) == (7.5, 2.9, 21 + 5)
    assert (row.produced_per_s, row.done_per_s, row.known_seconds) == (10.0, 11.0, 10.0)
    assert row.seconds_min == 2.0
    smallest = [step.columns[Column.MIN_MS, 0] for step in samples.steps]
    assert (smallest, bool(row.flags & Flag.SMALLEST)) == ([1_000, 2_000], True)
    assert samples.row(0).produced_per_s is None  # nothing lies before the first


def test_stale_lanes_are_absent_and_not_zero() -> None:
    samples = Samples()
    for second in range(31):
        stale = 10 <= second < 20
        samples.take(partition(100 + second, 9, 3.0), partition(100, 9, 3.0, number=1, stale=stale, cluster="west"))
    row = samples.row(1)
    assert (row.seconds_max, row.seconds_last, row.records, row.known_seconds) == (None, None, None, 0.0)
    assert row.seconds_min is None
    assert (row.produced_per_s, row.done_per_s) == (None, None)
    assert row.flags & Flag.STALE
    assert samples.row(2).produced_per_s is None  # the step before has no position to compare with


def test_a_lane_stale_for_a_moment_keeps_the_rest() -> None:
    samples = Samples()
    for second in range(11):
        samples.take(partition(100, 9, 60.0 if second == 4 else 3.0, stale=second == 4))
    row = samples.row(0)
    assert (row.seconds_max, row.seconds_last, row.records, row.known_seconds) == (3.0, 3.0, 9, 8.0)


def test_rows_of_unread_clusters_are_stale() -> None:
    samples = Samples()
    for _ in range(11):
        samples.take(partition(100, 100, 500.0), catching_up=["east"])
    assert samples.row(0).seconds_max is None
    assert samples.row(0).flags & Flag.STALE


def test_an_unknown_age_keeps_the_records() -> None:
    samples = Samples()
    for _ in range(11):
        samples.take(partition(100, 40, 5.0, source=Source.UNKNOWN))
    row = samples.row(0)
    assert (row.seconds_max, row.records) == (None, 40)
    assert row.flags & Flag.UNKNOWN


def test_no_rate_crosses_a_change_of_partitions() -> None:
    samples = Samples()
    for second in range(41):
        extra = [partition(5000, 5000, 1.0, number=1)] if second >= 15 else []
        samples.take(partition(100 + second, 9, 1.0), *extra)
    assert [samples.row(at).produced_per_s for at in range(4)] == [None, None, 1.0, 1.0]


def test_no_rate_crosses_another_log() -> None:
    samples = Samples()
    for second in range(31):
        samples.take(partition(second if second >= 12 else 9000 + second, 0))
    assert samples.row(1).produced_per_s is None
    assert samples.row(2).produced_per_s == 1.0


def test_a_rewind_is_done_below_zero() -> None:
    samples = Samples()
    for second in range(21):
        samples.take(partition(1000, 400 if second >= 12 else 0, 1.0))
    assert (samples.row(1).produced_per_s, samples.row(1).done_per_s) == (0.0, -40.0)


def test_a_gap_is_no_step_and_has_no_rate() -> None:
    samples = Samples()
    for second in range(10):
        samples.take(partition(100, 9, 1.0), seconds=91.0 if second == 9 else 1.0)
    for _ in range(12):
        samples.take(partition(9000, 9, 1.0))
    assert [step.time_ms - START_MS for step in samples.steps] == [0, 100_000]
    assert samples.row(1).produced_per_s is None
    assert samples.row(1).known_seconds < 10.0  # the gap itself is not known
    assert not samples.steps[1].stepped


def test_a_step_of_the_clock_is_said() -> None:
    for jump_ms in (-3_600_000, -15_000, 2_500, 3_600_000):
        samples = Samples()
        for second in range(40):
            samples.off_ms = jump_ms if second >= 15 else 0
            samples.take(partition(100 + second, 9, 1.0))
        assert [step.stepped for step in samples.steps].count(True) == 1, jump_ms


def test_clocks_that_drift_a_little_do_not_step() -> None:
    samples = Samples()
    for second in range(40):
        samples.off_ms = -20 * second
        samples.take(partition(100 + second, 9, 1.0))
    assert not any(step.stepped for step in samples.steps)


def test_topics_outside_the_mesh_are_not_kept() -> None:
    sample = Sample(Now(0.0, 0))
    sample.add([partition(10, 1, stream="")])
    assert not sample.lanes


def test_series_beyond_the_bound_are_counted() -> None:
    sample = Sample(Now(0.0, 0))
    lanes = range(kept_lag.KEPT_LAG_SERIES_MAX + 3)
    sample.add(LagRow(RowKey(str(at), "s", "l", "c", "t", 0), 1, 0, 0, Source.DONE, False, False, 0) for at in lanes)
    assert (len(sample.lanes), sample.left_out) == (kept_lag.KEPT_LAG_SERIES_MAX, 3)


def test_steps_with_the_same_series_share_their_names() -> None:
    samples = Samples()
    for _ in range(31):
        samples.take(partition(100, 9))
    assert samples.steps[0].keys is samples.steps[1].keys
