"""Facts of the registry about lanes: targets, budgets, retention, and which clusters are down. Pure."""

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.lag_targets import target_of
from braid.kernel.limits.lagmon.sampling import LAG_SLICE_NAMES
from services.lagmon.alerts.decisions.facts import Facts, StreamFacts, keeps_seconds
from services.lagmon.alerts.decisions.lanes.numbers import NumberedLanes
from services.lagmon.columns.lanes import LaneTable

_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]


class Declared(NamedTuple):
    """Facts by the number of a lane.

    Attributes:
        listed: Lanes of streams that the registry knows.
        targets: Seconds; NaN where none is declared.
        budgets: Share of time in which a target may fail.
        dead: Lanes of streams with records on a cluster that is down.
        keeps: Of each cluster, for how long the topic of each of its keys keeps records; NaN for everything.
    """

    listed: _Flags
    targets: _Floats
    budgets: _Floats
    dead: _Flags
    keeps: tuple[_Floats, ...]


class Declarations:
    """Targets and retention of lanes, computed anew where lanes or declarations changed."""

    def __init__(self) -> None:
        self._lanes = NumberedLanes()
        self._declared: Mapping[str, Mapping[str, float]] = {}
        self._targets: _Floats = np.zeros(0)
        self._table = LaneTable()
        self._kept: Mapping[tuple[str, str], float] = {}
        self._keeps: tuple[_Floats, ...] = ()

    def follow(
        self, lanes: NumberedLanes, facts: Facts, is_dead: Callable[[str, Facts], bool]
    ) -> Generator[None, None, Declared]:
        """Returns the facts about the table's lanes, yielding where others may get their turn."""
        streams = facts.streams or {}
        declared = {name: stream.targets for name, stream in streams.items()}
        if lanes.places is not self._lanes.places or declared != self._declared:
            self._targets = yield from _targets(lanes, declared)
            self._lanes, self._declared = lanes, declared
        yield
        kept = keeps_seconds(facts)
        if lanes.table is not self._table or kept != self._kept:
            self._keeps = yield from _keeps(lanes.table, kept)
            self._table, self._kept = lanes.table, kept
        yield
        none, found = StreamFacts(), list[tuple[bool, float, bool]]()
        for first in range(0, len(lanes.streams), LAG_SLICE_NAMES):
            for name in lanes.streams[first : first + LAG_SLICE_NAMES]:
                found.append((name in streams, streams.get(name, none).budget, is_dead(name, facts)))
            yield
        listed, budgets, dead = np.array(found, np.float64).reshape(-1, 3)[lanes.stream_of].T
        return Declared(listed > 0, self._targets, budgets, dead > 0, self._keeps)


def _targets(
    lanes: NumberedLanes, declared: Mapping[str, Mapping[str, float]]
) -> Generator[None, None, NDArray[np.float64]]:
    found: list[float] = []
    nothing: Mapping[str, float] = {}
    for at in range(0, len(lanes.places), LAG_SLICE_NAMES):
        for key in lanes.keys[at : min(at + LAG_SLICE_NAMES, len(lanes.places))]:
            target = target_of(declared.get(key.stream, nothing), key.lane, key.group)
            found.append(np.nan if target is None else target)
        yield
    return np.array(found, np.float64)


def _keeps(table: LaneTable, kept: Mapping[tuple[str, str], float]) -> Generator[None, None, tuple[_Floats, ...]]:
    found: list[_Floats] = []
    for part in table.parts:
        found.append(np.array([kept.get((key.cluster, key.topic), np.nan) for key in part.keys], np.float64))
        yield
    return tuple(found)
