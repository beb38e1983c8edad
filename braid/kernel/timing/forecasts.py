"""Forecasts when a level that grows will be reached: by a straight line, or by a line with a daily wave. Pure.

The last readings of half an hour and of four days are kept, and a curve of least squares is fitted to each of them. A
daily wave (two harmonics) is fitted once more than a day was seen, and is used where it explains what a line leaves
over. A forecast reaches at most four times as far as its readings.

Times come from a clock that never steps. The memory is the process's own: a new one begins anew, and forecasts by a
line until it has seen a day.
"""

import math
from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.registry.balancing import (
    FORECAST_COARSE_SECONDS,
    FORECAST_FINE_SECONDS,
    FORECAST_KEPT_SECONDS,
    FORECAST_REACH,
    FORECAST_READINGS_FINE,
    FORECAST_READINGS_MAX,
    FORECAST_READINGS_MIN,
)
from braid.kernel.timing.days import DAY_SECONDS

Floats = NDArray[np.float64]

_SEASONAL_SPAN: Final = 1.25 * DAY_SECONDS  # less than a day and a bit does not show what is daily
_PHASES: Final = 8  # parts of a day
_PHASES_SEEN: Final = 7  # of them that must have readings
_EXPLAINS: Final = 0.5  # of the line's squared error, at most, is left by a wave that is used
_SURE: Final = 2.0  # standard errors
_STEPS: Final = 400  # of the grid on which a curve is followed into the future


class Forecast(NamedTuple):
    """When a level is reached.

    Attributes:
        seconds: From now; infinite when not within the forecast's reach.
        soonest, latest: Within two standard errors of the slope; `latest` is infinite when growth is not certain.
        slope: Bytes a second that it grows by, without the daily wave.
        seasonal: Whether a daily wave was used.
        window: The seconds over which it was seen.
    """

    seconds: float
    soonest: float
    latest: float
    slope: float
    seasonal: bool
    window: float


class FillSeries:
    """Readings of one disk's used bytes, the last half hour's at once and those of four days every five minutes."""

    def __init__(self) -> None:
        self._fine: deque[tuple[float, float]] = deque(maxlen=FORECAST_READINGS_FINE)
        self._coarse: deque[tuple[float, float]] = deque(maxlen=FORECAST_READINGS_MAX)
        self._slow: tuple[float, float, Forecast | None] | None = None  # of coarse readings: until when, for what level

    def add(self, at: float, used: float) -> None:
        """Takes a reading; one that is not later than the last, or is no number, is left out."""
        if not math.isfinite(used) or (self._fine and at <= self._fine[-1][0]):
            return
        self._fine.append((at, used))
        while at - self._fine[0][0] > FORECAST_FINE_SECONDS:
            self._fine.popleft()
        if not self._coarse or at - self._coarse[-1][0] >= FORECAST_COARSE_SECONDS:
            self._coarse.append((at, used))

    def shift(self, at: float, rate: float) -> None:
        """Corrects earlier readings for a stream that came or left, so that its move does not look like growth.

        Args:
            at: When it came or left.
            rate: Bytes a second that it brings; negative for one that left.
        """
        for readings in (self._fine, self._coarse):
            moved = [(time, used - rate * (at - time)) for time, used in readings]
            readings.clear()
            readings.extend(moved)
        self._slow = None

    def forecast(self, level: float) -> Forecast | None:
        """Returns the soonest forecast of both sets of readings; None if neither shows that it grows."""
        if not self._fine:
            return None
        now = self._fine[-1][0]
        found = [_fit(np.array(self._fine), level, seasonal=False), self._coarse_forecast(level, now)]
        return min((each for each in found if each is not None), default=None)

    def _coarse_forecast(self, level: float, now: float) -> Forecast | None:
        """The forecast of the readings of days, made anew every minute or when the level is another."""
        if self._slow is None or now >= self._slow[0] or self._slow[1] != level:
            made = _fit(np.array([*self._coarse, self._fine[-1]]), level, seasonal=True)
            self._slow = now + FORECAST_KEPT_SECONDS, level, made
        return self._slow[2]


def _fit(readings: Floats, level: float, *, seasonal: bool) -> Forecast | None:
    if len(readings) < FORECAST_READINGS_MIN:
        return None
    times, used = readings[:, 0] - readings[-1, 0], readings[:, 1]
    window = float(-times[0])
    if window <= 0:
        return None
    line = _least_squares(_columns(times, wave=False), used)
    wave = None
    if seasonal and _shows_days(times, window):
        wave = _least_squares(_columns(times, wave=True), used)
    best, waved = (wave, True) if wave is not None and wave.error < _EXPLAINS * line.error else (line, False)
    slope, sure = float(best.weights[1]), _SURE * best.slope_error
    if slope <= 0 or slope <= sure:
        return None
    now = float(used[-3:].mean())
    reach = FORECAST_REACH * window
    middle = _reached(best.weights, slope, level - now, reach, waved=waved)
    if not math.isfinite(middle):
        return None
    soonest = _reached(best.weights, slope + sure, level - now, reach, waved=waved)
    latest = _reached(best.weights, slope - sure, level - now, reach, waved=waved)
    return Forecast(middle, soonest, latest, slope, waved, window)


class _Fitted(NamedTuple):
    """A curve of least squares: its weights, its mean squared error, the standard error of its slope."""

    weights: Floats
    error: float
    slope_error: float


def _columns(times: Floats, *, wave: bool) -> Floats:
    """The parts of a curve at each time: a constant, a slope, and a daily wave of two harmonics."""
    parts = [np.ones_like(times), times]
    if wave:
        angle = 2 * math.pi * times / DAY_SECONDS
        parts += [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    return np.stack(parts, axis=1)


def _least_squares(columns: Floats, used: Floats) -> _Fitted:
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-300)
    scaled = columns / scale
    inverse = np.linalg.pinv(scaled.T @ scaled, hermitian=True)
    weights = inverse @ (scaled.T @ used)
    rest = used - scaled @ weights
    error = float(rest @ rest) / max(1, len(used) - columns.shape[1])
    return _Fitted(weights / scale, error, math.sqrt(max(0.0, error * float(inverse[1, 1]))) / float(scale[1]))


def _shows_days(times: Floats, window: float) -> bool:
    """Whether readings cover more than a day, and nearly all parts of a day."""
    phases = np.floor((times % DAY_SECONDS) / (DAY_SECONDS / _PHASES))
    return window >= _SEASONAL_SPAN and len(np.unique(phases)) >= _PHASES_SEEN


def _reached(weights: Floats, slope: float, missing: float, reach: float, *, waved: bool) -> float:
    """Seconds until the curve has grown by the missing bytes; infinite when that lies beyond its reach."""
    if missing <= 0:
        return 0.0
    if not waved:
        return missing / slope if 0 < missing / max(slope, 1e-300) <= reach else math.inf
    ahead = np.linspace(0.0, reach, _STEPS + 1)
    sloped = np.concatenate([[weights[0], slope], weights[2:]])
    grown = _columns(ahead, wave=True) @ sloped
    grown -= grown[0]
    above = np.flatnonzero(grown >= missing)
    if not len(above):
        return math.inf
    at = int(above[0])
    low, high = grown[at - 1], grown[at]
    return float(ahead[at - 1] + (ahead[at] - ahead[at - 1]) * (missing - low) / (high - low))
