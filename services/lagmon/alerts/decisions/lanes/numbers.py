"""The lanes that rules follow, with their numbers: those of the newest look, and gone ones whose clocks run. Pure."""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_SLICE_NAMES
from services.lagmon.alerts.decisions.facts import LaneKey
from services.lagmon.columns.lanes import LaneTable

_Ints = NDArray[np.int64]
_NOWHERE: Final = -1


@dataclass(frozen=True, eq=False, slots=True)
class NumberedLanes:
    """The lanes of one look.

    Attributes:
        table: By which the rows of the look are summed; its numbers are these.
        keys: Of the table's lanes, then of those that are gone.
        places: The number of each of the table's lanes.
        streams: Different streams of the table's lanes.
        stream_of: The place of each lane's stream among them.
        order: The table's lanes as their keys sort.
    """

    table: LaneTable = field(default_factory=LaneTable)
    keys: Sequence[LaneKey] = ()
    places: Mapping[LaneKey, int] = field(default_factory=dict)
    streams: Sequence[str] = ()
    stream_of: _Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    order: _Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def gone(self) -> Sequence[LaneKey]:
        """Lanes that are followed and not in the table."""
        return self.keys[len(self.places) :]

    def number(self, key: LaneKey) -> int:
        """Returns the number of a lane; -1 for one that is not followed."""
        found = self.places.get(key)
        if found is not None:
            return found
        gone = self.gone
        return len(self.places) + gone.index(key) if key in gone else _NOWHERE

    def with_gone(self, gone: Collection[LaneKey]) -> "NumberedLanes":
        """Returns the same lanes with others that are gone."""
        present = self.keys[: len(self.places)]
        return NumberedLanes(
            self.table, (*present, *sorted(gone)), self.places, self.streams, self.stream_of, self.order
        )

    def moves_from(self, before: "NumberedLanes") -> Generator[None, None, _Ints]:
        """Returns the number that each lane had before, -1 for a new one; yields where others may get their turn."""
        there = {key: len(before.places) + place for place, key in enumerate(before.gone)}
        known, found = before.places, list[int]()
        if known is self.places:
            found += range(len(known))
        for at in range(len(found), len(self.keys), LAG_SLICE_NAMES):
            some = self.keys[at : at + LAG_SLICE_NAMES]
            found += [known[key] if key in known else there.get(key, _NOWHERE) for key in some]
            yield
        return np.array(found, np.int64)


def number_keys(table: LaneTable) -> Generator[None, None, NumberedLanes]:
    """Numbers the lanes of a table, yielding where others may get their turn."""
    keys: list[LaneKey] = []
    places: dict[LaneKey, int] = {}
    ranks: list[_Ints] = []
    streams: dict[str, int] = {}
    lanes: dict[str, int] = {}
    for at in range(0, len(table.names), LAG_SLICE_NAMES):
        some: list[tuple[int, int, int]] = []
        for number, name in enumerate(table.names[at : at + LAG_SLICE_NAMES], at):
            key = LaneKey(name.stream, name.lane, name.group)
            keys.append(key)
            places[key] = number
            some.append((streams.setdefault(key.stream, len(streams)), lanes.setdefault(key.lane, len(lanes)), number))
        ranks.append(np.array(some, np.int64))
        yield
    stream_of, lane_of, groups = np.concatenate([np.zeros((0, 3), np.int64), *ranks]).T
    order = np.lexsort((groups, _ranks(lanes)[lane_of], _ranks(streams)[stream_of]))  # numbers sort by group first
    return NumberedLanes(table, keys, places, list(streams), stream_of, order)


def _ranks(places: Mapping[str, int]) -> _Ints:
    """Returns the rank of each name among all, by its place."""
    ranks = np.zeros(len(places), np.int64)
    ranks[[place for _, place in sorted(places.items(), key=itemgetter(0))]] = np.arange(len(places))
    return ranks
