"""Seen time of lag targets before this process began, from kept lag. Pure.

A kept row says the smallest and the largest lag of its step, and for how long the lag was known. If the largest is
within the target, all of that time was good. If the smallest is beyond it, all of it was bad. What lies between is not
seen.

Every row counts where it may have been at the earliest. So a window never has more bad time, nor more good time, than
if every sample had been seen; and a burn that it knows to be high, or to be low, was so.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import ALERT_PAST_MARGIN_SECONDS, ALERT_PAST_SKEW
from services.lagmon.alerts.decisions.burn_rates import RINGS, UNITS_PER_SECOND, SeenTime
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.facts import LaneKey
from services.lagmon.alerts.decisions.model import CLUSTER_DOWN
from services.lagmon.kept.rows import Column, Columns, Flag

_PER_MILLE: Final = 1_000
_ROUNDED_UNITS: Final = 1  # what a run of samples may gain by rounding
_GAPS_SHARE: Final = 0.01  # of a row with gaps, in which many runs may gain as much
_WHOLE_SHARE: Final = 0.8  # of a row's length; what is known for less has gaps


class Moment(NamedTuple):
    """One instant on both clocks: one that never steps, and the wall's."""

    elapsed: float
    wall_ms: int


class Outage(NamedTuple):
    """A time in which a cluster was down (wall clock): it burns no budget."""

    since_ms: int
    until_ms: int


def outages(state: Alerts, now_ms: int) -> Sequence[Outage]:
    """Returns when clusters were down, as the history of alerts says."""
    told = [*state.resolved, *state.open.values()]
    return [Outage(each.fired_ms, each.resolved_ms or now_ms) for each in told if each.key.rule == CLUSTER_DOWN.name]


class PastWindows:
    """Seen time of some targets, read from kept rows in the order of observation."""

    def __init__(self, targets: Mapping[LaneKey, float], began: Moment, outages: Sequence[Outage] = ()) -> None:
        """Begins without any.

        Args:
            targets: Seconds.
            began: When this process began to look: only what was over by then counts.
            outages: Times that do not count.
        """
        self._places = {key: at for at, key in enumerate(targets)}
        self._target_ms = np.array(list(targets.values()), np.float64) * _PER_MILLE
        self._began = began
        self._outages = outages
        self._newest = [int(began.elapsed // seconds) for seconds, _ in RINGS]
        self._times = [np.zeros((2, len(targets), buckets), np.int64) for _, buckets in RINGS]

    def take(
        self, times_ms: Sequence[int], stepped: Sequence[bool], columns: Mapping[LaneKey, Columns], step_ms: int
    ) -> None:
        """Takes consecutive rows of one length.

        Args:
            times_ms, stepped: Of each row; before a step of the wall clock nobody knows how long ago a row was.
            columns: Shape (columns, rows), by lane; lanes that are not watched are passed over.
            step_ms: The length of a row.
        """
        first = max((at + 1 for at, each in enumerate(stepped) if each), default=0)
        if first:
            for times in self._times:
                times[:] = 0
        rows = [at for at in range(first, len(times_ms)) if self._counts(times_ms[at], step_ms)]
        keys = [key for key in columns if key in self._places]
        if not rows or not keys:
            return
        places = np.array([self._places[key] for key in keys])
        seen = _seen_units(np.stack([columns[key][:, rows] for key in keys], axis=1), self._target_ms[places], step_ms)
        ages = (self._began.wall_ms - np.array([times_ms[at] for at in rows])) / _PER_MILLE * (1 + ALERT_PAST_SKEW)
        for ring, (seconds, buckets) in enumerate(RINGS):
            if step_ms > seconds * _PER_MILLE:
                continue
            numbers = np.floor((self._began.elapsed - ages) / seconds).astype(np.int64)
            slots = numbers - self._newest[ring] + buckets - 1
            for at, slot in enumerate(slots):
                if slot >= 0:
                    self._times[ring][:, places, slot] += seen[:, :, at]

    def parts(self, most: int) -> "list[tuple[Sequence[LaneKey], Sequence[SeenTime]]]":
        """Returns what was seen of at most so many targets at once, as `BurnRates.seed` wants it."""
        keys = list(self._places)
        for (seconds, _), times in zip(RINGS, self._times, strict=True):
            np.minimum(times, seconds * UNITS_PER_SECOND, out=times)
        return [
            (
                keys[at : at + most],
                [
                    SeenTime(newest, times[:, at : at + most].astype(np.uint16))
                    for newest, times in zip(self._newest, self._times, strict=True)
                ],
            )
            for at in range(0, len(keys), most)
        ]

    def _counts(self, time_ms: int, step_ms: int) -> bool:
        """Whether a row was over when this process began, and no cluster was down in it."""
        if time_ms + step_ms > self._began.wall_ms:
            return False
        margin = ALERT_PAST_MARGIN_SECONDS * _PER_MILLE
        return not any(
            each.since_ms - margin < time_ms + step_ms and time_ms < each.until_ms + margin for each in self._outages
        )


def _seen_units(columns: Columns, target_ms: NDArray[np.float64], step_ms: int) -> NDArray[np.int64]:
    """Returns how long each row was certainly bad, and certainly good; shape (2, lanes, rows)."""
    flags, known_ms = columns[Column.FLAGS], columns[Column.KNOWN_MS]
    targets = target_ms[:, np.newaxis]
    seconds = (flags & Flag.SECONDS) != 0
    bad = seconds & ((flags & Flag.SMALLEST) != 0) & (columns[Column.MIN_MS] > targets + 1)
    good = seconds & (columns[Column.MAX_MS] < targets - 1)
    units = known_ms * UNITS_PER_SECOND // _PER_MILLE - _ROUNDED_UNITS
    gaps = known_ms < _WHOLE_SHARE * step_ms
    units = np.maximum(0, np.where(gaps, units - (units * _GAPS_SHARE).astype(np.int64), units))
    return np.stack([np.where(bad, units, 0), np.where(good, units, 0)])
