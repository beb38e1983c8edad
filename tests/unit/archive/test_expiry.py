"""Expiry deletes exactly the objects that no answer within the retention needs."""

from typing import Final

from braid.archive.expiry import expired
from braid.archive.names import BaseName, SegmentName
from braid.kernel.ports import HistoryId

GROUP = HistoryId("assigner", "group", "indexer")


def part(first: int, last: int, earliest_ms: int, latest_ms: int, incarnation: int = 1) -> SegmentName:
    """A segment's name."""
    return SegmentName(GROUP, first, last, earliest_ms, latest_ms, "0" * 16, "1" * 16, incarnation)


def base(sequence: int, time_ms: int, incarnation: int = 1) -> BaseName:
    """A base's name."""
    return BaseName(GROUP, sequence, time_ms, "0" * 16, incarnation)


FOUND: Final[list[SegmentName | BaseName]] = [
    part(1, 10, 0, 100),
    base(10, 100),
    part(11, 20, 101, 200),
    base(20, 200),
    part(21, 30, 201, 300),
    base(30, 300),
]


def test_the_newest_base_from_before_and_all_after_it_are_kept() -> None:
    assert expired(FOUND, 250) == [FOUND[0], FOUND[1], FOUND[2]]
    assert expired(FOUND, 150) == [FOUND[0]]
    assert expired(FOUND, 1_000) == FOUND[:5]


def test_nothing_goes_without_a_base_to_fold_from() -> None:
    assert expired(FOUND, 50) == []
    assert expired([name for name in FOUND if isinstance(name, SegmentName)], 1_000) == []


def test_a_segment_with_an_event_of_a_fast_clock_stays() -> None:
    late = part(1, 10, 0, 9_999)
    assert expired([late, *FOUND[1:]], 250) == [FOUND[1], FOUND[2]]


def test_a_base_forgotten_by_a_restored_store_expires_nothing() -> None:
    restored: list[SegmentName | BaseName] = [
        part(16, 25, 320, 400, 2),
        part(26, 30, 401, 500, 2),
        base(30, 500, 2),
    ]  # from a backup at event 15
    assert expired([*FOUND, *restored], 350) == [FOUND[0]], "folded from event 10: 20 and 30 are other events now"
    gone = expired([*FOUND, *restored], 501)
    assert gone == [*FOUND[:5], *restored[:2]], "and what was forgotten goes in its time"
