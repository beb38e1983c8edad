"""Lost and given-up records, derived from known ends; and what an operator must name of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Refused
from braid.kernel.offset_ranges import OPEN, OffsetRange
from services.registry.model.clusters.losses import below, check_accepted, missing, undone

NAMED = (OffsetRange(0, 17, 23), OffsetRange(1, 0, OPEN))
SMALL = st.integers(0, 12)


@given(st.lists(st.lists(SMALL, min_size=3, max_size=3), max_size=4), st.lists(SMALL, min_size=3, max_size=3))
def test_what_is_missing_is_what_anybody_knew_beyond_the_end(known: list[list[int]], ends: list[int]) -> None:
    expected = {(number, at) for each in known for number in range(3) for at in range(ends[number], each[number])}
    found = missing(known, ends)
    assert {(each.partition, at) for each in found for at in range(each.first, each.last + 1)} == expected


def test_what_is_below_an_end_that_nobody_knows_is_open() -> None:
    assert below((3, 0, OPEN)) == (OffsetRange(0, 0, 2), OffsetRange(2, 0, OPEN))


def test_a_groups_unfinished_work_begins_at_its_base_or_the_log() -> None:
    assert undone((4, -1, 9, 9), (0, 2, 0, 0), (6, 5, 9, 7)) == (OffsetRange(0, 4, 5), OffsetRange(1, 2, 4))


def test_only_the_exact_naming_is_accepted() -> None:
    check_accepted((OffsetRange(1, 0, OPEN), OffsetRange(0, 17, 20), OffsetRange(0, 21, 23)), NAMED, "logs/live/1")
    check_accepted((), (), "logs/live/1")
    for wrong in ((), NAMED[:1], (OffsetRange(0, 17, 24), NAMED[1]), (NAMED[0], OffsetRange(1, 0, 99))):
        with pytest.raises(Refused) as caught:
            check_accepted(wrong, NAMED, "logs/live/1")
        assert caught.value.remedy.endswith("braid close channel logs/live/1 --accept-loss 0:17-23,1:0-")
