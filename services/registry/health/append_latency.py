"""Judges whether a cluster is slower than usual, by a usual time learned from its own appends. Pure.

The usual time is a quantile that every append moves a little (Ma, Muthukrishnan, Sandler: Frugal Streaming for
Estimating Quantiles, 2013; here by a fraction of itself, and by larger steps at first). It adapts over minutes: a
lasting change becomes usual, a change of seconds does not.
"""

from dataclasses import dataclass, replace
from statistics import median

from braid.kernel.limits.registry.health import (
    SLOW_LOOKS,
    SLOW_TIMEOUT_PART,
    USUAL_LOOKS_MIN,
    USUAL_QUANTILE,
    USUAL_STEP,
    USUAL_TOLD_PART,
)
from services.registry.model.clusters.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class Latency:
    """A cluster's usual and present append times.

    Attributes:
        usual: Seconds below which nine of ten appends stay; 0 before the first.
        looks: Number of appends seen.
        recent: The latest append times, oldest first.
    """

    usual: float = 0.0
    looks: int = 0
    recent: tuple[float, ...] = ()

    def after(self, seconds: float) -> "Latency":
        """The state after one more append."""
        step = max(USUAL_STEP, 1 / (self.looks + 2))
        if not self.looks:
            usual = seconds
        elif seconds > self.usual:
            usual = min(seconds, self.usual * (1 + step * USUAL_QUANTILE))
        else:
            usual = max(seconds, self.usual * (1 - step * (1 - USUAL_QUANTILE)))
        return Latency(usual, self.looks + 1, (*self.recent, seconds)[-SLOW_LOOKS:])

    @property
    def settled(self) -> bool:
        """Whether there are enough recent appends to judge the present."""
        return len(self.recent) == SLOW_LOOKS

    @property
    def present(self) -> float:
        """The median of the latest appends, in seconds; 0 before there are enough."""
        return median(self.recent) if self.settled else 0.0

    def bound(self, thresholds: Thresholds) -> float:
        """Seconds beyond which an append to this cluster is slow."""
        most = SLOW_TIMEOUT_PART * thresholds.look_timeout_seconds
        if self.looks < USUAL_LOOKS_MIN:
            return max(thresholds.slow_floor_seconds, most)
        return max(thresholds.slow_floor_seconds, min(most, thresholds.slow_factor * self.usual))

    def slow(self, thresholds: Thresholds) -> str:
        """Why the cluster is slow at present, for people; '' if it is not."""
        if self.present <= self.bound(thresholds):
            return ""
        return f"an append takes {self.present * 1e3:.0f} ms, {self.usual * 1e3:.0f} ms is usual"

    def tells(self, known: float, thresholds: Thresholds) -> bool:
        """Whether the usual time is worth recording, where `known` was recorded last; 0 if nothing was.

        It is at first, and when it changes which appends are slow. Most clusters are so fast that it never does.
        """
        if self.looks < USUAL_LOOKS_MIN or not self.usual:
            return False
        before = replace(self, usual=known).bound(thresholds)
        return not known or abs(self.bound(thresholds) - before) > USUAL_TOLD_PART * before


def inherited(usual: float) -> Latency:
    """The state a new leader starts from: the recorded usual time, as if it had observed it for long."""
    return Latency(usual, round(1 / USUAL_STEP)) if usual else Latency()
