"""Columns of ends say what one log's ends say, however many observations came."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX
from braid.kernel.ports import TopicPartition
from services.lagmon.columns.ends import EndColumns
from services.lagmon.model.ends import LogEnds, WrittenBetween

LOGS = [TopicPartition("t", number) for number in range(3)]


@given(st.lists(st.dictionaries(st.sampled_from(LOGS), st.integers(0, 3), min_size=1), max_size=200))
def test_columns_follow_each_log_as_it_is_followed_alone(steps: list[dict[TopicPartition, int]]) -> None:
    columns, alone = EndColumns(), {log: LogEnds() for log in LOGS}
    numbers = dict(zip(LOGS, columns.numbers("t", [0, 1, 2]), strict=True))
    ends = dict.fromkeys(LOGS, 0)
    for turn, step in enumerate(steps):
        for log, more in step.items():
            ends[log] = ends[log] + more if turn % 97 else more  # now and then another log is in its place
            alone[log].observe(ends[log], float(turn))
        columns.observe({log: ends[log] for log in step}, float(turn))
    for log in LOGS:
        assert columns.log_ends(numbers[log]) == alone[log]
        assert columns.ends[numbers[log]] == alone[log].end
    for offset in range(0, max(ends.values()) + 2):
        found = columns.written(np.array([numbers[log] for log in LOGS]), np.full(len(LOGS), offset))
        for at, log in enumerate(LOGS):
            after, by, guessed = (None if np.isnan(each[at]) else each[at] for each in found)
            assert WrittenBetween(after, by) == alone[log].written(offset)
            assert guessed == alone[log].guessed(offset)


def test_a_long_log_keeps_as_many_samples_as_alone() -> None:
    columns, alone = EndColumns(), LogEnds()
    (number,) = columns.numbers("t", [0])
    for turn in range(5 * LAG_END_SAMPLES_MAX):
        columns.observe({LOGS[0]: turn}, float(turn))
        alone.observe(turn, float(turn))
    assert columns.log_ends(number) == alone


def test_a_dropped_logs_number_begins_anew() -> None:
    columns = EndColumns()
    first, second = columns.numbers("t", [0, 1])
    columns.observe({LOGS[0]: 5, LOGS[1]: 6}, 1.0)
    columns.keep([second])
    assert columns.numbers("t", [2]) == [first]
    assert columns.log_ends(first) == LogEnds()
    assert columns.ends[second] == 6
