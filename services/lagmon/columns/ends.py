"""The observed ends of many logs as columns: `LogEnds` for each, read and written all at once. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX
from braid.kernel.ports import TopicPartition
from services.lagmon.columns.growing import grown
from services.lagmon.model.ends import LogEnds

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_WIDTH: Final = LAG_END_SAMPLES_MAX + 1  # one too many is written before the older half is thinned
_NEVER: Final = -np.inf
_THINNED: Final = np.r_[0 : LAG_END_SAMPLES_MAX // 2 : 2, LAG_END_SAMPLES_MAX // 2 : _WIDTH]


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
        self._counts: _Ints = np.zeros(0, np.int64)
        self._sample_ends: _Ints = np.zeros((0, _WIDTH), np.int64)
        self._firsts: _Floats = np.zeros((0, _WIDTH))
        self._lasts: _Floats = np.zeros((0, _WIDTH))
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
        self._forget([number])
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
        self._forget([number for _, number in gone])

    def observe(self, ends: Mapping[TopicPartition, int], at: float) -> None:
        """Notes where logs ended at that time, as `LogEnds.observe` does; unknown logs are ignored."""
        rows, values = self._known(ends)
        lower = (self._counts[rows] > 0) & (values < self.ends[rows])
        if lower.any():  # other logs are in their place
            self._forget(rows[lower].tolist())
        counts = self._counts[rows]
        same = (counts > 0) & (values == self.ends[rows])
        self._lasts[rows[same], counts[same] - 1] = at
        new, places = rows[~same], counts[~same]
        self._sample_ends[new, places] = values[~same]
        self._firsts[new, places] = self._lasts[new, places] = at
        self._counts[new] = places + 1
        self.ends[rows], self.seen_at[rows] = values, at
        self._thin(new[places + 1 == _WIDTH])

    def observe_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Notes where logs start; unknown logs are ignored."""
        rows, values = self._known(starts)
        self.starts[rows] = values

    def recall(self, log: int, samples: Sequence[tuple[int, float]]) -> None:
        """Adds earlier observations of a log before its own: ends and when each was seen, neither of which may fall."""
        count = int(self._counts[log])
        if not count:
            return
        first_end, first_at = int(self._sample_ends[log, 0]), float(self._firsts[log, 0])
        earlier = [(end, at) for end, at in samples if end < first_end and at <= first_at]
        earlier = earlier[: LAG_END_SAMPLES_MAX - count]
        added = len(earlier)
        if not added:
            return
        for column in (self._sample_ends, self._firsts, self._lasts):
            column[log, added : added + count] = column[log, :count].copy()
        self._sample_ends[log, :added] = [end for end, _ in earlier]
        self._firsts[log, :added] = self._lasts[log, :added] = [at for _, at in earlier]
        self._counts[log] = count + added

    @property
    def unseen(self) -> int:
        """How many logs have no observed end."""
        return int(np.isnan(self.seen_at[list(self.logs.values())]).sum())

    def written(self, logs: _Ints, offsets: _Ints) -> Written:
        """Returns when offsets were written, each in the log of that number, as `LogEnds` does for one."""
        counts = self._counts[logs]
        ends = self._sample_ends[logs]
        live = np.arange(_WIDTH) < counts[:, np.newaxis]
        at = ((ends <= offsets[:, np.newaxis]) & live).sum(axis=1)
        before, behind = np.maximum(at - 1, 0), np.minimum(at, _WIDTH - 1)
        after = np.where(at > 0, self._lasts[logs, before], np.nan)
        by = np.where(at < counts, self._firsts[logs, behind], np.nan)
        each = np.arange(len(logs))
        from_end, to_end = ends[each, before], ends[each, behind]
        share = (offsets + 1 - from_end) / np.where(to_end > from_end, to_end - from_end, 1)
        return Written(after, by, after + share * (by - after))

    def log_ends(self, number: int) -> LogEnds:
        """Returns what is known of one log."""
        count = int(self._counts[number])
        columns: Sequence[NDArray[np.int64] | NDArray[np.float64]] = (self._sample_ends, self._firsts, self._lasts)
        return LogEnds.of(int(self.starts[number]), [column[number, :count].tolist() for column in columns])

    def _known(self, values: Mapping[TopicPartition, int]) -> tuple[_Ints, _Ints]:
        found = [(self.logs.get(log, -1), value) for log, value in values.items()]
        pairs = np.array(found, np.int64).reshape(-1, 2)
        pairs = pairs[pairs[:, 0] >= 0]
        return pairs[:, 0], pairs[:, 1]

    def _thin(self, rows: _Ints) -> None:
        """Leaves out every other sample of the older half; the first and the newer half stay."""
        if not len(rows):
            return
        for column in (self._sample_ends, self._firsts, self._lasts):
            column[rows, : len(_THINNED)] = column[rows][:, _THINNED]
        self._counts[rows] = len(_THINNED)

    def _forget(self, numbers: Sequence[int]) -> None:
        self.starts[numbers] = self.ends[numbers] = -1
        self.seen_at[numbers] = np.nan
        self._counts[numbers] = 0

    def _grow(self) -> None:
        if self._used <= len(self._counts):
            return
        self.starts, self.ends = grown(self.starts, self._used, -1), grown(self.ends, self._used, -1)
        self.seen_at, self._counts = grown(self.seen_at, self._used, np.nan), grown(self._counts, self._used, 0)
        self._sample_ends = grown(self._sample_ends, self._used, 0)
        self._firsts, self._lasts = grown(self._firsts, self._used, 0.0), grown(self._lasts, self._used, 0.0)
