"""Partitions whose base offset has not moved for long although records are undone. Pure."""

from collections.abc import Generator, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import ALERT_STUCK_SECONDS
from braid.kernel.timing.slices import finished
from services.lagmon.alerts.decisions.lanes.rows import Kept, RowMemory
from services.lagmon.columns.gathered import channel_columns
from services.lagmon.columns.lags import LagColumns, Lags
from services.lagmon.model.lag import LagRow

_EVERY = slice(None)


class BaseOffsets:
    """The base offset of every partition that has undone records, and since when it is known to be there."""

    def __init__(self) -> None:
        self._memory = RowMemory()

    def observe(self, rows: Iterable[LagRow], now: float) -> frozenset[tuple[str, str, int]]:
        """Notes the base offsets of a moment, and returns those that have not moved for long.

        Returns:
            (group, topic, partition) of each.
        """
        parts = channel_columns(rows)
        found: set[tuple[str, str, int]] = set()
        for part, bases in zip(parts, finished(self.follow(parts)), strict=True):
            for at in np.flatnonzero(stuck_rows(part.lags, bases, _EVERY, now)).tolist():
                key = part.keys[int(part.lags.pair[at])]
                found.add((key.group, key.topic, int(part.lags.partition[at])))
        return frozenset(found)

    def follow(self, parts: Sequence[LagColumns]) -> Generator[None, None, Sequence[Kept]]:
        """Returns the base offsets of each cluster's rows as they were at the last look, and since when."""
        return self._memory.follow(parts)


def stuck_rows(lags: Lags, bases: Kept, rows: slice, now: float) -> NDArray[np.bool_]:
    """Notes the base offsets of rows, and returns which of them have not moved for long.

    Args:
        lags: Some rows of a cluster.
        bases: What is known of all rows of the cluster.
        rows: Where those rows are among all.
    """
    offsets, since = bases.numbers[rows], bases.times[rows]
    watched = (lags.records > 0) & ~lags.foreign
    stays = watched & ~np.isnan(since) & (lags.stale | (offsets == lags.committed))
    begins = watched & ~stays
    offsets[begins], since[begins] = lags.committed[begins], now
    since[~watched] = np.nan
    stuck: NDArray[np.bool_] = now - since >= ALERT_STUCK_SECONDS  # never for NaN
    return stuck
