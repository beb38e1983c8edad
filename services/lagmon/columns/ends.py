"""The observed ends of many logs as columns: `LogEnds` for each, read and written all at once. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX
from braid.kernel.ports import TopicPartition
from services.lagmon.columns.growing import grown
from services.lagmon.columns.sample_pools import SamplePools
from services.lagmon.model.ends import LogEnds

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


class Written(NamedTuple):
    """When offsets were written, by entry: not before `after`, and by `by`; NaN where the log was not observed so.

    Attributes:
        guessed: When, if each log grew evenly between two observations; NaN if unknown.
    """

    after: _Floats
    by: _Floats
    guessed: _Floats


class EndColumns:
    """Observed ends of the logs of one cluster. A log's number stays until the log is dropped.

    Attributes:
        logs: The number of each log.
        starts: First offsets as last seen, -1 before.
        ends: Newest ends, -1 before any was seen.
        seen_at: When an end was last seen; NaN before.
    """

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, int] = {}
        self.starts: _Ints = np.full(0, -1, np.int64)
        self.ends: _Ints = np.full(0, -1, np.int64)
        self.seen_at: _Floats = np.full(0, np.nan)
        self._samples = SamplePools()
        self._topics: dict[str, dict[int, int]] = {}
        self._free: list[int] = []
        self._used = 0

    def numbers(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """Returns the numbers of a topic's logs, new ones for logs not known before."""
        known = self._topics.setdefault(topic, {})
        for partition in partitions:
            if partition not in known:
                known[partition] = self._number(TopicPartition(topic, partition))
        return [known[partition] for partition in partitions]

    def _number(self, log: TopicPartition) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number, self._used = self._used, self._used + 1
            self._grow()
        self.logs[log] = number
        return number

    def keep(self, numbers: Iterable[int]) -> None:
        """Drops every log but these."""
        kept = set(numbers)
        gone = [(log, number) for log, number in self.logs.items() if number not in kept]
        for log, number in gone:
            del self.logs[log]
            del self._topics[log.topic][log.partition]
            if not self._topics[log.topic]:
                del self._topics[log.topic]
            self._free.append(number)
        self._forget(np.array([number for _, number in gone], np.int64))

    def observe(self, ends: Mapping[TopicPartition, int], at: float) -> None:
        """Notes where logs ended at that time, as `LogEnds.observe` does; unknown logs are ignored."""
        rows, values = self._known(ends)
        samples = self._samples
        lower = (samples.counts[rows] > 0) & (values < self.ends[rows])
        if lower.any():  # other logs are in their place
            self._forget(rows[lower])
        same = (samples.counts[rows] > 0) & (values == self.ends[rows])
        samples.see_again(rows[same], at)
        samples.append(rows[~same], values[~same], at)
        self.ends[rows], self.seen_at[rows] = values, at

    def observe_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Notes where logs start; unknown logs are ignored."""
        rows, values = self._known(starts)
        self.starts[rows] = values

    def recall(self, log: int, samples: Sequence[tuple[int, float]]) -> None:
        """Adds earlier observations of a log before its own: ends and when each was seen, neither of which may fall."""
        ends, firsts, lasts = self._samples.samples(log)
        if not ends:
            return
        earlier = [(end, at) for end, at in samples if end < ends[0] and at <= firsts[0]]
        earlier = earlier[: LAG_END_SAMPLES_MAX - len(ends)]
        if not earlier:
            return
        times = [at for _, at in earlier]
        self._samples.replace(log, [end for end, _ in earlier] + ends, times + firsts, times + lasts)

    @property
    def unseen(self) -> int:
        """How many logs have no observed end."""
        return int(np.isnan(self.seen_at[list(self.logs.values())]).sum())

    def written(self, logs: _Ints, offsets: _Ints) -> Written:
        """Returns when offsets were written, each in the log of that number, as `LogEnds` does for one."""
        from_end, to_end, after, by = self._samples.between(logs, offsets)
        share = (offsets + 1 - from_end) / np.where(to_end > from_end, to_end - from_end, 1)
        return Written(after, by, after + share * (by - after))

    def log_ends(self, number: int) -> LogEnds:
        """Returns what is known of one log."""
        return LogEnds.of(int(self.starts[number]), self._samples.samples(number))

    def _known(self, values: Mapping[TopicPartition, int]) -> tuple[_Ints, _Ints]:
        count = len(values)
        rows = np.fromiter(map(self.logs.get, values, repeat(-1)), np.int64, count)
        found = np.fromiter(values.values(), np.int64, count)
        known = rows >= 0
        return (rows, found) if known.all() else (rows[known], found[known])

    def _forget(self, numbers: _Ints) -> None:
        self.starts[numbers] = self.ends[numbers] = -1
        self.seen_at[numbers] = np.nan
        self._samples.clear(numbers)

    def _grow(self) -> None:
        self.starts, self.ends = grown(self.starts, self._used, -1), grown(self.ends, self._used, -1)
        self.seen_at = grown(self.seen_at, self._used, np.nan)
        self._samples.grow(self._used)
