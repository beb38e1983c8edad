"""The observed ends of one log over time: bounded, and enough to say roughly when an offset was written. Pure.

Times are seconds on a clock that never steps. An end that stays is one sample with a first and a last time.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX


class WrittenBetween(NamedTuple):
    """When an offset was written: not before `after`, and by `by`. None: the log was not observed so early."""

    after: float | None
    by: float | None


@dataclass(slots=True)
class _Sample:
    end: int
    first: float
    last: float


@dataclass(slots=True)
class LogEnds:
    """Observed ends of one log.

    Attributes:
        start: The log's first offset as last seen, -1 before.
    """

    start: int = -1
    _samples: list[_Sample] = field(default_factory=list)

    @classmethod
    def of(cls, start: int, columns: Sequence[Sequence[float]]) -> "LogEnds":
        """Makes a log's ends of its start and three columns: ends, and first and last times at which each was seen."""
        return cls(start, [_Sample(int(end), first, last) for end, first, last in zip(*columns, strict=True)])

    @property
    def end(self) -> int:
        """The newest end; -1 before any was seen."""
        return self._samples[-1].end if self._samples else -1

    @property
    def seen_at(self) -> float | None:
        """When the end was last seen."""
        return self._samples[-1].last if self._samples else None

    def observe(self, end: int, at: float) -> None:
        """Notes the log's end at that time.

        An end below the last one means another log: everything known is forgotten.
        """
        samples = self._samples
        if samples and end < samples[-1].end:
            samples.clear()
            self.start = -1
        if samples and end == samples[-1].end:
            samples[-1].last = at
            return
        samples.append(_Sample(end, at, at))
        if len(samples) > LAG_END_SAMPLES_MAX:
            half = LAG_END_SAMPLES_MAX // 2
            # Without every other sample of the older half; the first and the newer half stay.
            samples[:half] = samples[:half:2]

    def written(self, offset: int) -> WrittenBetween:
        """Returns the two observations between which an offset below the end was written."""
        at = bisect_right(self._samples, offset, key=lambda sample: sample.end)
        after = self._samples[at - 1].last if at else None
        by = self._samples[at].first if at < len(self._samples) else None
        return WrittenBetween(after, by)

    def guessed(self, offset: int) -> float | None:
        """Returns when an offset was written if the log grew evenly between two observations; None if unknown."""
        at = bisect_right(self._samples, offset, key=lambda sample: sample.end)
        if not 0 < at < len(self._samples):
            return None
        before, behind = self._samples[at - 1], self._samples[at]
        share = (offset + 1 - before.end) / (behind.end - before.end)
        return before.last + share * (behind.first - before.last)
