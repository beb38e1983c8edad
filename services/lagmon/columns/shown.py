"""The first rows of all clusters by key, as columns: what gauges show of a table that may be far longer. Pure.

Metrics are read in threads of their own, which the event loop interrupts between two steps of Python. So nothing here
is one long step, and few objects live on that a garbage collection would look through.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.lags import LagColumns, sums_together
from services.lagmon.columns.pairs import PairKey

_Ints = NDArray[np.int64]


class ShownGroups(NamedTuple):
    """Lag of groups in the channels of one lane on one cluster.

    Attributes:
        keys: By row, the key of its first channel.
        seconds: Age of the oldest undone record.
        records: Undone records.
        left_out: Channels of groups that are in no row.
    """

    keys: Sequence[PairKey]
    seconds: NDArray[np.float64]
    records: _Ints
    left_out: int


@dataclass(frozen=True, slots=True)
class ShownPartitions:
    """Lag of groups in single partitions, in the order of their keys.

    Attributes:
        keys: Groups and topics in order.
        pair: Of each row, its place in `keys`.
        partition, records, seconds, committed, end: As `Lags` has them.
        every: Rows of the whole table.
    """

    keys: Sequence[PairKey]
    pair: _Ints
    partition: _Ints
    records: _Ints
    seconds: NDArray[np.float64]
    committed: _Ints
    end: _Ints
    every: int

    def __len__(self) -> int:
        return len(self.pair)

    def whole_groups(self) -> "ShownPartitions":
        """Leaves out the last group if the table goes on behind these rows: some of its rows may be missing."""
        if self.every == len(self):
            return self
        last = len(self.keys)
        while last and self.keys[last - 1].group == self.keys[-1].group:
            last -= 1
        rows = int(np.searchsorted(self.pair, last))
        return ShownPartitions(
            self.keys[:last],
            self.pair[:rows],
            self.partition[:rows],
            self.records[:rows],
            self.seconds[:rows],
            self.committed[:rows],
            self.end[:rows],
            self.every,
        )


def first_groups(parts: Sequence[LagColumns], most: int) -> ShownGroups:
    """Returns the first rows by key, no more than `most`."""
    keys: list[PairKey] = []
    pairs: list[list[int]] = [[] for _ in parts]
    places: list[list[int]] = [[] for _ in parts]
    taken = 0
    for key, number, pair in _in_order(parts):
        if not keys or keys[-1][:4] != key[:4]:
            if len(keys) == most:
                break
            keys.append(key)
        pairs[number].append(pair)
        places[number].append(len(keys) - 1)
        taken += 1
    every = sum(int((np.diff(part.starts) > 0).sum()) for part in parts)
    if not keys:
        return ShownGroups((), np.zeros(0), np.zeros(0, np.int64), every)
    found = sums_together(
        [
            part.sums(np.array(mine, np.int64), np.array(place, np.int64), exclude_foreign=False)
            for part, mine, place in zip(parts, pairs, places, strict=True)
        ]
    )
    return ShownGroups(keys, found.seconds, found.records, every - taken)


def first_partitions(parts: Sequence[LagColumns], most: int) -> ShownPartitions:
    """Returns the first rows by key, no more than `most`."""
    keys: list[PairKey] = []
    pairs: list[list[int]] = [[] for _ in parts]
    places: list[list[int]] = [[] for _ in parts]
    taken = 0
    for key, number, pair in _in_order(parts):
        if taken >= most:
            break
        pairs[number].append(pair)
        places[number].append(len(keys))
        keys.append(key)
        taken += int(parts[number].starts[pair + 1] - parts[number].starts[pair])
    chosen = [(part, np.array(mine, np.int64)) for part, mine in zip(parts, pairs, strict=True)]
    rows = [part.spans(mine) for part, mine in chosen]
    empty = np.zeros(0, np.int64)
    each = [part.starts[mine + 1] - part.starts[mine] for part, mine in chosen]
    row_pair = np.concatenate(
        [empty, *(np.repeat(np.array(at, np.int64), n) for at, n in zip(places, each, strict=True))]
    )
    order = np.argsort(row_pair, kind="stable")[:most]

    def column(name: str) -> _Ints:
        found: _Ints = np.concatenate(
            [empty, *(getattr(part.lags, name)[mine] for (part, _), mine in zip(chosen, rows, strict=True))]
        )
        return found[order]

    return ShownPartitions(
        keys,
        row_pair[order],
        column("partition"),
        column("records"),
        column("seconds").astype(np.float64),
        column("committed"),
        column("end"),
        sum(map(len, parts)),
    )


def _in_order(parts: Sequence[LagColumns]) -> Iterator[tuple[PairKey, int, int]]:
    """Yields the groups and topics that have rows: their keys, the place of their cluster, and their number there."""

    def of(number: int, part: LagColumns) -> Iterator[tuple[PairKey, int, int]]:
        pairs: list[int] = np.flatnonzero(np.diff(part.starts) > 0).tolist()
        return zip((part.keys[pair] for pair in pairs), repeat(number), pairs, strict=False)

    return heapq.merge(*(of(number, part) for number, part in enumerate(parts)))
