"""Cursors of one partition as one progress and back: nothing claimed that none has done, nothing done forgotten."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.envelope import MetadataKind, decode, encode
from braid.kernel.progress.cursors import CursorPart, backlog_permille, divided, joined, live_cursor, tracker
from braid.kernel.progress.fields import Cursor, EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress

END = 120


@st.composite
def worked(draw: st.DrawFn) -> tuple[list[int], list[Progress], set[int], set[int]]:
    """Where cursors begin, their trackers, and what is done and rejected of the offsets below `END`."""
    starts = [0, *sorted(draw(st.sets(st.integers(1, END - 1), max_size=4)))]
    trackers, done, rejected = [], set[int](), set[int]()
    for start, until in zip(starts, [*starts[1:], END], strict=True):
        made = Progress(start)
        fetched = draw(st.integers(start, until))
        for offset in range(start, fetched):
            if draw(st.integers(0, 9)):  # else it is no record
                made.deliver(offset, 1_000 + offset)
        made.advance_fetched(fetched)
        for offset in [offset for offset in range(start, fetched) if not made.is_done(offset)]:
            match draw(st.sampled_from(("done", "done", "rejected", "tried", "out"))):
                case "done":
                    made.done(offset)
                case "rejected":
                    made.reject(offset)
                    rejected.add(offset)
                case "tried":
                    made.attempt(offset)
        trackers.append(made)
        done |= {offset for offset in range(start, fetched) if made.is_done(offset)}
    return starts, trackers, done, rejected


def stated(starts: Sequence[int], trackers: Sequence[Progress]) -> EnvelopeFields:
    """The commit of these cursors."""
    untils = [*starts[1:], None]
    parts = [
        CursorPart(start, until, each.snapshot()) for start, until, each in zip(starts, untils, trackers, strict=True)
    ]
    return joined(parts, 250)


def members(ranges: Ranges) -> set[int]:
    """The offsets below `END`."""
    return {offset for start, end in ranges for offset in range(start, min(end, END))}


@given(worked())
def test_a_commit_of_cursors_claims_exactly_what_is_done(
    made: tuple[list[int], list[Progress], set[int], set[int]],
) -> None:
    starts, trackers, done, rejected = made
    fields = stated(starts, trackers)
    commit = encode(fields)
    decoded = decode(commit.offset, commit.metadata)
    assert decoded.kind is MetadataKind.ENVELOPE and not commit.truncated
    assert members(decoded.fields.claims) == done
    assert members(decoded.fields.rejected) == rejected
    parts = divided(decoded.fields, END)
    assert [part.start for part in parts] == starts
    again = [tracker(part) for part in parts]
    assert {offset for offset in range(END) if any(_owns(at, parts, offset) and each.is_done(offset)
            for at, each in enumerate(again))} == done  # fmt: skip
    once_more = stated(starts, again)
    assert members(once_more.claims) == done
    assert members(once_more.rejected | once_more.rejected_before) == rejected
    assert once_more.attempts == fields.attempts
    if len(starts) > 1:
        assert backlog_permille(decoded.fields) == 250
        live = live_cursor(decoded.fields)
        assert live is not None and live.start == starts[-1]
    assert members(Progress.restore(decoded.fields).snapshot().claims) == done, "read as one, by who knows no cursors"


def _owns(at: int, parts: Sequence[CursorPart], offset: int) -> bool:
    until = parts[at].until
    return parts[at].start <= offset and (until is None or offset < until)


@given(worked(), st.integers(0, END))
def test_a_shorter_log_is_never_claimed_beyond_its_end(
    made: tuple[list[int], list[Progress], set[int], set[int]], end: int
) -> None:
    starts, trackers, done, _ = made
    commit = encode(stated(starts, trackers))
    decoded = decode(commit.offset, commit.metadata, end)
    parts = divided(decoded.fields, end)
    for part in parts:
        each = tracker(part)
        assert part is parts[-1] or part.start <= end
        assert each.base <= max(end, part.start) and {n for n in range(part.start, END) if each.is_done(n)} <= {
            *done,
            *(n for n in range(END) if part.until is not None and n >= part.until),
        }
    assert parts[-1].start <= end, "a head beyond the log's end is of another time"


def test_cursors_that_do_not_follow_each_other_are_read_as_one() -> None:
    gap = Cursor(50, 60)
    for fields in (
        EnvelopeFields(base=10, until=40, cursors=(gap,)),
        EnvelopeFields(base=10, cursors=(gap,)),
        EnvelopeFields(base=10, until=50, cursors=(Cursor(50, 60, 70),)),
        EnvelopeFields(base=10, until=50, cursors=(gap, Cursor(50, 55))),
    ):
        (part,) = divided(fields)
        assert (part.start, part.until) == (0, None)
        assert tracker(part).snapshot().claims == fields.claims


def test_a_backlogs_age_is_its_newest_records_when_none_is_out() -> None:
    backlog, live = Progress(0), Progress(50)
    for offset in range(10):
        backlog.deliver(offset, 1_000 + offset)
        backlog.done(offset)
    live.deliver(50, 9_000)
    fields = stated([0, 50], [backlog, live])
    assert (fields.oldest_ingested_at_ms, fields.head_ingested_at_ms) == (1_009, 9_000)
    found = live_cursor(fields)
    assert found is not None and found.oldest_ingested_at_ms == 9_000
    low, high = (tracker(part) for part in divided(fields))
    assert (low.head_ingested_at_ms, high.head_ingested_at_ms) == (1_009, 9_000)
    live.done(50)
    assert (found := live_cursor(stated([0, 50], [backlog, live]))) and found.oldest_ingested_at_ms is None
