"""The progress tracker agrees with a model made of plain sets, and never claims what is not done."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.envelope import encode
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import REJECTED_RANGES_KEPT_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress

HORIZON = 400


def delivered(base: int, count: int) -> Progress:
    """A tracker with `count` records delivered from `base` on; a record's time is 1000 + its offset."""
    progress = Progress(base)
    for offset in range(base, base + count):
        assert progress.deliver(offset, 1000 + offset)
    return progress


def test_the_base_passes_only_done_work_in_any_finishing_order() -> None:
    progress = delivered(10, 5)
    assert progress.done(12)
    assert progress.done(14)
    assert (progress.base, progress.done_ranges, progress.in_flight) == (10, Ranges([(12, 13), (14, 15)]), 3)
    assert progress.oldest_unfinished() == (10, 1010)
    assert progress.done(10)
    assert progress.oldest_unfinished() == (11, 1011)
    assert progress.done(11)
    assert (progress.base, progress.done_ranges) == (13, Ranges([(14, 15)]))
    assert progress.done(13)
    assert (progress.base, progress.in_flight, progress.oldest_unfinished()) == (15, 0, None)
    assert progress.head_ingested_at_ms == 1014


def test_a_repeated_acknowledgement_is_harmless() -> None:
    progress = delivered(0, 3)
    assert progress.done(0)
    assert not progress.done(0)
    assert progress.base == 1
    assert not progress.done(0)
    assert progress.in_flight == 2


@pytest.mark.parametrize("offset", [4, 12, 20, 99])
def test_acknowledging_what_was_never_delivered_raises(offset: int) -> None:
    progress = delivered(10, 2)
    progress.advance_fetched(14)
    progress.deliver(14, 0)
    for act in (progress.done, progress.reject, progress.attempt):
        with pytest.raises(Invalid) as refused:
            act(offset)
        assert refused.value.field == "offset"
    with pytest.raises(Invalid):
        progress.done_many(np.array([10, offset]))
    assert (progress.base, progress.in_flight) == (10, 3)
    assert progress.deliver(15, 0), "no view of the arrays may have survived the error"


def test_passed_offsets_are_done_once_the_fetch_position_is_past() -> None:
    progress = Progress(0)
    progress.deliver(0, 1)
    progress.done(0)
    assert progress.base == 1
    progress.advance_fetched(3)
    assert progress.base == 3
    progress.deliver(5, 1)
    assert progress.base == 5
    progress.undeliverable(6, 9)
    assert progress.done_ranges == Ranges([(6, 9)])
    progress.undeliverable(12, 14)
    assert progress.done_ranges == Ranges([(6, 9), (12, 14)])
    assert progress.is_done(13)
    assert not progress.is_done(9)


def test_a_record_delivered_twice_is_handed_out_once() -> None:
    progress = delivered(0, 4)
    progress.done(1)
    assert not progress.deliver(1, 0)
    assert not progress.deliver(3, 0)
    assert progress.in_flight == 3


def test_attempts_are_counted_until_the_record_is_done() -> None:
    progress = delivered(0, 3)
    assert [progress.attempt(1), progress.attempt(1), progress.attempt(2)] == [1, 2, 1]
    assert progress.snapshot().attempts == (Attempts(1, 2), Attempts(2, 1))
    progress.done(1)
    assert (progress.attempts(1), progress.attempt(1)) == (0, 0)
    progress.done_many(np.array([0, 2]))
    assert progress.snapshot().attempts == ()


def test_a_rejected_range_is_stated_as_a_whole() -> None:
    progress = Progress(0)
    progress.deliver(3, 0)
    progress.advance_fetched(9)
    progress.reject(3)
    progress.reject_range(3, 9)
    stated = progress.snapshot()
    assert (stated.base, stated.rejected) == (9, Ranges([(3, 9)]))
    progress.acknowledge(stated)
    later = progress.snapshot()
    assert (later.rejected, later.rejected_before) == (Ranges([]), Ranges([(3, 9)]))


def test_the_next_holder_knows_the_newest_of_the_rejections() -> None:
    progress = delivered(0, 400)
    for offset in range(0, 400, 2):
        progress.reject(offset)
        progress.done(offset + 1)
    progress.acknowledge(progress.snapshot())
    newest = Ranges.of_offsets(range(400 - 2 * REJECTED_RANGES_KEPT_MAX, 400, 2))
    for holder in (progress, Progress.restore(encode(progress.snapshot()).stated)):
        known = holder.snapshot()
        assert (known.base, known.rejected, known.rejected_before) == (400, Ranges([]), newest)


def test_rejections_are_stated_until_that_commit_is_acknowledged() -> None:
    progress = delivered(0, 6)
    progress.reject(0)
    progress.reject(4)
    assert not progress.reject(4)
    stated = progress.snapshot()
    assert (stated.base, stated.rejected) == (1, Ranges([(0, 1), (4, 5)]))
    progress.reject(1)
    progress.acknowledge(stated)
    assert progress.snapshot().rejected == Ranges([(1, 2), (4, 5)])


def test_expired_offsets_are_done_and_named_exactly() -> None:
    progress = delivered(0, 6)
    progress.done(1)
    progress.attempt(2)
    progress.undeliverable(8, 9)
    assert progress.expire(0, 12) == Ranges([(0, 1), (2, 8), (9, 12)])
    assert (progress.base, progress.in_flight, progress.fetched) == (12, 0, 12)
    assert not progress.done(3), "a late acknowledgement of an expired record is harmless"
    stated = progress.snapshot()
    assert stated.expired.count == 10
    assert stated.attempts == ()
    progress.acknowledge(stated)
    assert not progress.snapshot().expired


def test_restore_refuses_what_was_done_and_keeps_attempts() -> None:
    progress = delivered(0, 10)
    for offset in (0, 3, 4, 8):
        progress.done(offset)
    progress.attempt(5)
    stated = progress.snapshot(
        epoch=7, detached=True, fingerprint=Fingerprint(bytes(16), 1, 2), lanes=(LaneShare("live", 8),)
    )
    restored = Progress.restore(stated)
    assert (restored.base, restored.done_ranges) == (1, Ranges([(3, 5), (8, 9)]))
    handled = [offset for offset in range(1, 10) if restored.deliver(offset, 0)]
    assert handled == [1, 2, 5, 6, 7, 9]
    assert (restored.attempts(5), restored.attempt(5)) == (1, 2)
    assert restored.done_many(np.array(handled)) == 6
    assert restored.base == 10


def test_restore_merges_the_claims_of_every_cursor() -> None:
    live = Cursor(start=100, base=110, done=Ranges([(112, 113)]))
    restored = Progress.restore(EnvelopeFields(base=10, done=Ranges([(20, 30)]), until=100, cursors=(live,)))
    assert restored.done_ranges == Ranges([(20, 30), (100, 110), (112, 113)])


def test_batches_are_delivered_and_acknowledged_as_arrays() -> None:
    progress = Progress(0)
    offsets = np.arange(0, 1000, dtype=np.int64)
    assert progress.deliver_many(offsets, offsets + 5).all()
    assert progress.done_many(offsets, offsets % 2 == 1) == 500
    assert progress.done_many(np.array([1, 1, 3, 2])) == 1
    assert (progress.base, progress.in_flight) == (0, 499)
    assert progress.oldest_unfinished() == (0, 5)
    assert progress.done_many(offsets) == 499
    assert (progress.base, progress.done_many(offsets)) == (1000, 0)
    assert progress.deliver_many(offsets + 1000, offsets).all()
    assert progress.done_some((offsets[100:300] + 1000).tolist()) == 200
    assert (progress.base, progress.in_flight) == (1000, 800)
    assert not progress.deliver_many(np.empty(0, np.int64), np.empty(0, np.int64)).size


def test_a_batch_over_done_ranges_says_which_records_to_handle() -> None:
    progress = Progress.restore(EnvelopeFields(base=0, done=Ranges([(2, 4)])))
    offsets = np.arange(6, dtype=np.int64)
    assert progress.deliver_many(offsets, offsets).tolist() == [True, True, False, False, True, True]
    with pytest.raises(Invalid):
        progress.deliver_many(np.array([9, 8]), np.array([1, 1]))


@given(st.sets(st.integers(0, 60)), st.integers(0, 30), st.sets(st.integers(0, 60)))
def test_a_batch_is_delivered_as_its_records_would_be_one_by_one(
    done: set[int], advanced: int, batch: set[int]
) -> None:
    together, single = (Progress.restore(EnvelopeFields(base=0, done=Ranges.of_offsets(done))) for _ in range(2))
    for progress in (together, single):
        progress.advance_fetched(advanced)
    offsets = sorted(batch)
    expected = [single.deliver(offset, offset) for offset in offsets]
    assert together.deliver_many(offsets, offsets).tolist() == expected
    assert together.snapshot() == single.snapshot()
    assert (together.fetched, together.in_flight) == (single.fetched, single.in_flight)


def test_memory_follows_the_window_not_the_offsets() -> None:
    progress = Progress(0)
    for offset in range(60_000):
        progress.deliver(offset, offset)
        if offset >= 100:
            progress.done(offset - 100)
        if offset % 100 == 0:
            assert progress.base == max(0, offset - 99)
    assert progress.tracked < 10_000
    progress.expire(0, 1 << 40)
    assert progress.base == 1 << 40
    assert progress.tracked == 0


@pytest.mark.parametrize("together", [False, True])
def test_memory_follows_unfinished_work_while_one_record_sticks(together: bool) -> None:
    progress = Progress(0)
    progress.deliver_many(np.array([0]), np.array([7]))
    for first in range(1, 200_000, 1_000):
        batch = np.arange(first, first + 1_000)
        progress.deliver_many(batch, batch)
        if together:
            progress.done_many(batch)
        else:
            assert progress.done_some(batch[::-1].tolist()) == 1_000
        assert progress.base == 0
        assert progress.tracked < 10_000
    assert progress.snapshot().done.edges == (1, 200_001)
    assert progress.head_ingested_at_ms == 200_000
    assert (progress.oldest_unfinished(), progress.done(5)) == ((0, 7), False)
    progress.advance_fetched(200_010)
    with pytest.raises(Invalid):
        progress.done(200_005)


def test_attempts_of_others_do_not_hide_a_batch() -> None:
    progress = delivered(0, 100)
    for offset in (3, 60, 90):
        progress.attempt(offset)
    assert progress.done_many(np.arange(50, 80)) == 30
    assert progress.done_many(np.array([3, 4])) == 2
    assert [progress.attempts(offset) for offset in (3, 60, 90)] == [0, 0, 1]
    progress.expire(85, 95)
    assert progress.snapshot().attempts == ()


@given(st.lists(st.integers(0, 199), unique=True), st.integers(1, 50))
def test_offsets_far_apart_need_no_memory_between_them(picked: list[int], stride: int) -> None:
    progress = Progress(0)
    offsets = [offset * stride * 10_000_000 for offset in range(200)]
    for offset in offsets:
        progress.deliver(offset, offset)
    for index in picked:
        progress.done(offsets[index])
    left = [offset for index, offset in enumerate(offsets) if index not in set(picked)]
    assert progress.unfinished().tolist() == left
    assert progress.base == (left[0] if left else offsets[-1] + 1)


def test_first_wanted_passes_what_is_done_and_what_was_delivered() -> None:
    progress = Progress.restore(EnvelopeFields(base=2, done=Ranges([(3, 5), (7, 9)])))
    assert [progress.first_wanted(*span) for span in ((0, 9), (3, 9), (3, 5), (7, 12), (7, 9))] == [2, 5, None, 9, None]
    progress.deliver(2, 0)
    assert (progress.first_wanted(2, 6), progress.first_wanted(2, 5)) == (5, None)
