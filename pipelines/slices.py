"""Cuts a range of time into slices that are read one after another. Pure."""

import itertools
from datetime import datetime, timedelta
from typing import NamedTuple

from braid.kernel.errors import Invalid
from pipelines.limits import PIPELINE_SETTLED_SECONDS, PIPELINE_SLICES_MAX


class Slice(NamedTuple):
    """A part of a time range, without its end."""

    start: datetime
    end: datetime


def slices(start: datetime, end: datetime, length: timedelta, now: datetime) -> list[Slice]:
    """Cuts a range into slices without gaps.

    A log's offset for a time is final only once records of that time have stopped coming: between two slices near the
    present a late record could be missed. So no cut is younger than `PIPELINE_SETTLED_SECONDS`.

    Args:
        start: First time in the range.
        end: First time after it.
        length: Of a slice; the last may be longer.
        now: The present.

    Raises:
        Invalid: the range is empty, or has too many slices.
    """
    if start >= end:
        raise Invalid(
            f"--from {start.isoformat()} is not before --to {end.isoformat()}", field="--from", remedy="swap them"
        )
    last = min(end, now - timedelta(seconds=PIPELINE_SETTLED_SECONDS))
    count = max(0, -((start - last) // length) - 1)
    if count >= PIPELINE_SLICES_MAX:
        raise Invalid(
            f"the range has {count + 1} slices, more than {PIPELINE_SLICES_MAX}",
            field="--slice-minutes",
            remedy="make the slices longer",
        )
    cuts = [start, *(start + length * number for number in range(1, count + 1)), end]
    return [Slice(*pair) for pair in itertools.pairwise(cuts)]
