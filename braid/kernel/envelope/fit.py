"""Reduces a commit envelope until it fits: smaller and smaller truthful statements of the same progress.

Leaving out always means claiming less. Nothing here writes bytes except to measure them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from braid.kernel.envelope.coders import SizedRanges, encode_attempts
from braid.kernel.limits.envelope import ENVELOPE_ATTEMPTS_MAX
from braid.kernel.progress.fields import Cursor, EnvelopeFields
from braid.kernel.progress.ranges import EMPTY

_SLACK_BYTES: Final = 24  # tags, lengths and distances that may grow when a set or a base changes
SizeOf = Callable[[EnvelopeFields], int]


def cut(fields: EnvelopeFields, horizon: int) -> EnvelopeFields:
    """Returns the same progress without any claim at or above `horizon`; the base is lowered to it if necessary.

    Rejected and expired offsets are forgotten together with the claim on them, never without it.
    """
    base = min(fields.base, horizon)
    return replace(
        fields,
        base=base,
        done=fields.done.clip(base, horizon),
        cursors=tuple(_cut_cursor(cursor, horizon) for cursor in fields.cursors),
        rejected=fields.rejected.clip(0, horizon),
        expired=fields.expired.clip(0, horizon),
    )


def _cut_cursor(cursor: Cursor, horizon: int) -> Cursor:
    base = max(cursor.start, min(cursor.base, horizon))
    return replace(cursor, base=base, done=cursor.done.clip(base, horizon) if base < horizon else EMPTY)


def reductions(fields: EnvelopeFields, size_max: int, size_of: SizeOf) -> Iterator[EnvelopeFields]:
    """Yields ever smaller truthful statements of the same progress, until the last one that says anything.

    In this order: everything; without the rejected offsets that were stated before; without the claims farthest from
    the base; without the attempts farthest from the base; with a lowered base; and last, also without lanes, cursors
    and fingerprint. The first that fits is the one to commit. A lowered base leaves no rejected or expired offset
    claimed but unstated. A base is lowered only if something below it has to be stated: the offset itself needs no
    room.

    Args:
        fields: What is true.
        size_max: How many bytes there are for all of it.
        size_of: The exact size in bytes of a statement.
    """
    if len(fields.attempts) > ENVELOPE_ATTEMPTS_MAX:
        fields = replace(fields, attempts=fields.attempts[:ENVELOPE_ATTEMPTS_MAX])
    if fields.rejected_before:
        if not _hopeless(fields, size_max):
            yield whole(fields)
        fields = replace(fields, rejected_before=EMPTY)
    if not _hopeless(fields, size_max):
        yield fields
    yield _cut_to_fit(fields, size_max, size_of, lowest=fields.base)
    near = cut(fields, fields.base)
    yield _with_fewer_attempts(near, size_max, size_of)
    bare = replace(near, attempts=())
    plain = replace(bare, until=None, cursors=(), fingerprint=None, lanes=())
    for left in (bare, plain, *([replace(plain, spill=None)] if plain.spill is not None else [])):
        stated = left.rejected or left.expired
        yield _cut_to_fit(left, size_max, size_of, lowest=0) if stated else left


def _hopeless(fields: EnvelopeFields, size_max: int) -> bool:
    """Whether there are certainly too many ranges: each takes at least two bits with any coder."""
    spans = len(fields.done) + len(fields.rejected) + len(fields.expired)
    return spans > size_max * 4


def whole(fields: EnvelopeFields) -> EnvelopeFields:
    """Returns all of the progress; `rejected` includes the rejected offsets that were stated before."""
    return replace(fields, rejected=fields.rejected.union(fields.rejected_before), rejected_before=EMPTY)


def unstated(fields: EnvelopeFields) -> EnvelopeFields:
    """Returns what a commit without metadata may state: a base below every rejected or expired offset."""
    starts = [stated.start for stated in (fields.rejected, fields.expired) if stated.start is not None]
    return EnvelopeFields(base=min([fields.base, *starts]))


def left_out(fields: EnvelopeFields, stated: EnvelopeFields) -> int:
    """Counts rejected or expired offsets that a statement leaves out and no acknowledged commit stated.

    Nothing claims these offsets, so the next holder gets those that are still in the log again.
    """
    return fields.rejected.subtract(stated.rejected).count + fields.expired.subtract(stated.expired).count


def _cut_to_fit(fields: EnvelopeFields, size_max: int, size_of: SizeOf, lowest: int) -> EnvelopeFields:
    """Cuts at the highest horizon, not below `lowest`, whose statement surely fits; at the lowest one if none does."""
    sets = [fields.done, fields.rejected, fields.expired, *(cursor.done for cursor in fields.cursors)]
    sized = [SizedRanges(ranges) for ranges in sets]
    ends = np.sort(np.concatenate([one.ends for one in sized] + [one.starts for one in sized]), kind="stable")
    horizons = np.append(lowest, ends[ends > lowest])
    without = replace(
        cut(fields, fields.base),
        cursors=tuple(replace(cursor, done=EMPTY) for cursor in fields.cursors),
        rejected=EMPTY,
        expired=EMPTY,
    )
    room = size_max - size_of(without) - _SLACK_BYTES * (len(sets) + 1)
    low, high = 0, len(horizons) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if sum(one.size_below(int(horizons[middle])) for one in sized) <= room:
            low = middle
        else:
            high = middle - 1
    return _reach(fields, int(horizons[low]))


def _reach(fields: EnvelopeFields, horizon: int) -> EnvelopeFields:
    """Cuts at a horizon; a lowered base loses the fingerprint, which names the log just below the old one."""
    reached = cut(fields, horizon)
    return replace(reached, fingerprint=None) if reached.base < fields.base else reached


def _with_fewer_attempts(fields: EnvelopeFields, size_max: int, size_of: SizeOf) -> EnvelopeFields:
    room = size_max - size_of(replace(fields, attempts=())) - _SLACK_BYTES
    _, kept = encode_attempts(fields.attempts, fields.base, max(room, 0))
    return replace(fields, attempts=fields.attempts[:kept])
