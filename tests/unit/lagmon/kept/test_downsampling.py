"""Rows summed up to longer steps say what the rows said, and never 0 for what was absent."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.lagmon.kept.downsampling import bucket_starts, summed_up
from services.lagmon.kept.rows import COLUMNS, Flag, row_of
from tests.unit.lagmon.kept.kept_steps import STALE, Values, known, rows_of_one_series, summed_by_hand


def _columns(rows: list[Values]) -> np.ndarray:
    return np.array(rows, np.int64).T.reshape(COLUMNS, 1, len(rows))


@given(rows_of_one_series(), st.data())
def test_sums_equal_those_made_by_hand(rows: list[Values], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=6)) if len(rows) > 1 else set()
    starts = [0, *sorted(cuts)]
    ends = [*starts[1:], len(rows)]
    sums = summed_up(_columns(rows), starts)[:, 0, :]
    assert [Values(*sum_.tolist()) for sum_ in sums.T] == [
        summed_by_hand(rows[start:end]) for start, end in zip(starts, ends, strict=True)
    ]


@given(rows_of_one_series(), st.data())
def test_a_sum_of_sums_is_the_sum(rows: list[Values], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(rows) - 1))
    parts = summed_up(_columns(rows), [0, cut])
    assert np.array_equal(summed_up(parts, [0]), summed_up(_columns(rows), [0]))


def test_stale_rows_beside_known_ones_leave_the_known() -> None:
    (total,) = summed_up(_columns([known(3.0, 30, 100, 50), STALE, STALE]), [0])[:, 0, :].T
    row = row_of(0, total, False)
    assert row is not None
    assert (row.seconds_max, row.seconds_last, row.records) == (3.0, 3.0, 30)
    assert (row.produced_per_s, row.done_per_s, row.known_seconds) == (10.0, 5.0, 10.0)
    assert row.flags & Flag.STALE


def test_stale_rows_alone_stay_absent() -> None:
    (total,) = summed_up(_columns([STALE, STALE]), [0])[:, 0, :].T
    row = row_of(0, total, False)
    assert row is not None
    assert (row.seconds_max, row.seconds_last, row.records, row.produced_per_s, row.done_per_s) == (None,) * 5


def test_no_rows_give_no_sums() -> None:
    assert summed_up(np.zeros((COLUMNS, 3, 0), np.int64), []).shape == (COLUMNS, 3, 0)


def test_a_bucket_that_comes_back_begins_again() -> None:
    assert bucket_starts([0, 10, 60, 70, 20, 30], 60) == [0, 2, 4]
