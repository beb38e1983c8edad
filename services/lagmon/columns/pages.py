"""Pages of rows of lag over several clusters, sorted, without making the rows of other pages. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.lags import LagColumns, Sums, sums_together
from services.lagmon.columns.pairs import PairKey
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey

_Ints = NDArray[np.int64]


def page_of(
    parts: Sequence[LagColumns], wanted: Filter, detail: Detail, last: RowKey | None, size: int
) -> tuple[list[LagRow], RowKey | None]:
    """Returns one page of sorted rows after a key, and the key after which the next page begins; None at the end."""
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
        there &= _of_groups(part, [wanted.group])
    if wanted.groups:
        there &= _of_groups(part, wanted.groups)
    found: list[int] = np.flatnonzero(there).tolist()
    if wanted.stream or wanted.lane or wanted.cluster:
        found = [pair for pair in found if _is_wanted(keys[pair], wanted)]
    pairs = np.array(found, np.int64)
    if wanted.exclude_foreign and len(pairs):
        pairs = pairs[_own_rows(part, pairs, wanted) > 0]
    return pairs


def _of_groups(part: LagColumns, groups: Iterable[str]) -> NDArray[np.bool_]:
    """Returns which pairs are of these groups."""
    named = np.zeros(len(part.keys), np.bool_)
    for group in groups:
        named[part.place((group,)) : part.place((group + "\0",))] = True
    return named


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
    for part, pairs in _first_pairs(chosen, wanted, last, most):
        rows = part.spans(pairs)
        if last is not None and part.keys[int(pairs[0])] == last[:5]:
            rows = rows[~((part.lags.pair[rows] == pairs[0]) & (part.lags.partition[rows] <= last.partition))]
        if wanted.exclude_foreign:
            rows = rows[~part.lags.foreign[rows]]
        found += part.rows(rows)
    return sorted(found, key=lambda row: row.key)[:most]


def _first_pairs(
    chosen: Sequence[tuple[LagColumns, _Ints]], wanted: Filter, last: RowKey | None, most: int
) -> list[tuple[LagColumns, _Ints]]:
    """Returns, by cluster, the first pairs of all that have so many rows together, not counting the pair of `last`."""
    merged: list[tuple[PairKey, int, int, int]] = []
    for number, (part, pairs) in enumerate(chosen):
        if last is not None:
            pairs = pairs[np.searchsorted(pairs, part.place(tuple(last[:5]))) :]
        counts = _own_rows(part, pairs, wanted)
        if last is not None and len(pairs) and part.keys[int(pairs[0])] == last[:5]:
            counts[0] = 0  # who knows how many of its rows were in pages before
        end = int(np.searchsorted(np.cumsum(counts), most)) + 1
        merged += [
            (part.keys[pair], number, pair, count)
            for pair, count in zip(pairs[:end].tolist(), counts[:end].tolist(), strict=True)
        ]
    merged.sort()
    picked: list[list[int]] = [[] for _ in chosen]
    left = most
    for _, number, pair, count in merged:
        if left <= 0:
            break
        picked[number].append(pair)
        left -= count
    return [(part, np.array(pairs, np.int64)) for (part, _), pairs in zip(chosen, picked, strict=True) if pairs]


def _own_rows(part: LagColumns, pairs: _Ints, wanted: Filter) -> _Ints:
    """Counts the rows of pairs that are wanted."""
    counts: _Ints = part.starts[pairs + 1] - part.starts[pairs]
    if wanted.exclude_foreign:
        own = np.r_[0, np.cumsum(~part.lags.foreign)]
        counts = own[part.starts[pairs + 1]] - own[part.starts[pairs]]
    return counts


def _sums(
    chosen: Sequence[tuple[LagColumns, _Ints]], wanted: Filter, detail: Detail, last: RowKey | None, most: int
) -> list[LagRow]:
    keys: set[RowKey] = set()
    for part, pairs in chosen:
        each = _Wider(part, pairs, detail)
        first = 0 if last is None else bisect_left(each, _after(last))
        first_keys: list[RowKey] = []
        for at in range(first, len(pairs)):
            key = each[at]
            if not first_keys or first_keys[-1] != key:
                if len(first_keys) == most:
                    break
                first_keys.append(key)
        keys.update(first_keys)
    page = sorted(keys)[:most]
    if not page:
        return []
    places, found = {key: place for place, key in enumerate(page)}, list[Sums]()
    for part, pairs in chosen:
        each = _Wider(part, pairs, detail)
        first, end = bisect_left(each, page[0]), bisect_left(each, _after(page[-1]))
        mine = np.array([places[each[at]] for at in range(first, end)], np.int64)
        found.append(part.sums(pairs[first:end], mine, exclude_foreign=wanted.exclude_foreign))
    return sums_together(found).rows(page)


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
