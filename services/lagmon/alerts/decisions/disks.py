"""When the fullest disk of a cluster is full, if it goes on filling as it did. Pure.

A straight line is fitted to what was taken, over windows from two minutes to 18 hours. A forecast reaches at most four
times as far as its window. So a line is believed only if the window took a good part of what is left: use that stays
within a sixth of the free space is never forecast to fill a disk, however it goes up and down.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import (
    ALERT_DISK_COARSE_SECONDS,
    ALERT_DISK_GAP_SECONDS,
    ALERT_DISK_REACH,
    ALERT_DISK_READINGS_MIN,
    ALERT_DISK_SERIES_MAX,
    ALERT_DISK_TAKEN,
)
from services.lagmon.alerts.decisions.facts import ClusterFacts, DiskReading

Floats = NDArray[np.float64]

_FINE_WINDOWS: Final = (120.0, 600.0, 2_700.0, 5_400.0)
_COARSE_WINDOWS: Final = (21_600.0, 64_800.0)
WATCHED_FOR_PAGE: Final = _FINE_WINDOWS[-1]
WATCHED_FOR_TICKET: Final = _COARSE_WINDOWS[-1]
_FINE_READINGS: Final = 600
_COARSE_READINGS: Final = 240
_COVERED: Final = 0.9  # of a window, between the oldest and the newest reading
_RECENT: Final = 3  # the newest part of a window shows whether it still fills: a third
_SURE: Final = 2.0  # standard errors


class Forecast(NamedTuple):
    """When a disk is full.

    Attributes:
        seconds: From now.
        soonest, latest: Within two standard errors of the line's slope.
        window: The seconds over which it was seen to fill.
        filling: Whether it did so also in the newest third of them.
    """

    seconds: float
    soonest: float
    latest: float
    window: float
    filling: bool


class _Disk:
    """Readings of one disk: at once and of every five minutes."""

    def __init__(self) -> None:
        self.fine: deque[tuple[float, float]] = deque(maxlen=_FINE_READINGS)
        self.coarse: deque[tuple[float, float]] = deque(maxlen=_COARSE_READINGS)

    def add(self, at: float, used: float) -> None:
        self.fine.append((at, used))
        if not self.coarse or at - self.coarse[-1][0] >= ALERT_DISK_COARSE_SECONDS:
            self.coarse.append((at, used))

    def forecast(self, free: float, now: float) -> Forecast | None:
        """Returns the soonest forecast of all windows; None if no window shows that it fills."""
        fine, coarse = np.array(self.fine), np.array([*self.coarse, self.fine[-1]])
        lines = [_line(fine, window, free, now) for window in _FINE_WINDOWS]
        lines += [_line(coarse, window, free, now) for window in _COARSE_WINDOWS]
        return min((each for each in lines if each is not None), default=None)


class _Watched:
    """All disks of one cluster that were its fullest."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.read = now
        self.measured_ms = 0
        self.disks: dict[tuple[int, int], _Disk] = {}
        self.forecast: Forecast | None = None

    def observe(self, reading: DiskReading, now: float) -> None:
        """Takes a reading, once."""
        if reading.measured_ms == self.measured_ms:
            return
        if now - self.read > ALERT_DISK_GAP_SECONDS:
            self.since = now
        self.measured_ms, self.read = reading.measured_ms, now
        name = (reading.broker, reading.total_bytes)
        disk = self.disks.pop(name, None) or _Disk()
        self.disks[name] = disk  # the newest is last
        while len(self.disks) > ALERT_DISK_SERIES_MAX:
            del self.disks[next(iter(self.disks))]
        disk.add(now, float(reading.total_bytes - reading.free_bytes))
        self.forecast = disk.forecast(float(reading.free_bytes), now)


class Disks:
    """The readings of every cluster's fullest disk, and what they forecast."""

    def __init__(self) -> None:
        self._clusters: dict[str, _Watched] = {}

    def observe(self, clusters: Mapping[str, ClusterFacts], now: float) -> None:
        """Takes the registry's newest readings; forgets clusters that are gone."""
        self._clusters = {name: each for name, each in self._clusters.items() if name in clusters}
        for name, cluster in clusters.items():
            if cluster.disk is not None:
                self._clusters.setdefault(name, _Watched(now)).observe(cluster.disk, now)

    def forecast(self, cluster: str) -> Forecast | None:
        """Returns when the fullest disk of a cluster is full; None if it does not fill as far as anybody saw."""
        watched = self._clusters.get(cluster)
        return watched.forecast if watched is not None else None

    def watched_seconds(self, cluster: str, now: float) -> float:
        """For how long the cluster's disks have been watched."""
        watched = self._clusters.get(cluster)
        return now - watched.since if watched is not None else 0.0


def _line(readings: Floats, window: float, free: float, now: float) -> Forecast | None:
    """Fits a line to the readings of a window; None if they do not fill the disk within the window's reach."""
    inside = readings[readings[:, 0] >= now - window]
    times, used = inside[:, 0] - now, inside[:, 1]
    if len(inside) < ALERT_DISK_READINGS_MIN or -times[0] < _COVERED * window:
        return None
    slope, error = _slope(times, used)
    sure, taken = slope - _SURE * error, float(used.max() - used.min())
    if sure <= 0 or free > slope * ALERT_DISK_REACH * window or free > ALERT_DISK_TAKEN * taken:
        return None
    recent = times >= -window / _RECENT
    filling = recent.sum() > 1 and _slope(times[recent], used[recent])[0] >= slope / ALERT_DISK_REACH
    return Forecast(free / slope, free / (slope + _SURE * error), free / sure, window, bool(filling))


def _slope(times: Floats, used: Floats) -> tuple[float, float]:
    """Returns the slope of the line of least squares, and its standard error."""
    away = times - times.mean()
    spread = float(away @ away)
    if not spread:
        return 0.0, math.inf
    slope = float(away @ used) / spread
    rest = used - used.mean() - slope * away
    degrees = max(1, len(times) - 2)
    return slope, math.sqrt(float(rest @ rest) / degrees / spread)
