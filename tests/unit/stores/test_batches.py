"""Limits of one append, and which tails are complete."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import CorruptHistory, Exhausted, Invalid
from braid.kernel.limits.store import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from braid.kernel.ports import HistoryId, Snapshot
from braid.stores.batches import check_append, whole_tail

LOGS = HistoryId("registry", "stream", "logs")


def _event(sequence: int) -> bytes:
    return b"%d" % sequence


def _batches(sizes: Sequence[int]) -> list[tuple[int, list[bytes]]]:
    batches: list[tuple[int, list[bytes]]] = []
    first = 1
    for size in sizes:
        batches.append((first, [_event(first + n) for n in range(size)]))
        first += size
    return batches


def test_bounds_of_an_append() -> None:
    check_append(LOGS, [b""] * APPEND_EVENTS_MAX)
    check_append(LOGS, [bytes(APPEND_BYTES_MAX)])
    with pytest.raises(Exhausted, match="121 events"):
        check_append(LOGS, [b""] * (APPEND_EVENTS_MAX + 1))
    with pytest.raises(Exhausted, match="split them"):
        check_append(LOGS, [bytes(APPEND_BYTES_MAX), b"x"])
    with pytest.raises(Invalid, match="carries no event"):
        check_append(LOGS, [])


@given(st.lists(st.integers(1, 5), max_size=8), st.data())
def test_a_whole_tail_is_every_event_after_the_snapshot(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    covered = data.draw(st.integers(0, total))
    snapshot = Snapshot(covered, b"") if covered else None
    batches = [(first, events) for first, events in _batches(sizes) if first + len(events) - 1 > covered]
    assert whole_tail(LOGS, snapshot, batches, total) == [_event(n) for n in range(covered + 1, total + 1)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_any_missing_or_doubled_batch_is_seen(sizes: list[int], data: st.DataObject) -> None:
    batches = _batches(sizes)
    at = data.draw(st.integers(0, len(batches) - 1))
    damaged = batches[:at] + data.draw(st.sampled_from([[], [batches[at]] * 2])) + batches[at + 1 :]
    with pytest.raises(CorruptHistory, match="registry/stream/logs is not whole"):
        whole_tail(LOGS, None, damaged, sum(sizes))


def test_a_batch_that_begins_too_early_is_seen() -> None:
    with pytest.raises(CorruptHistory, match="event 3 should follow, but the next batch begins at 2"):
        whole_tail(LOGS, None, [(1, [b"1", b"2"]), (2, [b"2", b"3"])], 3)
