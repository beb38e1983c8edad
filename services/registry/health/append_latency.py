"""Is a cluster slower than it usually is? Its own usual time, learnt from its own appends. Pure.

The usual time is a quantile that every append moves a little (Ma, Muthukrishnan, Sandler: Frugal Streaming for
Estimating Quantiles, 2013; here by a part of itself, and by larger ones while it is new). It adapts over minutes: what
lasts becomes usual, what is seen for seconds does not.
"""

from dataclasses import dataclass, replace
from statistics import median

from braid.kernel.limits.health import (
    SLOW_LOOKS,
    SLOW_TIMEOUT_PART,
    USUAL_LOOKS_MIN,
    USUAL_QUANTILE,
    USUAL_STEP,
    USUAL_TOLD_PART,
)
from services.registry.model.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class Latency:
    """What is known of a cluster's appends.

    Attributes:
        usual: Seconds that nine of ten stay below; 0 before the first.
        looks: How many were seen.
        recent: The last ones, in order.
    """

    usual: float = 0.0
    looks: int = 0
    recent: tuple[float, ...] = ()

    def after(self, seconds: float) -> "Latency":
        """With one more append."""
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
        """Whether there are enough appends of late to tell what is present."""
        return len(self.recent) == SLOW_LOOKS

    @property
    def present(self) -> float:
        """The middle one of the last appends; 0 before there are enough."""
        return median(self.recent) if self.settled else 0.0

    def bound(self, thresholds: Thresholds) -> float:
        """Seconds beyond which an append is slow here."""
        most = SLOW_TIMEOUT_PART * thresholds.look_timeout_seconds
        if self.looks < USUAL_LOOKS_MIN:
            return max(thresholds.slow_floor_seconds, most)
        return max(thresholds.slow_floor_seconds, min(most, thresholds.slow_factor * self.usual))

    def slow(self, thresholds: Thresholds) -> str:
        """Why the cluster counts as slow at present, for people; '' when it does not."""
        if self.present <= self.bound(thresholds):
            return ""
        return f"an append takes {self.present * 1e3:.0f} ms, {self.usual * 1e3:.0f} ms is usual"

    def tells(self, known: float, thresholds: Thresholds) -> bool:
        """Whether the usual time is worth writing down where `known` was last; 0 where nothing was.

        That is so at first, and where another append than before is slow: most clusters are so fast that it never is.
        """
        if self.looks < USUAL_LOOKS_MIN or not self.usual:
            return False
        before = replace(self, usual=known).bound(thresholds)
        return not known or abs(self.bound(thresholds) - before) > USUAL_TOLD_PART * before


def inherited(usual: float) -> Latency:
    """What a new leader begins with: the time that was written down, as good as if it had seen it for long."""
    return Latency(usual, round(1 / USUAL_STEP)) if usual else Latency()
