"""One producer's records in one log, as it remembers them: offsets, and its producer ids and sequences. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from braid.kernel.ports import BatchHead
from braid.kernel.resumptions import SEQUENCES, Stretch


class OwnRecords:
    """A producer's acknowledged records in rising order; `position` counts them from 0."""

    def __init__(self, producer: int, stretches: Sequence[Stretch]) -> None:
        self._producer = producer
        self._stretches = stretches
        self._firsts = list(accumulate((each.next - each.first for each in stretches), initial=0))

    def index(self, offset: int) -> int:
        """The position of the first record at or above an offset; the number of records if there is none."""
        at = bisect_left(self._stretches, offset, key=lambda each: each.next - 1)
        if at == len(self._stretches):
            return self._firsts[-1]
        return self._firsts[at] + max(0, offset - self._stretches[at].first)

    def offset(self, position: int) -> int:
        """The offset at which a record was acknowledged."""
        stretch, beyond = self._at(position)
        return stretch.first + beyond

    def wrote(self, head: BatchHead, position: int) -> bool:
        """Whether a batch at a record's offset contains that record."""
        stretch, beyond = self._at(position)
        lies = (head.sequence + stretch.first + beyond - head.base) % SEQUENCES
        return head.producer == self._producer and lies == (stretch.sequence + beyond) % SEQUENCES

    def _at(self, position: int) -> tuple[Stretch, int]:
        at = bisect_right(self._firsts, position) - 1
        return self._stretches[at], position - self._firsts[at]
