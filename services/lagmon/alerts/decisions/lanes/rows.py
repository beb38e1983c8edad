"""Values of single partitions, kept from look to look, and partitions that a rule found. Pure."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.pairs import PairKey

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_PARTITION_BITS = 32


class Kept(NamedTuple):
    """A number and a time of each row of a cluster; rules change them in place."""

    numbers: _Ints
    times: NDArray[np.float64]


class _Part(NamedTuple):
    keys: Sequence[PairKey]
    pair: _Ints
    partition: _Ints
    kept: Kept


class RowMemory:
    """A number and a time of each row, from look to look; -1 and NaN for rows that were not there at the last one."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}

    def follow(self, parts: Sequence[LagColumns]) -> Generator[None, None, Sequence[Kept]]:
        """Returns what is kept of the rows of each cluster, and forgets others; yields between clusters."""
        found: dict[str, _Part] = {}
        kept: list[Kept] = []
        for part in parts:
            name = part.keys[0].cluster if part.keys else ""
            found[name] = _aligned(part, self._parts.get(name))
            kept.append(found[name].kept)
            yield
        self._parts = found
        return kept


def _aligned(part: LagColumns, before: _Part | None) -> _Part:
    """Brings what is kept of a cluster into the order of its rows."""
    lags, count = part.lags, len(part)
    if before is None:
        return _Part(part.keys, lags.pair, lags.partition, Kept(np.full(count, -1, np.int64), np.full(count, np.nan)))
    keys = before.keys if before.keys is part.keys or before.keys == part.keys else part.keys
    if keys is before.keys and _same(before.pair, lags.pair) and _same(before.partition, lags.partition):
        return before
    pair = before.pair if keys is before.keys else _renumbered(before, part.keys)
    codes = pair << _PARTITION_BITS | before.partition
    order = np.argsort(codes, kind="stable")
    wanted = lags.pair << _PARTITION_BITS | lags.partition
    places = np.searchsorted(codes, wanted, sorter=order)
    places = order[np.minimum(places, max(0, len(order) - 1))] if len(order) else np.zeros(count, np.int64)
    there = codes[places] == wanted if len(order) else np.zeros(count, np.bool_)
    numbers, times = np.full(count, -1, np.int64), np.full(count, np.nan)
    numbers[there], times[there] = before.kept.numbers[places[there]], before.kept.times[places[there]]
    return _Part(part.keys, lags.pair, lags.partition, Kept(numbers, times))


def _same(one: _Ints, other: _Ints) -> bool:
    return one is other or np.array_equal(one, other)


def _renumbered(before: _Part, keys: Sequence[PairKey]) -> _Ints:
    """Returns the places of known rows' groups and topics among other keys; -1 for those that are gone."""
    places = {key: place for place, key in enumerate(keys)}
    of_keys = np.array([places.get(key, -1) for key in before.keys], np.int64)
    found: _Ints = of_keys[before.pair]
    return found


class Spots(NamedTuple):
    """Partitions that a rule found, with a number of records each; those of a lane stand together."""

    lanes: _Ints
    partitions: _Ints
    records: _Ints

    @classmethod
    def of(cls, parts: Sequence["Spots"]) -> "Spots":
        """Puts parts together and sorts them by lane."""
        every = cls._make(map(np.concatenate, zip(*parts, strict=True))) if parts else NO_SPOTS
        order = np.argsort(every.lanes, kind="stable")
        return cls._make(column[order] for column in every)

    def flags(self, lanes: int) -> _Flags:
        """Returns which of so many lanes have any."""
        found = np.zeros(lanes, np.bool_)
        found[self.lanes] = True
        return found

    def in_lane(self, lane: int) -> "Spots":
        """Returns those of one lane."""
        first, end = np.searchsorted(self.lanes, [lane, lane + 1]).tolist()
        return Spots._make(column[first:end] for column in self)


NO_SPOTS = Spots(*(np.zeros(0, np.int64) for _ in Spots._fields))
