"""One partition that is worked on at several places: backlog cursors on older ranges, a live cursor at the head.

Pure. Each cursor has a tracker of its own. A commit states them as one progress (`joined`), and a commit's statement
becomes trackers again (`divided`). Ranges of cursors follow each other without a gap; the last one follows the log's
end.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from braid.kernel.progress.fields import Cursor, EnvelopeFields
from braid.kernel.progress.ranges import EMPTY, Ranges
from braid.kernel.progress.tracker import Progress

_NEVER: Final = 1 << 63


class CursorPart(NamedTuple):
    """The values that one cursor's tracker holds, or is restored from.

    Attributes:
        start: First offset of its range; 0 for the lowest.
        until: End of its range, None for the one that follows the log's end.
        fields: Its own progress.
    """

    start: int
    until: int | None
    fields: EnvelopeFields


def joined(parts: Sequence[CursorPart], backlog_permille: int) -> EnvelopeFields:
    """Joins all cursors, by increasing offset, into what a commit states; header fields are the last cursor's.

    Args:
        parts: At least one; each range begins where the one before it ends.
        backlog_permille: The share of the work that all but the last may take, in thousandths.
    """
    first, live = parts[0], parts[-1]
    if len(parts) == 1:
        return live.fields
    cursors = [_cursor(part) for part in parts[1:]]
    cursors[-1] = replace(cursors[-1], backlog_permille=backlog_permille)
    heads = [part.fields.head_ingested_at_ms for part in parts if part.fields.head_ingested_at_ms is not None]
    return replace(
        live.fields,
        base=first.fields.base,
        done=_within(first.fields.done, first),
        until=first.until,
        cursors=tuple(cursors),
        oldest_ingested_at_ms=_oldest(first.fields),
        head_ingested_at_ms=heads[-1] if heads else None,
        attempts=tuple(attempt for part in parts for attempt in part.fields.attempts),
        rejected=_union([first.fields.rejected, *(_rejected(part.fields) for part in parts[1:])]),
        rejected_before=first.fields.rejected_before,
        expired=_union([part.fields.expired for part in parts]),
    )


def divided(fields: EnvelopeFields, log_end: int | None = None) -> Sequence[CursorPart]:
    """Returns the cursors that a commit states, by increasing offset; a single one if they do not follow each other.

    Args:
        fields: What was committed.
        log_end: The log's end, if known. A live cursor beyond it belongs to an earlier log and is ignored.
    """
    cursors = sorted(fields.cursors, key=lambda cursor: cursor.start)
    ends = [fields.until, *(cursor.until for cursor in cursors)]
    chained = all(end == cursor.start for end, cursor in zip(ends, cursors, strict=False))
    beyond = bool(cursors) and log_end is not None and cursors[-1].start > log_end
    edges = [0, *(cursor.start for cursor in cursors), _NEVER]
    rising = all(low < high for low, high in pairwise(edges))
    if not cursors or not chained or ends[-1] is not None or beyond or not rising:
        return [CursorPart(0, None, fields)]
    bases = [fields.base, *(cursor.base for cursor in cursors)]
    oldest = [fields.oldest_ingested_at_ms, *(cursor.oldest_ingested_at_ms for cursor in cursors)]
    return [
        CursorPart(low, None if high == _NEVER else high, _own(fields, low, high, base, at))
        for (low, high), base, at in zip(pairwise(edges), bases, oldest, strict=True)
    ]


def tracker(part: CursorPart) -> Progress:
    """Returns the tracker that continues in one cursor's range."""
    fields = part.fields
    made = Progress.restore(fields)
    if part.start:  # it lies above the committed offset, so what it skipped there is to be stated again
        made.inherit(fields.rejected.clip(part.start, fields.base), fields.expired.clip(part.start, fields.base))
    return made


def backlog_permille(fields: EnvelopeFields) -> int:
    """The share that backlog cursors may take, in thousandths; 0 when the commit says none."""
    return max((cursor.backlog_permille for cursor in fields.cursors), default=0)


def live_cursor(fields: EnvelopeFields) -> Cursor | None:
    """The further cursor that follows the log's end; None where the partition is not split."""
    return next((cursor for cursor in fields.cursors if cursor.until is None), None)


def _own(fields: EnvelopeFields, low: int, high: int, base: int, oldest: int | None) -> EnvelopeFields:
    """Returns the part of a commit that lies within one cursor's range.

    `oldest` is all it says of how old a backlog is.
    """
    return replace(
        fields,
        base=base,
        done=fields.claims.clip(base, high),
        until=None,
        cursors=(),
        oldest_ingested_at_ms=oldest,
        head_ingested_at_ms=fields.head_ingested_at_ms if high == _NEVER else oldest,
        attempts=tuple(attempt for attempt in fields.attempts if low <= attempt.offset < high),
        rejected=fields.rejected.clip(low, high),
        rejected_before=fields.rejected_before.clip(low, high),
        expired=fields.expired.clip(low, high),
    )


def _cursor(part: CursorPart) -> Cursor:
    fields = part.fields
    return Cursor(
        part.start, fields.base, part.until, _within(fields.done, part), oldest_ingested_at_ms=_own_oldest(part)
    )


def _own_oldest(part: CursorPart) -> int | None:
    """A backlog says when its newest record was sent if nothing else; a live cursor is done with all it has had."""
    return part.fields.oldest_ingested_at_ms if part.until is None else _oldest(part.fields)


def _oldest(fields: EnvelopeFields) -> int | None:
    """No undone record of a backlog is older, fetched or not, so far as records were sent in order."""
    known = fields.oldest_ingested_at_ms
    return fields.head_ingested_at_ms if known is None else known


def _rejected(fields: EnvelopeFields) -> Ranges:
    """Rejected offsets of a further cursor: above the committed offset all are stated, as long as they are claimed."""
    return fields.rejected.union(fields.rejected_before)


def _within(done: Ranges, part: CursorPart) -> Ranges:
    return done if part.until is None else done.clip(part.fields.base, part.until)


def _union(sets: Sequence[Ranges]) -> Ranges:
    together = EMPTY
    for each in sets:
        together = together.union(each)
    return together
