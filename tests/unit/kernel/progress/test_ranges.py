"""The range algebra agrees with plain sets of integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.progress.ranges import EMPTY, Ranges, Span

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1])), max_size=12)


def members(ranges: Ranges) -> set[int]:
    """The integers of a set of ranges, one by one."""
    return {offset for start, end in ranges for offset in range(start, end)}


def spelled(spans: list[tuple[int, int]]) -> set[int]:
    """The integers of plain spans."""
    return {offset for start, end in spans for offset in range(start, end)}


@given(SPANS)
def test_construction_is_canonical(spans: list[tuple[int, int]]) -> None:
    ranges = Ranges(spans)
    assert members(ranges) == spelled(spans)
    assert all(span.start < span.end for span in ranges)
    assert all(left.end < right.start for left, right in zip(ranges.spans, ranges.spans[1:], strict=False))
    assert ranges == Ranges.of_offsets(spelled(spans))
    assert hash(ranges) == hash(Ranges.of_offsets(spelled(spans)))
    assert ranges.count == len(spelled(spans))


@given(SPANS, SPANS)
def test_algebra_agrees_with_sets(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b = Ranges(left), Ranges(right)
    assert members(a | b) == members(a) | members(b)
    assert members(a - b) == members(a) - members(b)
    assert members(a & b) == members(a) & members(b)
    assert (a <= b) == (members(a) <= members(b))
    assert (a | b) == Ranges(members_spans(members(a) | members(b)))


def members_spans(offsets: set[int]) -> list[tuple[int, int]]:
    """One span per integer."""
    return [(offset, offset + 1) for offset in offsets]


@given(SPANS, st.integers(0, 70), st.integers(0, 20))
def test_windows_agree_with_sets(spans: list[tuple[int, int]], start: int, length: int) -> None:
    ranges, end = Ranges(spans), start + length
    window = set(range(start, end))
    assert members(ranges.clip(start, end)) == members(ranges) & window
    assert members(ranges.gaps(start, end)) == window - members(ranges)
    assert members(ranges.add(start, end)) == members(ranges) | window
    assert ranges.covers(start, end) == (window <= members(ranges))
    assert (start in ranges) == (start in members(ranges))
    assert len(ranges) == len(ranges.spans)


def test_ends_and_emptiness() -> None:
    assert (EMPTY.start, EMPTY.end, EMPTY.count, bool(EMPTY)) == (None, None, 0, False)
    ranges = Ranges([(5, 7), (1, 2), (7, 9)])
    assert ranges.spans == (Span(1, 2), Span(5, 9))
    assert (ranges.start, ranges.end) == (1, 9)
    assert repr(ranges) == "Ranges([(1, 2), (5, 9)])"
    assert ranges != object()


def test_refuses_reversed_and_assignment() -> None:
    with pytest.raises(Invalid):
        Ranges([(3, 2)])
    with pytest.raises(AttributeError):
        EMPTY.edges = (1, 2)
