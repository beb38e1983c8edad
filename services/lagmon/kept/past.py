"""Reads the kept rows of some series, oldest first: five minutes each, and ten seconds each for the last hours. Blocks.

A chunk that is damaged or was dropped meanwhile is a gap.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.limits.lagmon.kept_lag import (
    KEPT_LAG_COARSE_STEP_MS,
    KEPT_LAG_PAST_FINE_MS,
    KEPT_LAG_PAST_MS,
    KEPT_LAG_STEP_MS,
)
from services.lagmon.kept.chunks import Damaged
from services.lagmon.kept.reading import Query, Source
from services.lagmon.kept.rows import Columns, SeriesKey
from services.lagmon.kept.store import KeptStore


class PastRows(NamedTuple):
    """Consecutive rows of some series.

    Attributes:
        times_ms, stepped: Of each row.
        columns: Shape (columns, rows), by series.
        step_ms: The length of a row.
    """

    times_ms: Sequence[int]
    stepped: Sequence[bool]
    columns: Mapping[SeriesKey, Columns]
    step_ms: int


class Stretch(NamedTuple):
    """A range of rows of one length, and what opens its chunks in order."""

    step_ms: int
    since_ms: int
    until_ms: int
    sources: Sequence[Callable[[], Source]]


def stretches(store: KeptStore, until_ms: int) -> Sequence[Stretch]:
    """Returns what is to be read of a store, up to a time; belongs on the loop that keeps."""
    step = KEPT_LAG_COARSE_STEP_MS
    fine_since = store.since_ms()["fine"]
    oldest = until_ms - KEPT_LAG_PAST_FINE_MS
    fine_from = until_ms if fine_since is None else max(oldest - oldest % step, -(-fine_since // step) * step)
    ranges = ((step, until_ms - KEPT_LAG_PAST_MS, fine_from), (KEPT_LAG_STEP_MS, fine_from, until_ms))
    found = []
    for step_ms, since_ms, end_ms in ranges:
        kept = store.resolution(step_ms, 0)
        query = Query("", "", "", since_ms, end_ms, step_ms)
        found.append(Stretch(step_ms, since_ms, end_ms, store.sources(kept, query)))
    return found


def read_past(parts: Sequence[Stretch], keys: Sequence[SeriesKey]) -> Iterator[PastRows]:
    """Yields the rows of those series in the order in which they were observed."""
    for part in parts:
        for open_source in part.sources:
            try:
                found = open_source().read(keys)
            except (Damaged, OSError):
                continue
            inside = [at for at, time_ms in enumerate(found.times_ms) if part.since_ms <= time_ms < part.until_ms]
            if inside:
                yield PastRows(
                    [found.times_ms[at] for at in inside],
                    [found.stepped[at] for at in inside],
                    {key: columns[:, inside] for key, columns in found.columns.items()},
                    part.step_ms,
                )
