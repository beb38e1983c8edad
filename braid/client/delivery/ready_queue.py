"""Fetched records that wait for a handler: put, taken, and waited for.

`lane_queues` chooses the next queue, `waiters` the handler to wake. If a lease's deadline need not be checked for each
record, many are taken from its queue together (`run_ahead`); of ordered records, those whose turn has come.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING

from braid.client.delivery.handler_lanes import RETIRED, HandlerPlace, own_roles, roles
from braid.client.delivery.lane_queues import BacklogQueue, LaneQueues
from braid.client.delivery.run_ahead import RunAhead
from braid.client.delivery.streak import Streak
from braid.client.delivery.waiters import Waiters
from braid.client.records.record import Record, Row
from braid.client.records.slices import Slice, slice_of_rows
from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor
    from braid.client.delivery.memory_bound import LaneMemory


class ReadyQueue:
    """The queue between cursors, which put fetched records, and handlers, which take them lane by lane in turns.

    Attributes:
        run: The records that are next: whoever hands out takes those first.
        waiters: Who waits for a record.
    """

    def __init__(self, shares: Mapping[str, int]) -> None:
        """`shares` by lane; a lane that is not named has share 1, as long as none is."""
        self.run = RunAhead()
        self.waiters = Waiters()
        self._queues = LaneQueues(shares)
        self._handlers: list[tuple[list[HandlerPlace], Mapping[str, int]]] = []  # with what each lane has for itself
        self._handlers_max: int | None = None  # of each call of `places`; None for all that were made
        self._divided = False  # whether handlers have lanes of their own
        self._error: BaseException | None = None
        self._closed = False
        self._streak = Streak()
        self._keeping: set[Cursor] = set()

    # --- lanes and handlers

    def open(self, lane: str) -> None:
        """Opens the queue of a lane with leases."""
        if self._queues.open(lane):
            self._divide_handlers()

    @contextmanager
    def places(self, count: int, by_lane: Mapping[str, int] = MappingProxyType({})) -> Iterator[Sequence[HandlerPlace]]:
        """Makes places for so many handlers; `by_lane` gives each lane its own number, if they are not shared."""
        made = [HandlerPlace(self) for _ in range(count)]
        for lane in by_lane:
            self.open(lane)
        self._handlers.append((made, by_lane))
        self._divide_handlers()
        try:
            yield made
        finally:
            self._handlers.remove((made, by_lane))
            self._divide_handlers()

    def _divide_handlers(self) -> None:
        """Divides the handlers between the lanes that have leases now."""
        self.recall()
        shares = self._queues.shares()
        for handlers, by_lane in self._handlers:
            count = len(handlers) if self._handlers_max is None else min(self._handlers_max, len(handlers))
            found = own_roles(by_lane) if by_lane else roles(count, shares)
            for place, role in zip(handlers, chain(found, repeat(RETIRED)), strict=False):
                place.work_as(role)
        self._divided = any(place.lane for handlers, _ in self._handlers for place in handlers)
        self.waiters.wake_all()

    def share_out(self, shares: Mapping[str, int], handlers: int) -> None:
        """Gives lanes other shares from now on; of each call of `places` so many handlers take records."""
        self.recall()
        self._queues.share_out(shares)
        self._handlers_max = handlers
        self._divide_handlers()

    def divide(self, name: str, backlog: BacklogQueue | None) -> None:
        """Shares a lane's turns with a queue of its backlog; with None the lane has them for itself again."""
        self.recall()
        self._queues.divide(name, backlog)

    def is_paused(self, lane: str) -> bool:
        """Whether no records of a lane are handed out."""
        return self._queues.is_paused(lane)

    def pause(self, lane: str) -> None:
        """Hands out nothing of this lane."""
        self.recall()
        self._queues.pause(lane)

    def resume(self, lane: str) -> None:
        """Hands this lane out again."""
        self.recall()
        self._queues.resume(lane)
        self.waiters.wake_all()

    # --- what cursors put in

    def put(self, waiting: "Slice[Cursor]", *, first: bool = False) -> None:
        """Adds records after those of their lane, or before them."""
        name = waiting.work.queue
        if self.run.records and (first or not (self._queues.has_any(name) or self.run.is_of(name))):
            self.recall()
        self.waiters.wake(self._queues.put(waiting, first=first), waiting.count)

    def follow(self, work: "Cursor", row: Row) -> None:
        """Puts an ordered record whose turn has come first in its lane, also before the records of the run.

        It joins the run only while nothing else could be next: the lane's turn is not over, and no other task needs
        one.
        """
        run, streak = self.run, self._streak
        if (
            streak.until_look
            and not work.one_by_one
            and (work.pathways is None or row.offset not in work.pathways.waiting)  # one that is sampled goes alone
            and (not run.records or run.newest is work or run.is_of(work.queue))
            and self._queues.goes_on(work.queue, in_turn=not self._divided)
            and work.hand_out(1)
        ):
            streak.add(1)
            run.put_first(Record(row, work))
            if self._divided or self.waiters.of_any_lane:
                self._wake(work.queue)
        else:
            self.put(slice_of_rows(work, [row], admitted=True), first=True)

    def recall(self) -> None:
        """Puts the rest of the run back into its queue; the next record is chosen anew."""
        if self.run.records:
            self.run.put_back(self._queues)

    def move(self, work: "Cursor", memory: "LaneMemory", name: str) -> None:
        """Moves a cursor's waiting records to another queue, with their weight."""
        self.recall()
        self._queues.move(work, memory, name)

    def stir(self, name: str) -> None:
        """Wakes a waiting handler, because fewer records of a backlog are out."""
        if self._queues.has_any(name):
            self._wake(name)

    def keeps_acks(self, work: "Cursor") -> None:
        """Notes that a cursor buffers acknowledgements: before a handler waits here, the cursor notes them."""
        self._keeping.add(work)

    def keeps_no_acks(self, work: "Cursor") -> None:
        """Notes that a cursor buffers no acknowledgements any more."""
        self._keeping.discard(work)

    def ahead(self, works: Sequence["Cursor"]) -> int:
        """Counts the records of these cursors that were taken from their queues and that no handler has yet."""
        return self.run.count_of(works)

    def fail(self, error: BaseException) -> None:
        """Raises this error in every handler that takes a record."""
        self.recall()
        self._error = error
        self.waiters.wake_all()

    def close(self) -> None:
        """Gives None to every handler that waits."""
        self.recall()
        self._closed = True
        self.waiters.wake_all()

    # --- what handlers take out

    def take_nowait(self, place: HandlerPlace | None = None) -> Record | None:
        """Returns the next record whose lease still works, or None; dropped records give their bytes back."""
        if self.run.records and (place is None or place.helps or self.run.is_of_lane(place.lane)):
            return self.run.records.popleft()
        while (queue := self._queues.next(place)) is not None:
            first = queue[0]
            record = self._take_one(queue, first) if first.work.one_by_one else self._take_run(queue, first)
            if record is not None:
                return record
        return None

    def _take_one(self, queue: "deque[Slice[Cursor]]", first: "Slice[Cursor]") -> Record | None:
        """Returns the next record of a slice, None if it may not be handed out."""
        work = first.work
        if not work.hand_out(1):
            self._queues.forget(queue)
            return None
        (row,) = first.take(1)
        self._streak.add(1)
        if not first:
            self._queues.forget(queue)
        if work.ordered and not first.admitted and not work.admitted([row]):
            return None
        if work.pathways is not None:
            work.pathways.handed_out((row.offset,))
        return Record(row, work)

    def _take_run(self, queue: "deque[Slice[Cursor]]", first: "Slice[Cursor]") -> Record | None:
        """Returns the next record of a slice; some after it become the run."""
        work, most, waiting = first.work, self._streak.until_look or RECORDS_BETWEEN_YIELDS, len(first)
        count = min(self._queues.together(work.queue, most, alone=self._divided), waiting)
        if work.pathways is not None and work.pathways.waiting:
            count = work.pathways.run_length(first, count)
        if not work.hand_out(count):
            self._queues.forget(queue)
            return None
        rows = first.take(count)
        self._streak.add(count)
        if count == waiting:
            self._queues.forget(queue)
        if work.ordered and not first.admitted:
            rows = work.admitted(rows)
        if work.pathways is not None and len(rows) == 1:
            work.pathways.handed_out((rows[0].offset,))
        self._queues.charge(len(rows) - 1, lent=True)
        self.run.begin(first, rows)
        return self.run.records.popleft() if rows else None

    def take_slice_nowait(self, max_records: int, place: HandlerPlace | None = None) -> "Slice[Cursor] | None":
        """Takes like `take_nowait`, but as many records of one partition as wait together."""
        self.recall()
        while (queue := self._queues.next(place)) is not None:
            first = queue[0]
            work = first.work
            count = min(self._queues.room(work.queue, max_records), len(first))
            if not work.hand_out(count):
                self._queues.forget(queue)
                continue
            if work.ordered and not first.admitted and not work.admits_slice(first, count):
                self._queues.forget(queue)
                continue
            self._streak.add(1)
            taken = first.rest(count)
            if work.pathways is not None and work.pathways.waiting:
                work.pathways.handed_out_together(taken.offsets)
            if not first:
                self._queues.forget(queue)
            self._queues.charge(count - 1, lent=not self._queues.others_wait(work.queue))
            return taken
        return None

    def take_quickly(self, place: HandlerPlace) -> Record | None:
        """Takes like `take_nowait`; returns None if the caller must use `take`, because other tasks need a turn."""
        if self._error is not None or self._streak.must_end():
            return None
        if place.lane and (queue := self._queues.of_lane(place.lane)) is not None:
            return self._take_one(queue, queue[0])  # None: `take` goes on
        return self.take_nowait(place)

    async def take(self, place: HandlerPlace | None = None) -> Record | None:
        """Returns the next record, waiting for one; None once closed and empty, and for a handler that is not needed.

        Raises the error given to `fail`.
        """
        while await self._may_take():
            record = self.take_nowait(place)
            if record is not None or self._closed or (place is not None and place.retired):
                return record
            await self._wait(place)
        return None

    async def take_slice(self, max_records: int, place: HandlerPlace | None = None) -> "Slice[Cursor] | None":
        """Takes like `take`, but as many records of one partition as wait together."""
        while await self._may_take():
            taken = self.take_slice_nowait(max_records, place)
            if taken is not None or self._closed or (place is not None and place.retired):
                return taken
            await self._wait(place)
        return None

    async def _may_take(self) -> bool:
        """Gives other tasks a turn now and then: an application that never waits would starve its heartbeats."""
        if self._streak.must_end():
            await asyncio.sleep(0)
            self._streak.end()
        if self._error is not None:
            raise self._error
        return True

    async def _wait(self, place: HandlerPlace | None) -> None:
        keeping, self._keeping = self._keeping, set()
        for work in keeping:  # the next acknowledgement may be far away
            work.note_acked()
        lane = "" if place is None or place.helps else place.lane
        if lane and self.waiters.of_any_lane and self._queues.any_may():
            self.waiters.wake()  # another handler took the record that this one was woken for
        await self.waiters.wait(lane, self._wake_others)
        self._streak.end()

    def _wake_others(self) -> None:
        """Wakes another handler, because one was woken and took nothing."""
        for name in self._queues.filled():
            self._wake(name)

    def _wake(self, name: str) -> None:
        self.waiters.wake(self._queues.lane_of(name))
