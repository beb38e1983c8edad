"""Narrow and wide rows of samples answer exactly as the plain form of one log's ends does, for any samples."""

import dataclasses
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX
from braid.kernel.ports import TopicPartition
from services.lagmon.columns import sample_pools
from services.lagmon.columns.ends import EndColumns
from services.lagmon.columns.sample_pools import TICKS, SamplePools, tick_before
from services.lagmon.model.ends import LogEnds, WrittenBetween

LOGS: Final = [TopicPartition("t", number) for number in range(4)]
DAY: Final = 86_400.0
OFFSETS_MAX: Final = 60  # that are asked for
# What an end grows by; beyond 2**32 above the first one a row is wide. A negative one: another log in its place.
GROWTH: Final = st.sampled_from([0, 1, 1, 1, 2, 7, 2**31, 2**32 - 2, 2**33, -3])
# What passes between two looks; times that are no multiple of a tick, or are months away, need wide rows, too.
PASSES: Final = st.sampled_from([0.5, 0.5, 0.5, 1 / TICKS, 30.0, 0.1, 90 * DAY, 200 * DAY])
Step = tuple[float, Mapping[int, int]]
STEPS: Final = st.lists(st.tuples(PASSES, st.dictionaries(st.integers(0, 3), GROWTH, min_size=1)), max_size=40)


class Both:
    """Columns of some logs, and each log followed alone."""

    def __init__(self, begin: float = 1_000.0) -> None:
        self.columns, self.at = EndColumns(), begin
        self.numbers = self.columns.numbers("t", [log.partition for log in LOGS])
        self.alone = [LogEnds() for _ in LOGS]
        self.seen = {0, 2**40}

    def look(self, passes: float, grown: Mapping[int, int]) -> None:
        """Looks at logs a while later, of which each has grown."""
        self.at += passes
        ends = {number: max(self.alone[number].end, 0) + more for number, more in grown.items()}
        ends = {number: end if end >= 0 else 0 for number, end in ends.items()}
        self.columns.observe({LOGS[number]: end for number, end in ends.items()}, self.at)
        for number, end in ends.items():
            self.alone[number].observe(end, self.at)
        self.seen |= {end + near for end in ends.values() for near in (-1, 0, 1) if len(self.seen) < OFFSETS_MAX}

    def judge(self) -> None:
        """Both know the same, and say the same of offsets around each end."""
        logs = np.array(self.numbers)
        for number, alone in zip(self.numbers, self.alone, strict=True):
            assert self.columns.log_ends(number) == alone
            assert self.columns.ends[number] == alone.end
        for offset in self.seen:
            found = self.columns.written(logs, np.full(len(logs), offset))
            for at, alone in enumerate(self.alone):
                after, by, guessed = (None if np.isnan(each[at]) else float(each[at]) for each in found)
                assert WrittenBetween(after, by) == alone.written(offset)
                assert guessed == alone.guessed(offset)


@given(STEPS)
def test_rows_say_what_a_log_alone_says(steps: Sequence[Step]) -> None:
    both = Both()
    for step in steps:
        both.look(*step)
    both.judge()


@given(STEPS, STEPS, st.integers(0, 3), st.integers(1, 200))
def test_full_rows_say_what_a_log_alone_says(
    before: Sequence[Step], after: Sequence[Step], grows: int, looks: int
) -> None:
    both = Both(-7.0)
    for step in before:
        both.look(*step)
    for _ in range(looks):
        both.look(0.5, {grows: 3})
    for step in after:
        both.look(*step)
    both.judge()


@given(STEPS, st.lists(st.tuples(st.integers(0, 2**34), st.integers(-3_000_000_000, 999_000)), max_size=70))
def test_recalled_samples_come_before_a_logs_own(steps: Sequence[Step], recalled: Sequence[tuple[int, int]]) -> None:
    both = Both()
    both.look(0.5, dict.fromkeys(range(4), 2**33))
    for step in steps[:20]:
        both.look(*step)
    ends, times = sorted(end for end, _ in recalled), sorted(at / 1_000 for _, at in recalled)
    samples = list(zip(ends, times, strict=True))
    for number in (0, 1):
        alone = both.alone[number]
        own = dataclasses.asdict(alone)["_samples"]
        mine: list[list[float]] = [[each[name] for each in own] for name in ("end", "first", "last")]
        earlier = [each for each in samples if each[0] < mine[0][0] and each[1] <= mine[1][0]]
        earlier = earlier[: LAG_END_SAMPLES_MAX - len(mine[0])]
        times_of = [each[1] for each in earlier]
        told: list[list[float]] = [[each[0] for each in earlier], times_of, times_of]
        both.alone[number] = LogEnds.of(alone.start, [past + own for past, own in zip(told, mine, strict=True)])
        both.columns.recall(both.numbers[number], samples)
    both.judge()
    for step in steps[20:]:
        both.look(*step)
    both.judge()


def test_dropped_logs_leave_their_rows_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_pools, "FREE_MIN", 2)
    columns, alone = EndColumns(), [LogEnds() for _ in range(60)]
    numbers = columns.numbers("t", range(60))
    for look in range(30):  # logs grow at different rates: rows of all lengths
        ends = {TopicPartition("t", log): look // (log + 1) for log in range(60)}
        columns.observe(ends, look / 2)
        for log, end in zip(alone, ends.values(), strict=True):
            log.observe(end, look / 2)
    kept = [*range(0, 60, 7)]
    columns.keep([numbers[log] for log in kept])
    again = columns.numbers("u", range(40))
    columns.observe({TopicPartition("u", log): 5 for log in range(40)}, 15.0)
    assert {*again} <= {*numbers} - {numbers[log] for log in kept}
    assert all(columns.log_ends(numbers[log]) == alone[log] for log in kept)
    fresh = LogEnds()
    fresh.observe(5, 15.0)
    assert all(columns.log_ends(number) == fresh for number in again)


def test_a_tick_is_the_last_one_before_a_time() -> None:
    for at in (0.0, 0.1, 12_345.678, 1e6 + 1 / 3):
        assert 0 <= at - tick_before(at) < 1 / TICKS
        assert tick_before(at) * TICKS == int(tick_before(at) * TICKS)


def full_log_bytes(at: float) -> float:
    """The memory of a log that has grown at each look from a time on."""
    pools, logs = SamplePools(), np.arange(1_000)
    tracemalloc.start()
    pools.grow(len(logs))
    for look in range(LAG_END_SAMPLES_MAX):
        pools.append(logs, np.full(len(logs), 10 + look), at + look)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(logs)


def test_samples_at_ticks_take_half_the_room() -> None:
    narrow, wide = full_log_bytes(100.5), full_log_bytes(100.1)
    assert narrow < 0.55 * wide
    assert narrow < 1_000
