"""How fast groups burn the error budgets of their lag targets, over several windows at once. Pure.

After "Alerting on SLOs", The Site Reliability Workbook, chapter 5: a burn rate is the share of bad time in a window,
divided by the share that the target allows. An alert needs a long window, so that it is significant, and a short one,
so that it ends soon after the trouble does.

Time that nobody saw is neither good nor bad. A burn rate is known to be high when bad time alone makes it so, and known
to be low when it would be so even if all unseen time had been bad. Otherwise it is not known.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import ALERT_TARGETS_MAX
from services.lagmon.alerts.decisions.lanes.states import HOLDS, UNKNOWN, States, both, states, where

_Ints = NDArray[np.int64]
K = TypeVar("K", bound=Hashable)

UNITS_PER_SECOND: Final = 100  # a bucket of five minutes fits 16 bits
_FINE_SECONDS: Final = 10
_COARSE_SECONDS: Final = 300
_ROWS_FIRST: Final = 16
NO_ROW: Final = -1


class Window(NamedTuple):
    """A span of time up to now: so many buckets, the newest of which is not complete."""

    coarse: bool
    buckets: int

    @property
    def seconds(self) -> int:
        """How long it is."""
        return self.buckets * (_COARSE_SECONDS if self.coarse else _FINE_SECONDS)


class BurnAlert(NamedTuple):
    """Two windows in which the budget must burn at least so fast."""

    rate: float
    long: Window
    short: Window


_5_MINUTES: Final = Window(False, 30)
_30_MINUTES: Final = Window(False, 180)
_HOUR: Final = Window(False, 360)
_6_HOURS: Final = Window(True, 72)
_3_DAYS: Final = Window(True, 864)
_WINDOWS: Final = (_5_MINUTES, _30_MINUTES, _HOUR, _6_HOURS, _3_DAYS)

FAST: Final = BurnAlert(14.4, _HOUR, _5_MINUTES)
SLOW: Final = BurnAlert(6.0, _6_HOURS, _30_MINUTES)
STEADY: Final = BurnAlert(1.0, _3_DAYS, _6_HOURS)


RINGS: Final = ((_FINE_SECONDS, _HOUR.buckets), (_COARSE_SECONDS, _3_DAYS.buckets))  # seconds and buckets of each


class SeenTime(NamedTuple):
    """Seen time of some targets in the buckets of one ring.

    Attributes:
        newest: The number of the newest bucket.
        times: Shape (bad and good, targets, buckets), the oldest bucket first.
    """

    newest: int
    times: NDArray[np.uint16]


class _Ring:
    """Seen time in buckets of one length, for all rows: [kind, row, bucket], where kind 0 is bad and 1 is good."""

    def __init__(self, seconds: int, buckets: int) -> None:
        self.seconds = seconds
        self.buckets = buckets
        self.at: int | None = None  # the number of the newest bucket; None before the first
        self.times = np.zeros((2, _ROWS_FIRST, buckets), np.uint16)

    def grow(self, rows: int) -> None:
        self.times = np.concatenate([self.times, np.zeros((2, rows, self.buckets), np.uint16)], axis=1)


class BurnRates(Generic[K]):
    """The seen time of every watched target. Times are of a clock that never steps."""

    def __init__(self) -> None:
        self._rows: dict[K, int] = {}
        self._free = list(range(_ROWS_FIRST - 1, -1, -1))
        self._rings = tuple(_Ring(seconds, buckets) for seconds, buckets in RINGS)
        self._sums = {window: np.zeros((2, _ROWS_FIRST), np.int64) for window in _WINDOWS}
        self._now = 0.0
        self.changes = 0  # grows whenever a target gets a row or loses it

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def room(self) -> int:
        """How many more targets find room."""
        return ALERT_TARGETS_MAX - len(self._rows)

    def advance(self, now: float) -> None:
        """Moves all windows on to `now`: buckets that leave a window are taken out of its sum."""
        for coarse, ring in enumerate(self._rings):
            newest = int(now // ring.seconds)
            before = newest if ring.at is None else ring.at
            for number in range(max(before + 1, newest - ring.buckets + 1), newest + 1):
                for window, sums in self._sums.items():
                    if window.coarse == bool(coarse):
                        sums -= ring.times[:, :, (number - window.buckets) % ring.buckets]
                ring.times[:, :, number % ring.buckets] = 0
            if newest - before >= ring.buckets:
                self._clear(bool(coarse))
            ring.at = max(before, newest)
        self._now = now

    def observe(self, samples: Mapping[K, bool], since: float, until: float) -> int:
        """Adds the time between two moments to the newest bucket of each target that was seen then.

        Args:
            samples: Whether the time was bad, by target.
            since, until: The moments; `advance(until)` comes first.

        Returns:
            How many targets found no room.
        """
        rows = self.claim(list(samples))
        self.observe_rows(rows, np.array(list(samples.values()), np.bool_), since, until)
        return int((rows == NO_ROW).sum())

    def observe_rows(self, rows: _Ints, bad: NDArray[np.bool_], since: float, until: float) -> None:
        """Adds the time between two moments as `observe` does, by row; targets without a row are passed over."""
        units = int(until * UNITS_PER_SECOND) - int(since * UNITS_PER_SECOND)
        for kind, some in enumerate((rows[bad & (rows != NO_ROW)], rows[~bad & (rows != NO_ROW)])):
            for ring in self._rings:
                ring.times[kind, some, int(self._now // ring.seconds) % ring.buckets] += units
            for sums in self._sums.values():
                sums[kind, some] += units

    def rows(self, keys: Sequence[K]) -> _Ints:
        """Returns the row of each target, `NO_ROW` where it has none."""
        return np.array([self._rows.get(key, NO_ROW) for key in keys], np.int64)

    def claim(self, keys: Sequence[K]) -> _Ints:
        """Returns the row of each target; those that have none get one while there is room."""
        found = [self._row(key) for key in keys]
        return np.array([NO_ROW if row is None else row for row in found], np.int64)

    def seed(self, keys: Sequence[K], seen: Sequence[SeenTime]) -> None:
        """Adds time that was seen before the first look, by target; `advance` comes first.

        Args:
            keys: The targets; those that find no room are passed over.
            seen: Of each ring, the targets in the same order.
        """
        found = [(row, at) for at, key in enumerate(keys) if (row := self._row(key)) is not None]
        rows, places = [row for row, _ in found], [at for _, at in found]
        for coarse, (ring, past) in enumerate(zip(self._rings, seen, strict=True)):
            now = ring.at = past.newest if ring.at is None else ring.at
            numbers = range(past.newest - ring.buckets + 1, past.newest + 1)
            for at in range(max(0, now - past.newest), ring.buckets):
                ring.times[:, rows, numbers[at] % ring.buckets] += past.times[:, places, at]
            for window, sums in self._sums.items():
                if window.coarse == bool(coarse):
                    first = max(0, now - window.buckets + 1 - numbers[0])
                    sums[:, rows] += past.times[:, places, first:].sum(axis=2, dtype=np.int64)

    def keep(self, wanted: set[K]) -> None:
        """Forgets targets that are not wanted any more."""
        for key in self._rows.keys() - wanted:
            row = self._rows.pop(key)
            for ring in self._rings:
                ring.times[:, row, :] = 0
            for sums in self._sums.values():
                sums[:, row] = 0
            self._free.append(row)
            self.changes += 1

    def burns(self, key: K, alert: BurnAlert, budget: float) -> bool | None:
        """Returns whether both windows burn a budget at the alert's rate; None if that is not known.

        Args:
            budget: The share of time that may be bad.
        """
        return HOLDS[int(self.burning(self.rows([key]), alert, np.array([budget]))[0])]

    def burning(self, rows: _Ints, alert: BurnAlert, budgets: NDArray[np.float64]) -> States:
        """Returns the same for many targets, by row; it is not known where there is no row."""
        long, short = (self._windows_burn(rows, window, alert.rate * budgets) for window in (alert.long, alert.short))
        return where(rows != NO_ROW, both(long, short), UNKNOWN)

    def rate(self, key: K, window: Window, budget: float) -> float:
        """Returns the burn rate that bad time alone makes in a window."""
        row = self._rows.get(key)
        return 0.0 if row is None else int(self._sums[window][0, row]) / UNITS_PER_SECOND / window.seconds / budget

    def _windows_burn(self, rows: _Ints, window: Window, shares: NDArray[np.float64]) -> States:
        bad, good = self._sums[window][:, rows]
        allowed = shares * window.seconds * UNITS_PER_SECOND
        length = self._rings[window.coarse].seconds
        lasted = (window.buckets - 1) * length + self._now % length
        return states(bad >= allowed, (bad < allowed) & (lasted * UNITS_PER_SECOND - good < allowed))

    def _row(self, key: K) -> int | None:
        row = self._rows.get(key)
        if row is None and len(self._rows) < ALERT_TARGETS_MAX:
            if not self._free:
                self._grow()
            row = self._rows[key] = self._free.pop()
            self.changes += 1
        return row

    def _grow(self) -> None:
        present = self._rings[0].times.shape[1]
        for ring in self._rings:
            ring.grow(present)
        self._sums = {
            window: np.concatenate([sums, np.zeros_like(sums)], axis=1) for window, sums in self._sums.items()
        }
        self._free = list(range(2 * present - 1, present - 1, -1))

    def _clear(self, coarse: bool) -> None:
        self._rings[coarse].times[:] = 0
        for window, sums in self._sums.items():
            if window.coarse == coarse:
                sums[:] = 0
