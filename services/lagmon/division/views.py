"""Another replica's reading of one cluster, as this replica has it from its answers. Pure.

Ages grow on this replica's clock from the moment it asked, so that an answer that came late is not taken for newer than
it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.division import LAG_SHARED_STALE_SECONDS
from braid.kernel.limits.lagmon.sampling import LAG_PROGRESS_MAX
from services.lagmon.columns.lags import LagColumns, spans_of
from services.lagmon.columns.pairs import PairKey, pairs_of
from services.lagmon.division.exported import SharedPairs, SharedRows
from services.lagmon.division.packing import DamagedColumns
from services.lagmon.division.shared_rows import Seen, SharedNumbers, lags_of
from services.lagmon.division.standing import Standing
from services.lagmon.model.mesh_view import ClusterPlace
from services.lagmon.policy import Now

_Ints = NDArray[np.int64]


class SharedReading(NamedTuple):
    """Facts that a replica states about a cluster that it reads, beside rows. Times are milliseconds on its clock.

    Attributes:
        cluster: Its name.
        place: Where the replica reads it: a cluster of the same name elsewhere is another.
        version: Of its rows.
        size: How many rows.
        everything: Whether all rows come with it, not those that changed.
        caught_up: Whether the offset log was read to its end.
        read_ms: When the offset log last answered.
        seen: When ends of logs were seen.
    """

    cluster: str
    place: ClusterPlace
    version: int
    size: int
    everything: bool
    caught_up: bool
    read_ms: int
    seen: Seen


@dataclass(frozen=True)
class ClusterView:
    """A reading of a cluster by another replica. Arrays are replaced, never changed: tables still hold them.

    Attributes:
        reading: What the replica said of it.
        behind: This replica's clock less the other's, seconds; at least, as the answer took time.
        keys, pair, partition, numbers, metadata: The rows.
        starts: By pair, where its rows begin; one more entry says where the last ones end.
    """

    reading: SharedReading
    behind: float
    keys: Sequence[PairKey]
    pair: _Ints
    partition: _Ints
    starts: _Ints
    numbers: SharedNumbers
    metadata: NDArray[np.object_] = field(repr=False)

    @property
    def standing(self) -> Standing:
        """The worth of the reading, on this replica's clock."""
        reading = self.reading
        read_at, looked_at = reading.read_ms / 1_000 + self.behind, reading.seen.newest_ms / 1_000 + self.behind
        return Standing(reading.caught_up, read_at, looked_at, LAG_SHARED_STALE_SECONDS)

    def columns(self, now: Now, groups: Collection[str] | None = None) -> LagColumns:
        """Returns its rows as they are now, or those of some groups: older by the time since they were read."""
        theirs, shown = Now(now.elapsed - self.behind, now.wall_ms), self if groups is None else self._of_groups(groups)
        lags = lags_of(shown.pair, shown.partition, shown.numbers, shown.metadata, self.reading.seen, theirs)
        return LagColumns(self.keys, lags, shown.starts)

    def _of_groups(self, groups: Collection[str]) -> "ClusterView":
        rows = spans_of(self.starts, pairs_of(self.keys, groups))
        pair = self.pair[rows]
        return replace(
            self,
            pair=pair,
            partition=self.partition[rows],
            starts=np.searchsorted(pair, np.arange(len(self.keys) + 1)),
            numbers=SharedNumbers._make(column[rows] for column in self.numbers),
            metadata=self.metadata[rows],
        )


def renewed(
    known: ClusterView | None,
    reading: SharedReading,
    behind: float,
    parts: Sequence[SharedPairs | SharedRows],
) -> ClusterView:
    """Returns a view with an answer's reading and rows.

    Raises:
        DamagedColumns: the answer does not fit itself, or what is known.
    """
    if not 0 <= reading.size <= LAG_PROGRESS_MAX:
        raise DamagedColumns(f"a reading of {reading.size} rows")
    if reading.everything:
        return _whole(reading, behind, parts)
    if known is None or known.reading.size != reading.size:
        raise DamagedColumns("changes of rows that are not known")
    rows = [part for part in parts if isinstance(part, SharedRows)]
    if not rows:
        return replace(known, reading=reading, behind=behind)
    numbers, metadata = SharedNumbers._make(column.copy() for column in known.numbers), known.metadata.copy()
    _put(numbers, metadata, rows, reading.size)
    return replace(known, reading=reading, behind=behind, numbers=numbers, metadata=metadata)


def _whole(reading: SharedReading, behind: float, parts: Sequence[SharedPairs | SharedRows]) -> ClusterView:
    keys = [key for part in parts if isinstance(part, SharedPairs) for key in part.keys]
    rows = [part for part in parts if isinstance(part, SharedRows)]
    if any(before >= after for before, after in pairwise(keys)):
        raise DamagedColumns("groups and topics that are not in order")
    empty = np.zeros(0, np.int64)
    places, pair, partition = (
        np.concatenate([empty, *(getattr(part, name) for part in rows)]) for name in ("places", "pair", "partition")
    )
    if not np.array_equal(places, np.arange(reading.size)) or len(pair) != reading.size:
        raise DamagedColumns("rows that are missing, or come twice")
    if len(pair) and not 0 <= int(pair.min()) <= int(pair.max()) < len(keys):
        raise DamagedColumns("rows of no group and topic")
    if (np.diff(pair) < 0).any():
        raise DamagedColumns("rows that are not in order")
    numbers = SharedNumbers._make(np.zeros(reading.size, np.int64) for _ in SharedNumbers._fields)
    metadata = np.full(reading.size, b"", np.object_)
    _put(numbers, metadata, rows, reading.size)
    starts = np.searchsorted(pair, np.arange(len(keys) + 1))
    return ClusterView(reading, behind, keys, pair, partition, starts, numbers, metadata)


def _put(numbers: SharedNumbers, metadata: NDArray[np.object_], rows: Sequence[SharedRows], size: int) -> None:
    for part in rows:
        places = part.places
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < size:
            raise DamagedColumns("changes of rows that are not there")
        for column, values in zip(numbers, part.numbers, strict=True):
            column[places] = values
        texts = np.empty(len(places), np.object_)
        texts[:] = part.metadata
        metadata[places] = texts
    sources = numbers.marks & 7
    if len(sources) and not 1 <= int(sources.min()) <= int(sources.max()) <= 5:
        raise DamagedColumns("a source of an age that is not known")
