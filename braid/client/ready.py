"""Fetched records that wait for a handler: one queue a lane, taken from in turns that follow the lanes' shares."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from braid.client.record import Record
from braid.kernel import limits
from braid.kernel.ports import KafkaRecord

if TYPE_CHECKING:
    from braid.client.partition_work import PartitionWork


class Slice:
    """Records of one partition that wait together; what an application sees of them is made when it is handed out."""

    __slots__ = ("admitted", "index", "raws", "sizes", "times", "work")

    def __init__(
        self,
        work: "PartitionWork",
        raws: Sequence[KafkaRecord],
        times: Sequence[int],
        sizes: Sequence[int],
        *,
        admitted: bool = False,
    ) -> None:
        """`times` are ingestion times (ms), `sizes` what they weigh in memory, one each a record.

        `admitted`: their turn has come (`Order`), and they keep it until they are settled.
        """
        self.admitted = admitted
        self.work = work
        self.raws = raws
        self.times = times
        self.sizes = sizes
        self.index = 0

    def __len__(self) -> int:
        return len(self.raws) - self.index

    def rest(self, count: int) -> "Slice":
        """Takes up to `count` records out, in order."""
        first, self.index = self.index, min(self.index + count, len(self.raws))
        taken = slice(first, self.index)
        return Slice(self.work, self.raws[taken], self.times[taken], self.sizes[taken], admitted=self.admitted)


class Ready:
    """Queues of slices by lane, taken from in turns: as many records of a lane in a row as its share allows."""

    def __init__(self, shares: Mapping[str, int]) -> None:
        """`shares` by lane; a lane that is not named has share 1."""
        self._shares = dict(shares)
        self._queues: dict[str, deque[Slice]] = {}
        self._order: deque[str] = deque()
        self._turn: deque[Slice] = deque()  # the queue whose turn it is
        self._left = 0  # records of its turn
        self._paused: set[str] = set()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._error: BaseException | None = None
        self._closed = False
        self._streak = 0

    def put(self, waiting: Slice, *, first: bool = False) -> None:
        """Adds records behind those of their lane, or before them."""
        lane = waiting.work.lease.id.channel.lane
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = deque()
            self._order.append(lane)
        if first:
            queue.appendleft(waiting)
        else:
            queue.append(waiting)
        waiting.work.memory.waiting += len(waiting)
        for _ in range(min(len(waiting), len(self._takers))):
            self._wake()

    def take_nowait(self) -> Record | None:
        """The next record whose lease still works, or None. Dropped ones on the way give their bytes back."""
        while (queue := self._next_queue()) is not None:
            first = queue[0]
            work = first.work
            if not work.hand_out(1):
                self._forget(queue)
                continue
            index = first.index
            first.index = index + 1
            if first.index == len(first.raws):
                self._forget(queue)
            if work.ordered and not first.admitted and not work.admits(first, index):
                continue
            return Record(first.raws[index], work, first.times[index], first.sizes[index])
        return None

    def take_slice_nowait(self, max_records: int) -> Slice | None:
        """As `take_nowait`, as many records of one partition as wait together."""
        while (queue := self._next_queue()) is not None:
            first = queue[0]
            count = min(max_records, len(first))
            if not first.work.hand_out(count):
                self._forget(queue)
                continue
            if first.work.ordered and not first.admitted and not first.work.admits_slice(first, count):
                self._forget(queue)
                continue
            taken = first.rest(max_records)
            if not first:
                self._forget(queue)
            return taken
        return None

    def take_quickly(self) -> Record | None:
        """As `take_nowait`, or None when `take` has to see to it: now and then everything else needs a turn."""
        self._streak += 1
        if self._streak >= limits.RECORDS_BETWEEN_YIELDS or self._error is not None:
            return None
        return self.take_nowait()

    async def take(self) -> Record | None:
        """The next record, waiting for one; None once closed and empty. Raises what `fail` was given."""
        while await self._may_take():
            record = self.take_nowait()
            if record is not None or self._closed:
                return record
            await self._wait()
        return None

    async def take_slice(self, max_records: int) -> Slice | None:
        """As `take`, as many records of one partition as wait together."""
        while await self._may_take():
            taken = self.take_slice_nowait(max_records)
            if taken is not None or self._closed:
                return taken
            await self._wait()
        return None

    def pause(self, lane: str) -> None:
        """Hands out nothing of this lane."""
        self._paused.add(lane)
        self._left = 0

    def resume(self, lane: str) -> None:
        """Hands this lane out again."""
        self._paused.discard(lane)
        self._wake_all()

    def fail(self, error: BaseException) -> None:
        """Everybody who takes gets this error."""
        self._error = error
        self._wake_all()

    def close(self) -> None:
        """Everybody who waits gets None."""
        self._closed = True
        self._wake_all()

    def _forget(self, queue: deque[Slice]) -> None:
        """Takes a queue's first slice away; what was not handed out of it never will be."""
        first = queue.popleft()
        first.work.memory.waiting -= len(first.raws)
        first.work.drop(first)

    async def _may_take(self) -> bool:
        """Lets everything else run now and then: an application that never waits would starve its heartbeats."""
        self._streak += 1
        if self._streak >= limits.RECORDS_BETWEEN_YIELDS:
            self._streak = 0
            await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        return True

    async def _wait(self) -> None:
        taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._streak = 0
        try:
            await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._wake()  # pass the turn on
            raise

    def _next_queue(self) -> deque[Slice] | None:
        if self._left > 0 and self._turn:
            self._left -= 1
            return self._turn
        for _ in range(len(self._order)):
            lane = self._order[0]
            self._order.rotate(-1)
            if self._queues[lane] and lane not in self._paused:
                self._turn = self._queues[lane]
                self._left = self._shares.get(lane, 1) * limits.RECORDS_PER_SHARE - 1
                return self._turn
        return None

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._takers:
            self._wake()
