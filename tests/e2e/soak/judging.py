"""A soak's observations of each process, and whether they stay within bounds (I17). Pure.

A single value says little: caches fill, garbage waits to be collected. Growth is judged by the slope over all that was
seen after the start (Theil-Sen: the median of the slopes between pairs of samples), and beside it by a bound that no
sample may pass. Stalls of event loops are judged by their 99.9th percentile over all processes of a kind.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

from testbed.checkers import Violation

INVARIANT: Final = "I17 bounds"
WARM_UP_SHARE: Final = 1 / 3  # of a soak in which caches fill
WARM_UP_SECONDS_MAX: Final = 300.0
POINTS_MAX: Final = 200  # of a series that are compared in pairs
POINTS_MIN: Final = 10
STALL_SECONDS: Final = 0.1
STALL_QUANTILE: Final = 0.999
HOUR_SECONDS: Final = 3_600.0
MEBI: Final = 1 << 20


class Sample(NamedTuple):
    """One look at one process.

    Attributes:
        at_seconds: On one clock for all.
        memory_bytes: Resident.
        descriptors: Open files, sockets included.
        tasks: On its event loop.
    """

    at_seconds: float
    memory_bytes: float
    descriptors: float
    tasks: float


class Limit(NamedTuple):
    """How much one figure may grow while a soak is judged, and what it may never pass.

    Attributes:
        floor: Growth that is allowed however short the soak is.
        per_hour: Further growth.
        most: No sample is above it.
    """

    floor: float
    per_hour: float
    most: float


LIMITS: Final[Mapping[str, Limit]] = {
    "memory_bytes": Limit(12 * MEBI, 4 * MEBI, 768 * MEBI),
    "descriptors": Limit(6, 1, 512),
    "tasks": Limit(12, 1, 2_000),
}


@dataclass(frozen=True)
class Seen:
    """The observations of a soak, by process.

    Attributes:
        samples: By process, in order of time.
        late: By kind of process, how late its event loops ran their timers: by seconds, how many were that late or
            less, and how many there were (`inf`).
    """

    samples: Mapping[str, Sequence[Sample]]
    late: Mapping[str, Mapping[float, float]]


def judge(seen: Seen) -> list[Violation]:
    """Curves that grow without bound, and kinds of processes whose event loops stall."""
    return [*growing(seen.samples), *stalling(seen.late)]


def growing(samples: Mapping[str, Sequence[Sample]]) -> list[Violation]:
    """Processes of which a figure grows by more than its limit, or passes its bound."""
    return [Violation(INVARIANT, each, 0) for process, series in samples.items() for each in _growth(process, series)]


def stalling(late: Mapping[str, Mapping[float, float]]) -> list[Violation]:
    """Kinds of processes whose event loops are late by more than 100 ms too often."""
    found = []
    for kind, counts in late.items():
        every = counts[float("inf")]
        over = every - counts[STALL_SECONDS]
        if over > every * (1 - STALL_QUANTILE):
            found.append(
                Violation(INVARIANT, f"event loops of {kind}: {over:g} of {every:g} timers over 100 ms late", 0)
            )
    return found


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth a second, by the estimator of Theil and Sen (Sen, 1968): outliers and saw-teeth do not turn it."""
    thinned = points[:: -(-len(points) // POINTS_MAX)]
    pairs = combinations(thinned, 2)
    return statistics.median((later - value) / (then - at) for (at, value), (then, later) in pairs if then > at)


def _growth(process: str, series: Sequence[Sample]) -> Iterator[str]:
    span = series[-1].at_seconds - series[0].at_seconds
    warm = series[0].at_seconds + min(span * WARM_UP_SHARE, WARM_UP_SECONDS_MAX)
    judged = [each for each in series if each.at_seconds >= warm]
    if len(judged) < POINTS_MIN:
        yield f"{process}: {len(judged)} samples are too few to judge"
        return
    seconds = judged[-1].at_seconds - judged[0].at_seconds
    for name, limit in LIMITS.items():
        values = [(each.at_seconds, getattr(each, name)) for each in judged]
        grown = slope(values) * seconds
        if grown > limit.floor + limit.per_hour * seconds / HOUR_SECONDS:
            yield f"{process}: {name} grew by {grown:,.0f} in {seconds:.0f} s"
        if (most := max(value for _, value in values)) > limit.most:
            yield f"{process}: {name} reached {most:,.0f}, the bound is {limit.most:,.0f}"
