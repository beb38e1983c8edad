"""DDSketch: quantiles of latency with a relative error of 1 %, in sketches that can be merged. Pure.

Masson, Rim and Lee, *DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees*, VLDB 2019.
Latencies are whole milliseconds between 0 and 30 days, so the bins are bounded without collapsing any.
"""

from collections.abc import Mapping
from math import ceil, log
from typing import Final

from braid.kernel.limits.lagmon.pathways import SKETCH_GAMMA, SKETCH_MS_MAX

_LOG_GAMMA: Final = log(SKETCH_GAMMA)


class Sketch:
    """A sketch of latencies in milliseconds.

    Attributes:
        zeros: How many were below a millisecond.
        bins: How many lie in each bin: in bin i those above gamma^(i-1) and up to gamma^i.
    """

    __slots__ = ("bins", "zeros")

    def __init__(self, zeros: int = 0, bins: Mapping[int, int] | None = None) -> None:
        """Begins a sketch, empty unless counts are given."""
        self.zeros = zeros
        self.bins: dict[int, int] = dict(bins or {})

    @property
    def count(self) -> int:
        """How many latencies it holds."""
        return self.zeros + sum(self.bins.values())

    def add(self, latency_ms: int, weight: int = 1) -> None:
        """Adds a latency, `weight` times."""
        if latency_ms < 1:
            self.zeros += weight
            return
        at = ceil(log(min(latency_ms, SKETCH_MS_MAX)) / _LOG_GAMMA)
        self.bins[at] = self.bins.get(at, 0) + weight

    def merge(self, other: "Sketch") -> None:
        """Adds all latencies of another sketch."""
        self.zeros += other.zeros
        bins = self.bins
        for at, count in other.bins.items():
            bins[at] = bins.get(at, 0) + count

    def quantiles(self, *parts: float) -> list[float]:
        """Returns quantiles in milliseconds, for parts between 0 and 1 in ascending order; zeros without latencies."""
        total = self.count
        found: list[float] = []
        ranks = [part * max(0, total - 1) for part in parts]
        passed, value = self.zeros, 0.0
        left = iter(sorted(self.bins.items()))
        for rank in ranks:
            while passed <= rank:
                step = next(left, None)
                if step is None:
                    break
                value, passed = _middle(step[0]), passed + step[1]
            found.append(value)
        return found


def _middle(at: int) -> float:
    """The value of a bin whose distance from everything in the bin is 1 % at most."""
    return 2 * SKETCH_GAMMA**at / (SKETCH_GAMMA + 1)
