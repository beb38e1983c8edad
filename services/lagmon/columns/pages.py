"""Pages of rows of lag over several clusters, sorted, without making the rows of other pages. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.lags import LagColumns, sums_together
from services.lagmon.columns.pairs import PairKey, pairs_of
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey

_Ints = NDArray[np.int64]
_FEW: Final = 8  # times as many pairs as wanted groups: then these are looked up, and not all pairs looked at
_Pair = tuple[PairKey, int, int, int]  # with the number of its cluster, its place there, and how many rows are wanted


def page_of(
    parts: Sequence[LagColumns], wanted: Filter, detail: Detail, last: RowKey | None, size: int
) -> tuple[list[LagRow], RowKey | None]:
    """Returns one page of sorted rows after a key, and the key after which the next page begins; None at the end."""
    make = _partitions if detail is Detail.PARTITION else _sums
    rows = make(parts, wanted, detail, last, size + 1)
    return rows[:size], rows[size - 1].key if len(rows) > size else None


def _partitions(
    parts: Sequence[LagColumns], wanted: Filter, detail: Detail, last: RowKey | None, most: int
) -> list[LagRow]:
    pairs: list[list[int]] = [[] for _ in parts]
    left = most
    for key, number, pair, count in _in_order(parts, wanted, detail, last):
        if left <= 0:
            break
        pairs[number].append(pair)
        left -= count if last is None or key != last[:5] else 0  # who knows how many of these were in pages before
    found: list[LagRow] = []
    for part, mine in zip(parts, pairs, strict=True):
        rows = part.spans(np.array(mine, np.int64))
        if last is not None and mine and part.keys[mine[0]] == last[:5]:
            rows = rows[~((part.lags.pair[rows] == mine[0]) & (part.lags.partition[rows] <= last.partition))]
        if wanted.exclude_foreign:
            rows = rows[~part.lags.foreign[rows]]
        found += part.rows(rows)
    return sorted(found, key=lambda row: row.key)[:most]


def _sums(parts: Sequence[LagColumns], wanted: Filter, detail: Detail, last: RowKey | None, most: int) -> list[LagRow]:
    page: list[RowKey] = []
    pairs: list[list[int]] = [[] for _ in parts]
    places: list[list[int]] = [[] for _ in parts]
    for key, number, pair, _ in _in_order(parts, wanted, detail, last):
        wider = _wider(key, detail)
        if not page or page[-1] != wider:
            if len(page) == most:
                break
            page.append(wider)
        pairs[number].append(pair)
        places[number].append(len(page) - 1)
    if not page:
        return []
    found = [
        part.sums(np.array(mine, np.int64), np.array(at, np.int64), exclude_foreign=wanted.exclude_foreign)
        for part, mine, at in zip(parts, pairs, places, strict=True)
        if mine
    ]
    return sums_together(found).rows(page)


def _wider(key: PairKey, detail: Detail) -> RowKey:
    """Returns the key under which the rows of a pair are summed; wider keys have the order of pairs."""
    if detail is Detail.LANE and key.stream:
        return RowKey(key.group, key.stream, key.lane, "", "", -1)
    return key.row(-1)


def _in_order(parts: Sequence[LagColumns], wanted: Filter, detail: Detail, last: RowKey | None) -> Iterator[_Pair]:
    """Yields the pairs of all clusters that have wanted rows after a key. That key's own pair may be the first."""
    return merge(*(_of_part(number, part, wanted, detail, last) for number, part in enumerate(parts)))


def _of_part(number: int, part: LagColumns, wanted: Filter, detail: Detail, last: RowKey | None) -> Iterator[_Pair]:
    counts, keys = _counts(part, wanted), part.keys
    first = 0 if last is None else _first_behind(keys, detail, last)
    pairs = np.flatnonzero(counts[first:]) + first
    groups = wanted.named
    if groups and len(groups) * _FEW < len(pairs):
        pairs = pairs_of(keys, groups)
        pairs = pairs[(pairs >= first) & (counts[pairs] > 0)]
    for pair, count in zip(pairs.tolist(), counts[pairs].tolist(), strict=True):
        if wanted.matches_key(keys[pair]):
            yield keys[pair], number, pair, count


def _first_behind(keys: Sequence[PairKey], detail: Detail, last: RowKey) -> int:
    """Returns the first place of which rows may be behind a key."""
    if detail is Detail.PARTITION:
        return bisect_left(keys, last[:5])
    if detail is Detail.LANE and last.stream:
        return bisect_right(keys, last[:3], key=itemgetter(slice(3)))
    return bisect_right(keys, last[:5])


def _counts(part: LagColumns, wanted: Filter) -> _Ints:
    """Counts by pair the rows that are wanted, as far as that is seen from them."""
    if not wanted.exclude_foreign:
        return np.diff(part.starts)
    own: _Ints = np.r_[0, np.cumsum(~part.lags.foreign)][part.starts]
    return np.diff(own)
