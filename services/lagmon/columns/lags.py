"""The lag of one cluster at one instant as columns; rows are made of them where somebody reads rows. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.division import LAG_SHARED_STALE_SECONDS
from braid.kernel.limits.lagmon.sampling import LAG_ROWS_MADE_MAX, LAG_SLICE_ROWS
from services.lagmon.columns.pairs import PairKey
from services.lagmon.columns.progress import commit_of
from services.lagmon.model.lag import LagRow, RowKey, Source
from services.lagmon.policy import LONG_AGO

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]
_SOURCES: Final = {int(source): source for source in Source}
_PARTITION_BITS: Final = 32


class Lags(NamedTuple):
    """Fields of `LagRow` by row; `pair` is the place of the row's group and topic among the cluster's keys."""

    pair: _Ints
    partition: _Ints
    records: _Ints
    seconds: _Floats
    live_seconds: _Floats
    source: NDArray[np.int8]
    foreign: _Flags
    stale: _Flags
    unattended: _Flags
    as_of_ms: _Ints
    committed: _Ints
    end: _Ints
    commit_time_ms: _Ints
    has_commit: _Flags
    metadata: NDArray[np.object_]

    def of(self, chosen: _Ints | _Flags | slice) -> "Lags":
        """Returns some of the rows."""
        return Lags._make(column[chosen] for column in self)


class Sums(NamedTuple):
    """Fields of `LagRow` that sum up several rows, by their place in a table."""

    place: _Ints
    partitions: _Ints
    records: _Ints
    seconds: _Floats
    source: NDArray[np.int8]
    foreign: _Flags
    stale: _Flags
    as_of_ms: _Ints
    commit_time_ms: _Ints
    split_partitions: _Ints
    live_seconds: _Floats
    unattended: _Flags

    def together(self) -> "Sums":
        """Sums entries of one place, which stand together, as `model.lag.summed` sums rows."""
        if not len(self.place):
            return self
        first = np.flatnonzero(np.r_[True, self.place[1:] != self.place[:-1]])
        add, most, any_of = np.add.reduceat, np.maximum.reduceat, np.logical_or.reduceat
        return Sums(
            self.place[first],
            add(self.partitions, first),
            add(self.records, first),
            most(self.seconds, first),
            most(self.source, first),
            any_of(self.foreign, first),
            any_of(self.stale, first),
            np.minimum.reduceat(self.as_of_ms, first),
            most(self.commit_time_ms, first),
            add(self.split_partitions, first),
            most(self.live_seconds, first),
            any_of(self.unattended, first),
        )

    def rows(self, keys: Sequence[RowKey]) -> list[LagRow]:
        """Makes a row of each entry; `keys` are the table's."""
        return [
            LagRow(
                keys[place], count, records, seconds, _SOURCES[source], foreign, stale, as_of_ms,
                commit_time_ms=time_ms, split_partitions=splits, live_lag_seconds=live, unattended=unattended,
            )
            for (
                place, count, records, seconds, source, foreign, stale, as_of_ms, time_ms, splits, live, unattended,
            ) in zip(*(column.tolist() for column in self), strict=True)
        ]  # fmt: skip


def sums_together(parts: Sequence[Sums]) -> Sums:
    """Sums what several clusters have at the same places."""
    every = Sums._make(map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(every.place, kind="stable")
    return Sums._make(column[order] for column in every).together()


@dataclass(frozen=True, slots=True)
class LagColumns:
    """The lag of one cluster.

    Attributes:
        keys: Its groups and topics, sorted.
        lags: Its rows, sorted by key.
        starts: By pair, where its rows begin; one more entry says where the last ones end.
    """

    keys: Sequence[PairKey]
    lags: Lags
    starts: _Ints

    @classmethod
    def of(cls, keys: Sequence[PairKey], parts: Sequence[Lags]) -> "LagColumns":
        """Puts parts together and sorts them."""
        lags = Lags._make(map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]
        lags = lags.of(np.argsort(lags.pair << _PARTITION_BITS | lags.partition, kind="stable"))
        return cls(keys, lags, np.searchsorted(lags.pair, np.arange(len(keys) + 1)))

    def __len__(self) -> int:
        return len(self.lags.pair)

    def rows(self, chosen: slice | _Ints) -> list[LagRow]:
        """Makes rows of single partitions."""
        lags, keys = self.lags.of(chosen), self.keys
        split = ~np.isnan(lags.live_seconds)
        lags = lags._replace(live_seconds=np.where(split, lags.live_seconds, 0.0))
        return [
            LagRow(
                keys[pair].row(partition),
                1,
                records,
                seconds,
                _SOURCES[source],
                foreign,
                stale,
                as_of_ms,
                committed,
                end,
                time_ms,
                commit_of(committed, metadata, time_ms, LONG_AGO) if has_commit else None,
                int(live is not None and is_split),
                live,
                unattended,
            )
            for (
                pair, partition, records, seconds, live, source, foreign, stale, unattended, as_of_ms, committed, end,
                time_ms, has_commit, metadata,
            ), is_split in zip(zip(*(column.tolist() for column in lags), strict=True), split.tolist(), strict=True)
        ]  # fmt: skip

    def sums(self, pairs: _Ints, places: _Ints, *, exclude_foreign: bool) -> Sums:
        """Sums the rows of pairs that have the same place in a table; places do not decrease."""
        found = self.spans(pairs)
        each = np.repeat(places, self.starts[pairs + 1] - self.starts[pairs])
        if exclude_foreign:
            own = ~self.lags.foreign[found]
            found, each = found[own], each[own]
        lags = self.lags.of(found)
        split = ~np.isnan(lags.live_seconds)
        alone = Sums(
            each,
            np.ones(len(each), np.int64),
            lags.records,
            lags.seconds,
            lags.source,
            lags.foreign,
            lags.stale,
            lags.as_of_ms,
            lags.commit_time_ms,
            split.astype(np.int64),
            np.where(split, lags.live_seconds, 0.0),
            lags.unattended,
        )
        return alone.together()

    def older(self, pairs: _Ints, seconds: float, now_ms: int) -> "LagColumns":
        """Returns the rows of some pairs as they are so much later, as `model.lag.aged` says."""
        lags = self.lags.of(self.spans(pairs))
        undone, live = np.where(lags.records > 0, seconds, 0.0), lags.live_seconds
        lags = lags._replace(
            seconds=lags.seconds + undone,
            live_seconds=np.where(live > 0, live + undone, live),
            stale=lags.stale | (now_ms - lags.as_of_ms > LAG_SHARED_STALE_SECONDS * 1_000),
        )
        return LagColumns(self.keys, lags, np.searchsorted(lags.pair, np.arange(len(self.keys) + 1)))

    def of_streams(self) -> "LagColumns":
        """Returns the rows of channels alone, without topics that belong to no stream."""
        of_stream = np.array([bool(key.stream) for key in self.keys], np.bool_)
        if of_stream.all():
            return self
        return LagColumns.of(self.keys, [self.lags.of(of_stream[self.lags.pair])])

    def spans(self, pairs: _Ints) -> _Ints:
        """Returns the places of all rows of some pairs, in the pairs' order."""
        return spans_of(self.starts, pairs)


def spans_of(starts: _Ints, pairs: _Ints) -> _Ints:
    """Returns the places of all rows of some pairs, in the pairs' order; `starts` are as in `LagColumns`."""
    first, counts = starts[pairs], starts[pairs + 1] - starts[pairs]
    shift = np.repeat(first - (np.cumsum(counts) - counts), counts)
    found: _Ints = np.arange(int(counts.sum()), dtype=np.int64) + shift
    return found


class LagRows(Sequence[LagRow]):
    """Rows of several clusters, made when they are read; a few are made once for all readers."""

    def __init__(self, parts: Sequence[LagColumns]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts], dtype=np.int64) if parts else np.zeros(0, np.int64)

        self._made: list[LagRow] | None = None

    @property
    def parts(self) -> Sequence[LagColumns]:
        """The columns of each cluster."""
        return self._parts

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @overload
    def __getitem__(self, index: int) -> LagRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[LagRow]: ...
    def __getitem__(self, index: int | slice) -> LagRow | list[LagRow]:
        if isinstance(index, slice):
            return self._between(*index.indices(len(self)))
        at = range(len(self))[index]
        return self._between(at, at + 1, 1)[0]

    def __iter__(self) -> Iterator[LagRow]:
        for at in range(0, len(self), LAG_SLICE_ROWS):
            yield from self[at : at + LAG_SLICE_ROWS]

    def _between(self, start: int, stop: int, step: int) -> list[LagRow]:
        if self._made is None and len(self) <= LAG_ROWS_MADE_MAX:
            self._made = [row for part in self._parts for row in part.rows(slice(None))]
        if self._made is not None:
            return self._made[start:stop:step]
        rows: list[LagRow] = []
        begin = 0
        for part, end in zip(self._parts, self._ends.tolist(), strict=True):
            if start < end and stop > begin:
                rows += part.rows(slice(max(start, begin) - begin, min(stop, end) - begin))
            begin = end
        return rows[::step]
