"""Pages of rows of lag over several clusters, sorted, without making the rows of other pages. Pure."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.pairs import PairKey
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey, summed

_Ints = NDArray[np.int64]


def page_of(
    parts: Sequence[LagColumns], wanted: Filter, detail: Detail, last: RowKey | None, size: int
) -> tuple[list[LagRow], RowKey | None]:
    """Returns one page of the sorted rows after a key, and the key after which the next page begins; None at the end."""
    chosen = [(part, _pairs(part, wanted)) for part in parts]
    if detail is Detail.PARTITION:
        rows = _partitions(chosen, wanted, last, size + 1)
    else:
        rows = _sums(chosen, wanted, detail, last, size + 1)
    return rows[:size], rows[size - 1].key if len(rows) > size else None


def _pairs(part: LagColumns, wanted: Filter) -> _Ints:
    """Returns the pairs that are wanted and have rows, in order."""
    there = np.diff(part.starts) > 0
    keys = part.keys
    if wanted.group:
        first, end = part.place((wanted.group,)), part.place((wanted.group + "\0",))
        there[:first] = there[end:] = False
    found: list[int] = np.flatnonzero(there).tolist()
    if wanted.stream or wanted.lane or wanted.cluster:
        found = [pair for pair in found if _is_wanted(keys[pair], wanted)]
    pairs = np.array(found, np.int64)
    if wanted.exclude_foreign and len(pairs):
        own = np.r_[0, np.cumsum(~part.lags.foreign)]
        pairs = pairs[own[part.starts[pairs + 1]] > own[part.starts[pairs]]]
    return pairs


def _is_wanted(key: PairKey, wanted: Filter) -> bool:
    return (
        (not wanted.stream or key.stream == wanted.stream)
        and (not wanted.lane or key.lane == wanted.lane)
        and (not wanted.cluster or key.cluster == wanted.cluster)
    )


def _partitions(
    chosen: Sequence[tuple[LagColumns, _Ints]], wanted: Filter, last: RowKey | None, most: int
) -> list[LagRow]:
    found: list[LagRow] = []
    for part, pairs in chosen:
        if last is not None:
            pairs = pairs[np.searchsorted(pairs, part.place(tuple(last[:5]))) :]
        if not len(pairs):
            continue
        rows = part.spans(pairs)
        if last is not None and part.keys[int(pairs[0])] == last[:5]:
            rows = rows[~((part.lags.pair[rows] == pairs[0]) & (part.lags.partition[rows] <= last.partition))]
        if wanted.exclude_foreign:
            rows = rows[~part.lags.foreign[rows]]
        found += part.rows(rows[:most])
    return sorted(found, key=lambda row: row.key)[:most]


def _sums(
    chosen: Sequence[tuple[LagColumns, _Ints]], wanted: Filter, detail: Detail, last: RowKey | None, most: int
) -> list[LagRow]:
    keys: set[RowKey] = set()
    for part, pairs in chosen:
        each = _Wider(part, pairs, detail)
        first = 0 if last is None else bisect_left(each, _after(last))
        mine: list[RowKey] = []
        for at in range(first, len(pairs)):
            key = each[at]
            if not mine or mine[-1] != key:
                if len(mine) == most:
                    break
                mine.append(key)
        keys.update(mine)
    page = sorted(keys)[:most]
    if not page:
        return []
    found: list[LagRow] = []
    for part, pairs in chosen:
        each = _Wider(part, pairs, detail)
        first, end = bisect_left(each, page[0]), bisect_left(each, _after(page[-1]))
        found += part.sums(pairs[first:end], exclude_foreign=wanted.exclude_foreign)
    return summed(found, detail)


class _Wider:
    """The keys under which sorted pairs are summed; they are sorted too."""

    def __init__(self, part: LagColumns, pairs: _Ints, detail: Detail) -> None:
        self._keys = part.keys
        self._pairs: list[int] = pairs.tolist()
        self._of_lanes = detail is Detail.LANE

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, at: int) -> RowKey:
        key = self._keys[self._pairs[at]]
        if self._of_lanes and key.stream:
            return RowKey(key.group, key.stream, key.lane, "", "", -1)
        return key.row(-1)


def _after(key: RowKey) -> RowKey:
    """Returns the least key above one."""
    return key._replace(partition=key.partition + 1)
