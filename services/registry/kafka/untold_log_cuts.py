"""Detects truncated logs from reports of producers of older releases, which name connections but not their records.

Their batches carry one producer id, which is found where the producer continued. If the last earlier record carries it
too, nothing was truncated. Otherwise the log was truncated where an epoch begins, above the producer's last batch. If
no producer id is found, the epochs alone decide, as in older releases of the registry.
"""

from itertools import pairwise
from typing import Final, Protocol

from braid.kernel.ports import BatchHead
from braid.kernel.resumptions import SEQUENCES, Resumption

_BATCHES_SEEN: Final = 8  # at the beginning of an epoch, in search of a producer's


class Readable(Protocol):
    """A log whose batches can be read: `log_cuts.Log`."""

    start: int
    end: int

    async def head(self, offset: int) -> BatchHead: ...
    async def span(self, head: BatchHead) -> tuple[int, int]: ...


class UntoldRecords:
    """Records that one producer had acknowledged over one connection."""

    def __init__(self, log: Readable, told: Resumption) -> None:
        self._log = log
        self._told = told
        self._first = max(told.first, log.start)
        self._stop = min(told.next, log.end)

    async def lost(self, *, final: bool) -> list[tuple[int, int]]:
        """See `log_cuts.Log.lost`. Decides nothing before the log holds the producer's next records, if it ever
        will."""
        waits = self._log.end <= self._told.resumed and not final
        if waits or self._first >= self._stop or await self._last_is_there():
            return []
        cut = await self._cut()
        return [(cut, self._told.next)] if cut < self._stop else []

    async def _last_is_there(self) -> bool:
        """Whether the producer's last record is where it was acknowledged, judged by its producer id."""
        last, resumed = self._told.next - 1, self._told.resumed
        if not last < resumed < self._log.end:
            return False
        return _follows(await self._log.head(resumed), resumed, await self._log.head(last), last)

    async def _cut(self) -> int:
        told, log = self._told, self._log
        begun = await log.head(self._first)
        first, stop = await log.span(begun)
        if first <= told.resumed < min(stop, log.end):
            # The same epoch: the leader stayed, or nothing of the older one is left from where the other begins.
            return first if told.resumed < told.next else told.next
        edges = [stop]
        while edges[-1] < self._stop:
            _, stop = await log.span(await log.head(edges[-1]))
            edges.append(stop)
        for one, other in reversed(list(pairwise(edges))):
            if await self._wrote(one, other, begun.producer):
                return other
        return edges[0]

    async def _wrote(self, first: int, stop: int, producer: int) -> bool:
        """Whether one of the first batches from an offset on is the producer's, from before it continued."""
        stop = min(stop, self._stop, self._told.resumed)
        for _ in range(_BATCHES_SEEN):
            if first >= stop or producer < 0:
                return False
            head = await self._log.head(first)
            if head.producer == producer:
                return True
            first = head.last + 1
        return False


def _follows(later: BatchHead, at: int, earlier: BatchHead, before: int) -> bool:
    """Whether the records at two offsets are one producer's, written in this order."""
    apart = (later.sequence + at - later.base - earlier.sequence - before + earlier.base) % SEQUENCES
    return 0 <= later.producer == earlier.producer and 0 < apart < SEQUENCES // 2
