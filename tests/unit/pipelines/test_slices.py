"""Slices cover a range without a gap or an overlap, and no cut lies near the present."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from pipelines.limits import PIPELINE_SETTLED_SECONDS
from pipelines.slices import slices

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@given(st.integers(1, 5_000), st.integers(0, 4_999), st.integers(1, 600))
def test_slices_cover_the_range(start_minutes: int, end_minutes: int, length_minutes: int) -> None:
    start = NOW - timedelta(minutes=max(start_minutes, end_minutes + 1))
    end, length = NOW - timedelta(minutes=end_minutes), timedelta(minutes=length_minutes)
    found = slices(start, end, length, NOW)
    assert (found[0].start, found[-1].end) == (start, end)
    assert all(left.end == right.start for left, right in pairwise(found))
    settled = NOW - timedelta(seconds=PIPELINE_SETTLED_SECONDS)
    assert all(part.end <= settled and part.end - part.start == length for part in found[:-1])
    assert all(part.start < part.end for part in found)


def test_hours_of_a_day_are_a_slice_each() -> None:
    start = NOW - timedelta(days=3)
    assert len(slices(start, start + timedelta(days=1), HOUR, NOW)) == 24


def test_the_last_slice_takes_what_is_not_settled() -> None:
    found = slices(NOW - 2 * HOUR, NOW, HOUR, NOW)
    assert [part.end - part.start for part in found] == [HOUR, HOUR]
    found = slices(NOW - 2 * HOUR, NOW, timedelta(minutes=4), NOW)
    assert found[-1].end - found[-1].start >= timedelta(seconds=PIPELINE_SETTLED_SECONDS)


@pytest.mark.parametrize(("start", "field"), [(NOW + HOUR, "--from"), (NOW - timedelta(days=9_000), "--slice-minutes")])
def test_a_range_that_cannot_be_read_is_refused(start: datetime, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        slices(start, NOW, HOUR, NOW)
    assert refused.value.field == field
    assert refused.value.remedy
