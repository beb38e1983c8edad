"""Ranges of offsets: read as they are written, united without losing or adding any."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges, parse_ranges, ranges_text, united

NAMED = (OffsetRange(0, 17, 23), OffsetRange(1, 0, OPEN))
SMALL = st.integers(0, 12)
CLOSED = st.builds(lambda partition, first, more: OffsetRange(partition, first, first + more), SMALL, SMALL, SMALL)


def offsets(ranges: OffsetRanges | list[OffsetRange]) -> set[tuple[int, int]]:
    """The offsets in ranges that have an end."""
    return {(each.partition, offset) for each in ranges for offset in range(each.first, each.last + 1)}


def test_ranges_are_read_as_they_are_written() -> None:
    assert ranges_text(NAMED) == "0:17-23,1:0-"
    assert parse_ranges(" 0:17-23, 1:0-", "x") == NAMED
    assert parse_ranges("", "x") == ()


@pytest.mark.parametrize("text", ["all", "0", "0:1", "0:-5", "a:1-2", "0:1-2-3", "0:1-2;1:0-"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_ranges(text, "--accept-loss")
    assert caught.value.field == "--accept-loss"


@given(st.lists(CLOSED, max_size=8))
def test_united_ranges_hold_the_same_and_lie_apart(ranges: list[OffsetRange]) -> None:
    found = united(ranges)
    assert offsets(found) == offsets(ranges)
    assert all(a.partition < b.partition or a.last + 1 < b.first for a, b in pairwise(found))


def test_a_range_without_an_end_swallows_what_follows_it() -> None:
    assert united([OffsetRange(0, 30, 40), OffsetRange(0, 5, OPEN), OffsetRange(0, 0, 4)]) == (OffsetRange(0, 0, OPEN),)
