"""Lanes of groups over all clusters: a number for each, and slices in which the rows of a lane stand together. Pure.

Rows of a cluster are sorted by group, stream and lane. So the rows of a lane are a run of the cluster's rows, which
numpy reduces at once.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_COLUMN_ROWS, LAG_SLICE_NAMES
from services.lagmon.columns.lags import LagColumns, Lags
from services.lagmon.columns.pairs import PairKey

_Ints = NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=np.generic)
_HASH_BITS: Final = (1 << 63) - 1


class LaneName(NamedTuple):
    """A lane of one stream as one group consumes it; lanes are sorted by it."""

    group: str
    stream: str
    lane: str


class PartLanes(NamedTuple):
    """The lanes of one cluster's keys.

    Attributes:
        keys: The cluster's groups and topics, sorted.
        names: Its lanes, sorted.
        firsts, ends: By lane, its first key and the first behind it.
        hashes: By key, a number of its cluster and topic.
    """

    keys: Sequence[PairKey]
    names: Sequence[LaneName]
    firsts: _Ints
    ends: _Ints
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, keys: Sequence[PairKey]) -> "PartLanes":
        """Finds the lanes of keys; topics that are no channels have none."""
        names: list[LaneName] = []
        firsts: list[int] = []
        ends: list[int] = []
        for place, key in enumerate(keys):
            if not key.stream:
                continue
            if names and names[-1] == key[:3]:
                ends[-1] = place + 1
            else:
                names.append(LaneName._make(key[:3]))
                firsts.append(place)
                ends.append(place + 1)
        hashes = np.array([hash(key[3:]) & _HASH_BITS for key in keys], np.uint64)
        return cls(keys, names, np.array(firsts, np.int64), np.array(ends, np.int64), hashes)


@dataclass(frozen=True, eq=False, slots=True)
class LaneTable:
    """The lanes of all clusters, in order.

    Attributes:
        names: Sorted; a lane's place is its number.
        parts: The lanes of each cluster.
        numbers: By cluster, the number of each of its lanes.
    """

    names: Sequence[LaneName] = ()
    parts: Sequence[PartLanes] = ()
    numbers: Sequence[_Ints] = ()


class LaneRows(NamedTuple):
    """Consecutive rows of one cluster, in which every lane is whole.

    Attributes:
        part: The cluster's place.
        rows: Where they are in the cluster's columns.
        lags: The rows.
        lanes: The number of each lane, none twice.
        firsts: Where each lane's rows begin, counted from the first row.
    """

    part: int
    rows: slice
    lags: Lags
    lanes: _Ints
    firsts: _Ints

    def each(self, by_lane: NDArray[_Kind]) -> NDArray[_Kind]:
        """Returns for each row the value of its lane, given one for each lane of this slice."""
        return np.repeat(by_lane, np.diff(np.append(self.firsts, len(self.lags.pair))))


def number_lanes(parts: Sequence[LagColumns], known: LaneTable) -> Generator[None, None, LaneTable]:
    """Returns the table of the lanes of all clusters, yielding where others may get their turn.

    Args:
        known: An earlier table, which is returned where the keys of all clusters are the same.
    """
    found: list[PartLanes] = []
    for place, part in enumerate(parts):
        before = known.parts[place] if place < len(known.parts) else None
        same = before is not None and (before.keys is part.keys or before.keys == part.keys)
        found.append(before if before is not None and same else PartLanes.of(part.keys))
        if not same:
            yield
    if len(found) == len(known.parts) and all(one is other for one, other in zip(found, known.parts, strict=True)):
        return known
    names: list[LaneName] = []
    places: dict[LaneName, int] = {}
    for name in merge(*(part.names for part in found)):
        if not names or names[-1] != name:
            places[name] = len(names)
            names.append(name)
            if not len(names) % LAG_SLICE_NAMES:
                yield
    numbers: list[_Ints] = []
    for each in found:
        numbers.append(np.array([places[name] for name in each.names], np.int64))
        yield
    return LaneTable(names, found, numbers)


def lane_rows(table: LaneTable, parts: Sequence[LagColumns]) -> Iterator[LaneRows]:
    """Yields the rows of channels of all clusters, in slices small enough to be computed at once.

    Args:
        table: The lanes of these parts.
        parts: Without rows of topics that are no channels; see `LagColumns.of_streams`.
    """
    for place, (part, lanes, numbers) in enumerate(zip(parts, table.parts, table.numbers, strict=True)):
        begins, ends = part.starts[lanes.firsts], part.starts[lanes.ends]
        there = ends > begins
        begins, ends, numbers = begins[there], ends[there], numbers[there]
        at = 0
        while at < len(begins):
            first = int(begins[at])
            then = max(at + 1, int(np.searchsorted(ends, first + LAG_COLUMN_ROWS, side="right")))
            rows = slice(first, int(ends[then - 1]))
            yield LaneRows(place, rows, part.lags.of(rows), numbers[at:then], begins[at:then] - first)
            at = then
