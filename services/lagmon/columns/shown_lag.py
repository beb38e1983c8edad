"""Rows of one table of lag as gauges show them, made at each read, in the reader's thread and not in the loop. Pure.

Metrics are read in threads. All gauges of a read share the rows made for the first one.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_METRICS_ROWS_MAX
from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.shown import ShownGroups, ShownPartitions, first_groups, first_partitions

Column = Literal["records", "seconds", "committed", "end"]
Join = Literal["most", "total"]
MOST: Final = "most"
TOTAL: Final = "total"
_PARTITION_BITS: Final = 32


class LabelledRows:
    """The rows of gauges whose labels are read from the same fields; rows of partitions with the same labels are one.

    Attributes:
        partitions: What the rows are made of.
    """

    def __init__(self, partitions: ShownPartitions, fields: Sequence[str]) -> None:
        """`fields` name what each label is read from, in the labels' order."""
        self.partitions = partitions
        self._fields = fields
        self._of_pairs = tuple(field for field in fields if field != "partition")
        by_pair = _numbers(partitions, self._of_pairs)
        number = by_pair[partitions.pair]
        if "partition" in fields:
            number = number << _PARTITION_BITS | partitions.partition
        order = np.argsort(number, kind="stable")
        ordered = number[order]
        self._order = order
        self._first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])

    def labels(self) -> Iterator[tuple[str, ...]]:
        """Yields the labels of each row."""
        partitions, fields = self.partitions, self._fields
        rows = self._order[self._first]
        for pair, partition in zip(partitions.pair[rows].tolist(), partitions.partition[rows].tolist(), strict=True):
            key = partitions.keys[pair]
            yield tuple(str(partition) if field == "partition" else getattr(key, field) for field in fields)

    def joined(self, column: Column, join: Join) -> Iterator[float | None]:
        """Yields the value of each row: the largest known one, or the total of those that are known; None for none."""
        values = getattr(self.partitions, column)[self._order]
        known = values >= 0  # offsets that are not known are below
        if not len(self._first):
            return iter(())
        found = (np.maximum if join == MOST else np.add).reduceat(np.where(known, values, 0), self._first)
        some = np.logical_or.reduceat(known, self._first)
        return (value if is_known else None for value, is_known in zip(found.tolist(), some.tolist(), strict=True))


class ShownLag:
    """The first rows of a table for gauges. Two threads that read at once may make them twice, which is harmless."""

    def __init__(
        self, clusters: Sequence[LagColumns] = (), channels: Sequence[LagColumns] = (), commits_left_out: int = 0
    ) -> None:
        """Keeps the table.

        Args:
            clusters: The lag of all clusters.
            channels: The same, without topics that are no channels.
            commits_left_out: Commits that found no room even before.
        """
        self._clusters = clusters
        self._channels = channels
        self.commits_left_out = commits_left_out
        self._tables: dict[Sequence[str], LabelledRows] = {}

    @cached_property
    def groups(self) -> ShownGroups:
        """Groups by lane and cluster."""
        return first_groups(self._channels, LAG_METRICS_ROWS_MAX)

    @cached_property
    def partitions(self) -> ShownPartitions:
        """Single partitions."""
        return first_partitions(self._clusters, LAG_METRICS_ROWS_MAX)

    @cached_property
    def whole_groups(self) -> ShownPartitions:
        """Single partitions of groups of which no row is left out."""
        return self.partitions.whole_groups()

    def table(self, fields: Sequence[str]) -> LabelledRows:
        """Returns the rows of gauges that read their labels from these fields."""
        known = self._tables.get(fields)
        if known is None:
            known = LabelledRows(self.partitions if "partition" in fields else self.whole_groups, fields)
            self._tables[fields] = known
        return known


def _numbers(partitions: ShownPartitions, fields: Sequence[str]) -> NDArray[np.int64]:
    """Numbers groups and topics so that those of which all these fields agree have the same number."""
    numbers: dict[str, int] = {}
    found = np.empty(len(partitions.keys), np.int64)
    for place, key in enumerate(partitions.keys):
        # One string, where a tuple would be an object more for each garbage collection.
        text = "\0".join([getattr(key, field) for field in fields])
        found[place] = numbers.setdefault(text, len(numbers))
    return found
