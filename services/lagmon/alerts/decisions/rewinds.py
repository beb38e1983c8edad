"""Partitions whose committed offset went back, though nobody asked Braid for it. Pure.

A reset is recorded by the assigner before any offset changes: when a group's count of resets changes, all that is known
of its offsets is forgotten.
"""

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import ALERT_REWIND_RECORDS, ALERT_REWIND_SECONDS
from braid.kernel.timing.slices import finished
from services.lagmon.alerts.decisions.facts import GroupFacts, LaneKey
from services.lagmon.alerts.decisions.lanes.rows import NO_SPOTS, Kept, RowMemory, Spots
from services.lagmon.columns.gathered import channel_columns
from services.lagmon.columns.lags import LagColumns, Lags
from services.lagmon.columns.lanes import LaneName, LaneTable, lane_rows, number_lanes
from services.lagmon.columns.pairs import PairKey
from services.lagmon.model.lag import LagRow


class Rewound(NamedTuple):
    """The partitions of one lane that went back, and by how many records in all."""

    partitions: tuple[int, ...]
    records: int


class RewoundLanes(NamedTuple):
    """Lanes that went back lately and have not done it again yet, at one look."""

    names: Sequence[LaneName] = ()
    spots: Spots = NO_SPOTS

    def rewound(self, lane: LaneKey) -> Rewound | None:
        """Returns what of a lane went back; None for nothing."""
        name = LaneName(lane.group, lane.stream, lane.lane)
        number = bisect_left(self.names, name)
        if number == len(self.names) or self.names[number] != name:
            return None
        found = self.spots.in_lane(number)
        return Rewound(tuple(found.partitions.tolist()), int(found.records.sum())) if len(found.lanes) else None


class Rewinds:
    """The highest committed offset of every partition, and since when a commit lies far below it."""

    def __init__(self) -> None:
        self.found = RewoundLanes()
        self._memory = RowMemory()
        self._groups: Mapping[str, GroupFacts] = {}
        self._resets: dict[str, int] = {}

    def observe(self, rows: Iterable[LagRow], groups: Mapping[str, GroupFacts], now: float) -> None:
        """Takes the committed offsets of a moment at which everything was read."""
        parts = channel_columns(rows)
        table = finished(number_lanes(parts, LaneTable()))
        self.found = finished(self.observing(table, parts, groups, now))

    def observing(
        self, table: LaneTable, parts: Sequence[LagColumns], groups: Mapping[str, GroupFacts], now: float
    ) -> Generator[None, None, RewoundLanes]:
        """Takes them as `observe` does, yielding where others may get their turn; returns what is to be `found`."""
        reset = self._reset(groups)
        known = yield from self._memory.follow(parts)
        spots: list[Spots] = []
        for each in lane_rows(table, parts):
            highest = known[each.part]
            if reset:
                _forget(parts[each.part].keys, each.lags, highest, each.rows, reset)
            back = _note(each.lags, highest, each.rows, now)
            at = np.flatnonzero(back)
            by_row = each.each(each.lanes)
            spots.append(Spots(by_row[at], each.lags.partition[at], back[at]))
            yield
        return RewoundLanes(table.names, Spots.of(spots))

    def rewound(self, lane: LaneKey) -> Rewound | None:
        """Returns what of a lane went back lately and was not done again yet; None for nothing."""
        return self.found.rewound(lane)

    def _reset(self, groups: Mapping[str, GroupFacts]) -> Collection[str]:
        """Returns the groups that were reset since the assigner was heard before."""
        if groups is self._groups:
            return ()
        resets = {name: group.resets for name, group in groups.items()}
        reset = {name for name, count in resets.items() if self._resets.get(name, count) != count}
        self._groups, self._resets = groups, resets
        return reset


def _forget(keys: Sequence[PairKey], lags: Lags, highest: Kept, rows: slice, reset: Collection[str]) -> None:
    """Forgets the offsets of groups."""
    forgotten = np.array([key.group in reset for key in keys], np.bool_)[lags.pair]
    highest.numbers[rows][forgotten], highest.times[rows][forgotten] = -1, np.nan


def _note(lags: Lags, highest: Kept, rows: slice, now: float) -> NDArray[np.int64]:
    """Notes one more commit of each row, and returns by how many records each lies behind; 0 for most.

    What went back long ago is where the group begins now.
    """
    most, since, committed = highest.numbers[rows], highest.times[rows], lags.committed
    most[lags.foreign], since[lags.foreign] = -1, np.nan
    said = ~lags.foreign & ~lags.stale & (committed >= 0)
    back = said & (most >= 0) & (committed <= most - ALERT_REWIND_RECORDS)
    since[said & ~back] = np.nan
    since[back & np.isnan(since)] = now
    over = back & (now - since >= ALERT_REWIND_SECONDS)
    most[over], since[over] = committed[over], np.nan
    ahead = said & ~back
    most[ahead] = np.maximum(most[ahead], committed[ahead])
    return np.where(back & ~over, most - committed, 0)
