"""Decides which fetched records are for a group, and measures them before they wait; many at once. Pure."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.client.records.braid_headers import ingestion_times, of_other_groups, without_canaries
from braid.client.records.where import Where, chosen_by
from braid.kernel.limits.client import HEADER_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES
from braid.kernel.record_columns import RecordColumns


def weights_bytes(columns: RecordColumns) -> NDArray[np.int64]:
    """Returns how many bytes each record counts against the memory bound."""
    pieces = np.maximum(columns.values.sizes, 0) + np.maximum(columns.keys.sizes, 0)
    weights: NDArray[np.int64] = pieces + columns.header_counts * HEADER_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES
    return weights


def content_bytes(columns: RecordColumns, weights: NDArray[np.int64]) -> int:
    """Returns the bytes of keys and values in all, given the weights of the same records."""
    beside = int(columns.header_counts.sum()) * HEADER_OVERHEAD_BYTES + len(columns) * RECORD_OVERHEAD_BYTES
    return int(weights.sum()) - beside


class Sifted(NamedTuple):
    """The records that a filter lets through, with their times and sizes.

    Attributes:
        part: The records, in offset order.
        times: When each was sent, ms since the epoch.
        sizes: What each weighs in memory, bytes.
        skipped: How many the predicate left out.
        content: Bytes of keys and values of all that applications sent, wanted or not.
    """

    part: RecordColumns
    times: NDArray[np.int64]
    sizes: NDArray[np.int64]
    skipped: int
    content: int

    def of(self, chosen: NDArray[np.bool_]) -> "Sifted":
        """Returns some of the records."""
        if chosen.all():
            return self
        return self._replace(part=self.part.of(chosen), times=self.times[chosen], sizes=self.sizes[chosen])


class IntakeFilter:
    """The intake filter of one lease."""

    def __init__(self, group: str, where: Where | None, lane: str, salt: int) -> None:
        """`where` says which records are wanted (None: all); `salt` makes a lease's sample differ from others'."""
        self._group = group
        self._where = where
        self._lane = lane
        self._salt = salt

    def sift(self, part: RecordColumns) -> Sifted:
        """Drops canary records, replays addressed to another group, and records the filter rejects.

        Args:
            part: With the headers that `braid_headers.MARKS` names, then those of the predicate.
        """
        part = without_canaries(part)
        sizes = weights_bytes(part)
        found = Sifted(part, ingestion_times(part, part.headers[0]), sizes, 0, content_bytes(part, sizes))
        others = of_other_groups(part, part.headers[1], self._group)
        if others is not None:
            found = found.of(~others)
        if self._where is None:
            return found
        chosen = chosen_by(self._where, found.part, found.times, self._lane, self._salt)
        return found.of(chosen)._replace(skipped=len(chosen) - int(np.count_nonzero(chosen)))
