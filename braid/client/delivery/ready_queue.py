"""Fetched records that wait for a handler: one queue a lane, taken from in turns that follow the lanes' shares.

Where a partition of a lane is split, what its backlog cursors fetch waits in a queue beside the lane's, which has a
part of the lane's turn, and no more than so many of its records are out at once (`BacklogQueue`).

Where a lease's deadline is not asked for each record, a run of them is taken from its queue together and handed out one
after another; of ordered ones those whose turn has come. Whatever changes who is next, or whether its records may be
handed out, recalls what is left of the run.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, repeat
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from braid.client.delivery.handler_lanes import HandlerPlace, own_roles, roles
from braid.client.delivery.streak import Streak
from braid.client.records.record import Record, Row
from braid.client.records.slices import Slice, slice_of_rows
from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS, RECORDS_PER_SHARE
from braid.kernel.round_robin import RoundRobin

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor
    from braid.client.delivery.memory_bound import LaneMemory


class BacklogQueue(Protocol):
    """What bounds the records of backlog cursors of a lane."""

    @property
    def lane(self) -> str:
        """The lane."""
        ...

    @property
    def share(self) -> float:
        """The part of the lane's turn, below 1."""
        ...

    def room(self) -> int:
        """How many more records may be out now."""
        ...


class ReadyQueue:
    """Queues of slices by lane, taken from in turns: as many records of a lane in a row as its share allows."""

    def __init__(self, shares: Mapping[str, int]) -> None:
        """`shares` by lane; a lane that is not named has share 1."""
        self._shares = dict(shares)
        self._queues: dict[str, deque[Slice[Cursor]]] = {}
        self._lanes: list[str] = []
        self._round = RoundRobin(self._may_hand_out, self._turn_of)
        self._rounds: dict[str, RoundRobin] = {}  # by lane with a backlog: between its two queues
        self._charged: RoundRobin | None = None  # by which the queue was chosen that is taken from
        self._paused_lanes: set[str] = set()
        self._paused: frozenset[str] = frozenset()  # their queues: that of each lane, and that of its backlog
        self.takers: deque[asyncio.Future[None]] = deque()  # who waits for a record of any lane
        self._keepers: dict[str, deque[asyncio.Future[None]]] = {}  # by lane, who waits for one of that alone
        self._handlers: list[tuple[list[HandlerPlace], Mapping[str, int]]] = []  # with what each lane has for itself
        self._divided = False  # whether handlers have lanes of their own
        self._error: BaseException | None = None
        self._closed = False
        self._streak = Streak()
        self.run: deque[Record] = deque()  # the next ones; whoever hands out `popleft`s
        self._run_of: Slice[Cursor] | None = None  # it was taken from, unless it is ordered
        self._run_work: Cursor | None = None  # whose its newest record is
        self.keeping: set[Cursor] = set()  # work that keeps acknowledgements it has not noted
        self._backlogs: dict[str, BacklogQueue] = {}  # by queue
        self._turns: dict[str, int] = {}  # records of a turn, by queue, where that is not its share's

    def open(self, lane: str) -> None:
        """There are leases of a lane."""
        if lane not in self._lanes:
            self._lanes.append(lane)
            self._queue(lane)
            self._divide_handlers()

    @contextmanager
    def places(self, count: int, by_lane: Mapping[str, int] = MappingProxyType({})) -> Iterator[Sequence[HandlerPlace]]:
        """For so many handlers; `by_lane` says how many each lane has for itself, if they are not shared."""
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
        """Between the lanes there are now."""
        self.recall()
        shares = {lane: self._shares.get(lane, 1) for lane in self._lanes}
        for handlers, by_lane in self._handlers:
            found = own_roles(by_lane) if by_lane else roles(len(handlers), shares)
            for place, role in zip(handlers, found, strict=True):
                place.lane, place.helps = role
        self._divided = any(place.lane for handlers, _ in self._handlers for place in handlers)
        self._wake_all()

    def put(self, waiting: "Slice[Cursor]", *, first: bool = False) -> None:
        """Adds records behind those of their lane, or before them."""
        lane = waiting.work.queue
        queue = self._queue(lane)
        if self.run and (first or not (queue or self._runs(lane))):
            self.recall()
        if first:
            queue.appendleft(waiting)
        else:
            queue.append(waiting)
        waiting.work.memory.waiting += len(waiting)
        for _ in range(min(len(waiting), self._waiting_takers(lane))):
            self._wake(lane)

    def follow(self, work: "Cursor", row: Row) -> None:
        """The turn of an ordered record has come: it is the next one of its lane, also before those of the run.

        It joins the run while nothing else could be next: not beyond its lane's turn, nor the turn of everything else.
        """
        if self._may_join(work) and work.hand_out(1):
            self._streak.add(1)
            if self._round.left:
                self._round.left -= 1
            self._run_work = work
            self.run.appendleft(Record(row, work))
            if self.takers or self._divided:
                self._wake(work.queue)
        else:
            self.put(slice_of_rows(work, [row], admitted=True), first=True)

    def _may_join(self, work: "Cursor") -> bool:
        """Whether the run may become one record longer."""
        name = work.queue
        if not self._streak.until_look or work.one_by_one:
            return False
        if self.run and self._run_work is not work and not self._runs(name):
            return False
        if name in self._backlogs or name in self._paused:
            return False
        return len(self._queues) == 1 or (self._own_turn(name) and not self._divided) or not self._others_wait(name)

    def _own_turn(self, name: str) -> bool:
        return self._round.left > 0 and self._round.name == name

    def _others_wait(self, name: str) -> bool:
        """Whether another queue has something that may be handed out."""
        if len(self._queues) == 1:
            return False
        for other, queue in self._queues.items():  # noqa: SIM110 - a generator takes twice as long, for each record
            if queue and other != name and other not in self._paused:
                return True
        return False

    def _queue(self, name: str) -> "deque[Slice[Cursor]]":
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
            self._round.add(name)
        return queue

    def divide(self, name: str, backlog: BacklogQueue | None) -> None:
        """Shares a lane's turns with a queue of its backlog; with None the lane has them for itself again."""
        self.recall()
        known = backlog or self._backlogs.get(name)
        if known is None:
            return
        records = self._shares.get(known.lane, 1) * RECORDS_PER_SHARE
        if backlog is None:
            del self._backlogs[name], self._rounds[known.lane]
            self._turns.pop(known.lane, None)
        else:
            self._backlogs[name] = backlog
            self._queue(name)
            own = self._rounds[backlog.lane] = RoundRobin(self._may_hand_out, self._turn_of)
            own.add(backlog.lane)
            own.add(name)
            self._turns[name] = max(1, round(records * backlog.share))
            self._turns[known.lane] = max(1, records - self._turns[name])
        self._note_paused()

    def move(self, work: "Cursor", memory: "LaneMemory", name: str) -> None:
        """What waits of a cursor's records waits in another queue from now on."""
        self.recall()
        queue, there = self._queue(work.queue), self._queue(name)
        for waiting in [each for each in queue if each.work is work]:
            queue.remove(waiting)
            there.append(waiting)
            work.memory.waiting -= waiting.count
            memory.waiting += waiting.count
        self._round.end_turn()

    def stir(self, name: str) -> None:
        """Fewer records of a backlog are out: who waits for a record may get one of its others."""
        if self._queues.get(name):
            self._wake(name)

    def take_nowait(self, place: HandlerPlace | None = None) -> Record | None:
        """The next record whose lease still works, or None. Dropped ones on the way give their bytes back."""
        if self.run and (place is None or place.helps or self.runs(place.lane)):
            return self.run.popleft()
        while (queue := self._next_queue(place)) is not None:
            first = queue[0]
            record = self._take_one(queue, first) if first.work.one_by_one else self._take_run(queue, first)
            if record is not None:
                return record
        return None

    def _take_one(self, queue: "deque[Slice[Cursor]]", first: "Slice[Cursor]") -> Record | None:
        """The next record of a slice, None when it may not be handed out."""
        work = first.work
        if not work.hand_out(1):
            self._forget(queue)
            return None
        (row,) = first.take(1)
        self._streak.add(1)
        if not first:
            self._forget(queue)
        if work.ordered and not first.admitted and not work.admitted([row]):
            return None
        return Record(row, work)

    def _take_run(self, queue: "deque[Slice[Cursor]]", first: "Slice[Cursor]") -> Record | None:
        """The next record of a slice; some behind it become the run."""
        most = self._streak.until_look or RECORDS_BETWEEN_YIELDS
        most = min(most, self._room(first.work.queue, most))
        work = first.work
        if self._others_wait(work.queue):
            # No more than its turn; and where handlers have lanes of their own, each takes for itself.
            most = min(most, 1 if self._divided else self._round.left + 1)
        count = min(most, len(first))
        if not work.hand_out(count):
            self._forget(queue)
            return None
        rows = first.take(count)
        self._streak.add(count)
        if not first:
            self._forget(queue)
        if work.ordered and not first.admitted:
            rows = work.admitted(rows)
        self._charge(len(rows) - 1, lent=True)
        self._run_of, self._run_work = first, work
        self.run.extend(map(Record, rows, repeat(work)))
        return self.run.popleft() if rows else None

    def recall(self) -> None:
        """What is left of the run waits again: who comes next is decided anew."""
        first, count = self._run_of, len(self.run)
        if self._run_work is None or not count:
            return
        self._round.end_turn()
        if self._run_work.ordered:
            self._recall_ordered(self._queues[self._run_work.queue])
            return
        assert first is not None, "it was taken from a slice"
        queue = self._queues[first.work.queue]
        if not first:  # all of it was taken
            queue.appendleft(first)
            first.work.memory.waiting += first.count
        first.put_back([cast("Row", record.raw) for record in self.run])
        self.run.clear()
        first.work.take_back(count)

    def _recall_ordered(self, queue: "deque[Slice[Cursor]]") -> None:
        """Their turn has come and they keep it; others of the slices they were taken from wait for theirs."""
        for work, records in groupby(reversed(self.run), attrgetter("work")):
            rows = [cast("Row", record.raw) for record in records][::-1]
            queue.appendleft(slice_of_rows(work, rows, admitted=True))
            work.memory.waiting += len(rows)
            work.take_back(len(rows))
        self.run.clear()

    def _runs(self, lane: str) -> bool:
        """Whether the run is of this lane."""
        return self._run_work is not None and self._run_work.queue == lane

    def runs(self, lane: str) -> bool:
        """Whether the run is of this lane, or of its backlog."""
        return self._run_work is not None and self._run_work.lease.id.channel.lane == lane

    def take_slice_nowait(self, max_records: int, place: HandlerPlace | None = None) -> "Slice[Cursor] | None":
        """As `take_nowait`, as many records of one partition as wait together."""
        self.recall()
        while (queue := self._next_queue(place)) is not None:
            first = queue[0]
            count = min(self._room(first.work.queue, max_records), len(first))
            if not first.work.hand_out(count):
                self._forget(queue)
                continue
            if first.work.ordered and not first.admitted and not first.work.admits_slice(first, count):
                self._forget(queue)
                continue
            self._streak.add(1)
            taken = first.rest(count)
            if not first:
                self._forget(queue)
            self._charge(count - 1, lent=not self._others_wait(first.work.queue))
            return taken
        return None

    def take_quickly(self, place: HandlerPlace) -> Record | None:
        """As `take_nowait`, or None when `take` has to see to it: now and then everything else needs a turn."""
        if self._error is not None or self._streak.must_end():
            return None
        if (lane := place.lane) and not self._backlogs and self._may_hand_out(lane) and self._others_wait(lane):
            queue = self._queues[lane]
            return self._take_one(queue, queue[0])  # None: `take` goes on
        return self.take_nowait(place)

    async def take(self, place: HandlerPlace | None = None) -> Record | None:
        """The next record, waiting for one; None once closed and empty. Raises what `fail` was given."""
        while await self._may_take():
            record = self.take_nowait(place)
            if record is not None or self._closed:
                return record
            await self._wait(place)
        return None

    async def take_slice(self, max_records: int, place: HandlerPlace | None = None) -> "Slice[Cursor] | None":
        """As `take`, as many records of one partition as wait together."""
        while await self._may_take():
            taken = self.take_slice_nowait(max_records, place)
            if taken is not None or self._closed:
                return taken
            await self._wait(place)
        return None

    def ahead(self, works: Sequence["Cursor"]) -> int:
        """How many records of these were taken from their queues that nobody has yet."""
        return sum(record.work in works for record in self.run)

    def is_paused(self, lane: str) -> bool:
        """Whether no records of a lane are handed out."""
        return self._lane_of(lane) in self._paused_lanes

    def pause(self, lane: str) -> None:
        """Hands out nothing of this lane."""
        self.recall()
        self._paused_lanes.add(lane)
        self._note_paused()
        self._round.end_turn()

    def resume(self, lane: str) -> None:
        """Hands this lane out again."""
        self.recall()
        self._paused_lanes.discard(lane)
        self._note_paused()
        self._wake_all()

    def _note_paused(self) -> None:
        """Backlogs come and go while lanes are paused: whether a queue is follows from its lane alone."""
        backlogs = (name for name, backlog in self._backlogs.items() if backlog.lane in self._paused_lanes)
        self._paused = frozenset((*self._paused_lanes, *backlogs))

    def _room(self, name: str, most: int) -> int:
        """How many of a queue's records may be handed out, of `most`."""
        backlog = self._backlogs.get(name)
        return most if backlog is None else min(most, backlog.room())

    def fail(self, error: BaseException) -> None:
        """Everybody who takes gets this error."""
        self.recall()
        self._error = error
        self._wake_all()

    def close(self) -> None:
        """Everybody who waits gets None."""
        self.recall()
        self._closed = True
        self._wake_all()

    def _forget(self, queue: "deque[Slice[Cursor]]") -> None:
        """Takes a queue's first slice away; what was not handed out of it never will be."""
        first = queue.popleft()
        first.work.memory.waiting -= first.count
        first.work.free(int(first.sizes.sum()))

    async def _may_take(self) -> bool:
        """Lets everything else run now and then: an application that never waits would starve its heartbeats."""
        if self._streak.must_end():
            await asyncio.sleep(0)
            self._streak.end()
        if self._error is not None:
            raise self._error
        return True

    async def _wait(self, place: HandlerPlace | None) -> None:
        for work in list(self.keeping):  # nobody knows when the next acknowledgement comes
            work.note_acked()
        takers = self.takers
        if place is not None and not place.helps:
            takers = self._keepers.setdefault(place.lane, deque())
            if self.takers and any(map(self._may_hand_out, self._queues)):
                self._wake()  # what this one was called for is taken, by somebody who was called for another
        taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        takers.append(taker)
        try:
            await taker
            self._streak.end()
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                for name, queue in self._queues.items():
                    if queue:
                        self._wake(name)  # pass the turn on
            elif taker in takers:
                takers.remove(taker)
            raise

    def _next_queue(self, place: HandlerPlace | None) -> "deque[Slice[Cursor]] | None":
        """The queue to take from: of the lane the place is for, else the one whose turn it is."""
        name = None
        if place is not None and place.lane:
            self._charged = self._rounds.get(place.lane)
            if self._charged is not None:
                name = self._charged.next()
            elif self._may_hand_out(place.lane):
                name = place.lane
        if name is None and (place is None or place.helps):
            self._charged = self._round
            name = self._round.next()
        return None if name is None else self._queues[name]

    def _charge(self, more: int, *, lent: bool) -> None:
        """So many more than one were taken from the queue that was chosen last."""
        if self._charged is not None:
            self._charged.charge(more, lent=lent)

    def _may_hand_out(self, name: str) -> bool:
        """Whether something of a queue may be handed out."""
        if not self._queues[name] or name in self._paused:
            return False
        return not self._backlogs or self._room(name, 1) > 0

    def _turn_of(self, name: str) -> int:
        """How many of a queue's records are handed out in a row."""
        return self._turns.get(name) or self._shares.get(name, 1) * RECORDS_PER_SHARE

    def _lane_of(self, name: str) -> str:
        return self._backlogs[name].lane if name in self._backlogs else name

    def _waiting_takers(self, name: str) -> int:
        """How many wait who may take from a queue."""
        return len(self.takers) + len(self._keepers.get(self._lane_of(name), ()))

    def _wake(self, name: str = "") -> None:
        """Calls one who waits: for a record of this queue, those first who wait for nothing else."""
        for takers in (self._keepers.get(self._lane_of(name)), self.takers):
            while takers:
                taker = takers.popleft()
                if not taker.done():
                    taker.set_result(None)
                    return

    def _wake_all(self) -> None:
        for takers in (self.takers, *self._keepers.values()):
            while takers:
                taker = takers.popleft()
                if not taker.done():
                    taker.set_result(None)
