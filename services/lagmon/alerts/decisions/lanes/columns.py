"""The lag of all lanes as columns: what `facts.LaneLag` says of one lane, for all lanes at once. Pure."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.lagmon.alerts.decisions.facts import LaneLag, Retention
from services.lagmon.alerts.decisions.lanes.rows import Kept, Spots
from services.lagmon.alerts.decisions.stuck import stuck_rows
from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.lanes import LaneRows, LaneTable, lane_rows
from services.lagmon.model.lag import Source

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]


class LaneColumns(NamedTuple):
    """The lag of lanes, by number.

    Attributes:
        partitions: How many rows each has; none for a lane that is not there.
        share, seconds_left: Of the retention of the topic that is nearest to losing records; -inf without one.
        stuck: Partitions whose base offset has not moved for long.
    """

    known: _Flags
    seconds: _Floats
    records: _Ints
    largest: _Ints
    partitions: _Ints
    unattended: _Flags
    share: _Floats
    seconds_left: _Floats
    stuck: Spots

    @classmethod
    def none(cls, lanes: int) -> "LaneColumns":
        """Returns lanes without rows."""
        return cls(
            np.ones(lanes, np.bool_),
            np.zeros(lanes),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.bool_),
            np.full(lanes, -np.inf),
            np.full(lanes, -np.inf),
            Spots.of(()),
        )

    @classmethod
    def of(cls, lags: Sequence[LaneLag]) -> "LaneColumns":
        """Returns lanes that were summed one by one."""
        stuck = [(lane, partition, 0) for lane, lag in enumerate(lags) for partition in lag.stuck]
        nowhere = Retention(-np.inf, -np.inf)
        return cls(
            np.array([lag.known for lag in lags], np.bool_),
            np.array([lag.seconds for lag in lags], np.float64),
            np.array([lag.records for lag in lags], np.int64),
            np.array([lag.largest for lag in lags], np.int64),
            np.array([lag.partitions for lag in lags], np.int64),
            np.array([lag.unattended for lag in lags], np.bool_),
            np.array([(lag.retention or nowhere).share for lag in lags], np.float64),
            np.array([(lag.retention or nowhere).seconds_left for lag in lags], np.float64),
            Spots(*np.array(stuck, np.int64).reshape(-1, 3).T),
        )

    def lag(self, lane: int) -> LaneLag:
        """Returns the lag of one lane."""
        share = float(self.share[lane])
        return LaneLag(
            bool(self.known[lane]),
            float(self.seconds[lane]),
            int(self.records[lane]),
            int(self.largest[lane]),
            int(self.partitions[lane]),
            bool(self.unattended[lane]),
            self.stuck.in_lane(lane).partitions.tolist(),
            Retention(share, float(self.seconds_left[lane])) if share >= 0 else None,
        )


def sum_lanes(
    table: LaneTable, parts: Sequence[LagColumns], bases: Sequence[Kept], keeps: Sequence[_Floats], now: float
) -> Generator[None, None, LaneColumns]:
    """Sums rows by lane, as `facts.lane_lags` does, yielding where others may get their turn.

    Args:
        table: The lanes of these parts.
        bases: Of each part, the base offsets of its rows; see `BaseOffsets.follow`.
        keeps: Of each part, for how long the topic of each key keeps records, in seconds; NaN for one that keeps all.
        now: A clock that never steps.
    """
    found, stuck = LaneColumns.none(len(table.names)), list[Spots]()
    for each in lane_rows(table, parts):
        at_base = stuck_rows(each.lags, bases[each.part], each.rows, now) & ~each.lags.stale
        _add(found, each)
        _add_retention(found, each, keeps[each.part])
        at = np.flatnonzero(at_base)
        stuck.append(Spots(each.each(each.lanes)[at], each.lags.partition[at], np.zeros(len(at), np.int64)))
        yield
    return found._replace(stuck=Spots.of(stuck))


def _add(found: LaneColumns, each: LaneRows) -> None:
    """Adds consecutive rows; a lane comes once in them, and in several clusters perhaps."""
    lanes, firsts, lags = each.lanes, each.firsts, each.lags
    add, most = np.add.reduceat, np.maximum.reduceat
    own = ~lags.foreign
    records = lags.records * own
    seen = own & ~lags.stale
    unknown = own & (lags.stale | (lags.source == Source.UNKNOWN))
    found.partitions[lanes] += add(own.astype(np.int64), firsts)
    found.records[lanes] += add(records, firsts)
    found.largest[lanes] = np.maximum(found.largest[lanes], most(records, firsts))
    found.unattended[lanes] |= np.logical_or.reduceat(own & lags.unattended, firsts)
    found.known[lanes] &= ~np.logical_or.reduceat(unknown, firsts)
    found.seconds[lanes] = np.maximum(found.seconds[lanes], most(np.where(seen, lags.seconds, 0.0), firsts))


def _add_retention(found: LaneColumns, each: LaneRows, keeps: _Floats) -> None:
    """Finds what of each lane has used up most of its topic's retention, and of those the longest time left."""
    if np.isnan(keeps).all():
        return
    lanes, firsts, lags = each.lanes, each.firsts, each.lags
    kept = keeps[lags.pair]
    timed = ~lags.foreign & ~lags.stale & (kept > 0)  # never for NaN
    share = np.where(timed, lags.seconds / kept, -np.inf)
    largest = np.maximum.reduceat(share, firsts)
    is_largest = timed & (share == each.each(largest))
    left = np.maximum.reduceat(np.where(is_largest, kept - lags.seconds, -np.inf), firsts)
    nearer = (largest > found.share[lanes]) | ((largest == found.share[lanes]) & (left > found.seconds_left[lanes]))
    found.share[lanes] = np.where(nearer, largest, found.share[lanes])
    found.seconds_left[lanes] = np.where(nearer, left, found.seconds_left[lanes])
