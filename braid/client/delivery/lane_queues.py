"""Queues of fetched records by lane, and the choice of the next one, in turns that follow the lanes' shares.

If a partition of a lane is split, records of its backlog cursors wait in a queue beside the lane's. That queue has a
part of the lane's turn, and a bound on its records that are out at once (`BacklogQueue`).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from braid.client.delivery.memory_bound import share_of
from braid.client.records.slices import Slice
from braid.kernel.limits.client import RECORDS_PER_SHARE
from braid.kernel.round_robin import RoundRobin

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor
    from braid.client.delivery.handler_lanes import HandlerPlace
    from braid.client.delivery.memory_bound import LaneMemory


class BacklogQueue(Protocol):
    """The bounds on a lane's backlog cursors."""

    @property
    def lane(self) -> str:
        """The lane's name."""
        ...

    @property
    def share(self) -> float:
        """The part of the lane's turn, below 1."""
        ...

    def room(self) -> int:
        """Returns how many more records may be out now."""
        ...


class LaneQueues:
    """Queues of slices by lane; a queue's `name` is its lane, or the lane's backlog."""

    def __init__(self, shares: Mapping[str, int]) -> None:
        """`shares` by lane; see `share_of`."""
        self._shares = dict(shares)
        self._queues: dict[str, deque[Slice[Cursor]]] = {}
        self._lanes: list[str] = []
        self._round = RoundRobin(self.may_hand_out, self._turn_of)
        self._rounds: dict[str, RoundRobin] = {}  # by lane with a backlog: between its two queues
        self._charged: RoundRobin | None = None  # the robin that chose the queue in use
        self._paused_lanes: set[str] = set()
        self._paused: frozenset[str] = frozenset()  # their queues: that of each lane, and that of its backlog
        self._backlogs: dict[str, BacklogQueue] = {}  # by queue
        self._turns: dict[str, int] = {}  # records of a turn by queue, if not those of its share

    # --- lanes and their queues

    def open(self, lane: str) -> bool:
        """Opens the queue of a lane with leases. Returns whether it is new."""
        if lane in self._lanes:
            return False
        self._lanes.append(lane)
        self._queue(lane)
        return True

    def shares(self) -> Mapping[str, int]:
        """The shares of lanes with leases, in the order they were opened."""
        return {lane: share_of(lane, self._shares) for lane in self._lanes}

    def share_out(self, shares: Mapping[str, int]) -> None:
        """Gives turns by other shares from now on."""
        self._shares = dict(shares)
        for name, backlog in self._backlogs.items():
            self._divide_turn(name, backlog)
        self.end_turn()

    def put(self, waiting: "Slice[Cursor]", *, first: bool) -> str:
        """Adds a slice to the queue of its cursor, behind the others or before them. Returns the queue's lane."""
        name = waiting.work.queue
        queue = self._queue(name)
        if first:
            queue.appendleft(waiting)
        else:
            queue.append(waiting)
        waiting.work.memory.wait(waiting.count)
        return self.lane_of(name)

    def forget(self, queue: "deque[Slice[Cursor]]") -> None:
        """Removes a queue's first slice; its remaining records will never be handed out."""
        first = queue.popleft()
        first.work.memory.wait(-first.count)
        first.work.free(int(first.sizes.sum()))

    def _queue(self, name: str) -> "deque[Slice[Cursor]]":
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
            self._round.add(name)
        return queue

    def has_any(self, name: str) -> bool:
        """Whether a queue holds any record."""
        return bool(self._queues.get(name))

    def filled(self) -> Iterator[str]:
        """The queues that hold records."""
        return (name for name, queue in self._queues.items() if queue)

    def lane_of(self, name: str) -> str:
        """Returns the lane of a queue."""
        return self._backlogs[name].lane if name in self._backlogs else name

    def move(self, work: "Cursor", memory: "LaneMemory", name: str) -> None:
        """Moves a cursor's waiting records to another queue, with their weight."""
        queue, there = self._queue(work.queue), self._queue(name)
        for waiting in [each for each in queue if each.work is work]:
            queue.remove(waiting)
            there.append(waiting)
            work.memory.wait(-waiting.count)
            memory.wait(waiting.count)
        self.end_turn()

    # --- what may be handed out

    def divide(self, name: str, backlog: BacklogQueue | None) -> None:
        """Shares a lane's turns with a queue of its backlog; with None the lane has them for itself again."""
        known = backlog or self._backlogs.get(name)
        if known is None:
            return
        if backlog is None:
            del self._backlogs[name], self._rounds[known.lane]
            self._turns.pop(known.lane, None)
        else:
            self._backlogs[name] = backlog
            self._queue(name)
            own = self._rounds[backlog.lane] = RoundRobin(self.may_hand_out, self._turn_of)
            own.add(backlog.lane)
            own.add(name)
            self._divide_turn(name, backlog)
        self._note_paused()

    def _divide_turn(self, name: str, backlog: BacklogQueue) -> None:
        records = share_of(backlog.lane, self._shares) * RECORDS_PER_SHARE
        self._turns[name] = max(1, round(records * backlog.share))
        self._turns[backlog.lane] = max(1, records - self._turns[name])

    def is_paused(self, lane: str) -> bool:
        """Whether no records of a lane are handed out."""
        return self.lane_of(lane) in self._paused_lanes

    def pause(self, lane: str) -> None:
        """Stops handing out records of a lane."""
        self._paused_lanes.add(lane)
        self._note_paused()
        self.end_turn()

    def resume(self, lane: str) -> None:
        """Hands out records of a lane again."""
        self._paused_lanes.discard(lane)
        self._note_paused()

    def _note_paused(self) -> None:
        """Backlogs come and go while lanes are paused: whether a queue is follows from its lane alone."""
        backlogs = (name for name, backlog in self._backlogs.items() if backlog.lane in self._paused_lanes)
        self._paused = frozenset((*self._paused_lanes, *backlogs))

    def together(self, name: str, most: int, *, alone: bool) -> int:
        """Returns how many of a queue's records may be taken at once, of `most`: at most its turn while others wait.

        With `alone`, one at a time while others wait: handlers have lanes of their own, and each takes for itself.
        """
        if self.others_wait(name):
            most = min(most, 1 if alone else self._round.left + 1)
        return self.room(name, most) if self._backlogs else most

    def room(self, name: str, most: int) -> int:
        """Returns how many of a queue's records may be handed out, of `most`."""
        backlog = self._backlogs.get(name)
        return most if backlog is None else min(most, backlog.room())

    def may_hand_out(self, name: str) -> bool:
        """Whether any record of a queue may be handed out."""
        if not self._queues[name] or name in self._paused:
            return False
        return not self._backlogs or self.room(name, 1) > 0

    def any_may(self) -> bool:
        """Whether any record of any queue may be handed out."""
        return any(map(self.may_hand_out, self._queues))

    def others_wait(self, name: str) -> bool:
        """Whether another queue has a record that may be handed out."""
        if len(self._queues) == 1:
            return False
        for other, queue in self._queues.items():  # noqa: SIM110 - a generator takes twice as long, for each record
            if queue and other != name and other not in self._paused:
                return True
        return False

    # --- turns

    def of_lane(self, lane: str) -> "deque[Slice[Cursor]] | None":
        """Returns a lane's queue, to take one record without a turn while others wait; None if `next` must choose."""
        if self._backlogs or not self.may_hand_out(lane) or not self.others_wait(lane):
            return None
        return self._queues[lane]

    def next(self, place: "HandlerPlace | None") -> "deque[Slice[Cursor]] | None":
        """Chooses the next queue and charges it with one: the place's own lane, else the one whose turn it is."""
        name = None
        if place is not None and place.lane:
            self._charged = self._rounds.get(place.lane)
            if self._charged is not None:
                name = self._charged.next()
            elif self.may_hand_out(place.lane):
                name = place.lane
        if name is None and (place is None or place.helps):
            self._charged = self._round
            name = self._round.next()
        return None if name is None else self._queues[name]

    def charge(self, more: int, *, lent: bool) -> None:
        """Charges the queue that was chosen last for more than one record."""
        if self._charged is not None:
            self._charged.charge(more, lent=lent)

    def goes_on(self, name: str, *, in_turn: bool) -> bool:
        """Whether one more of a queue's records may be handed out before those of others; if so, it is charged.

        It may while nobody else waits or, with `in_turn`, while it is the queue's turn.
        """
        if name in self._backlogs or name in self._paused:
            return False
        turn = self._round
        if len(self._queues) > 1 and not (in_turn and turn.left > 0 and turn.name == name) and self.others_wait(name):
            return False
        if turn.left:
            turn.charge(1, lent=True)
        return True

    def end_turn(self) -> None:
        """Ends the turn: `next` decides anew."""
        self._round.end_turn()

    def _turn_of(self, name: str) -> int:
        """Returns how many of a queue's records are handed out in a row."""
        return self._turns.get(name) or share_of(name, self._shares) * RECORDS_PER_SHARE
