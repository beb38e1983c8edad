"""The run: records taken from their queue together, and handed out one after another.

A run is of one slice; a run of ordered records may be of several, because each record has its turn. Whatever changes
the next record, or whether its records may be handed out, puts the rest of the run back.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from braid.client.delivery.lane_queues import LaneQueues
from braid.client.records.record import Record, Row
from braid.client.records.slices import Slice, slice_of_rows

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor


class RunAhead:
    """The run of records that are handed out next.

    Attributes:
        records: They, the same deque for good; whoever hands one out calls `popleft`, the fastest way there is.
        newest: The cursor whose record was added last.
    """

    __slots__ = ("_slice", "newest", "records")

    def __init__(self) -> None:
        """Empty."""
        self.records: deque[Record] = deque()
        self._slice: Slice[Cursor] | None = None  # it was taken from, unless it is ordered
        self.newest: Cursor | None = None

    def is_of(self, name: str) -> bool:
        """Whether the run is of this queue."""
        return self.newest is not None and self.newest.queue == name

    def is_of_lane(self, lane: str) -> bool:
        """Whether the run is of this lane, or of its backlog."""
        return self.newest is not None and self.newest.lease.id.channel.lane == lane

    def begin(self, taken: "Slice[Cursor]", rows: Sequence[Row]) -> None:
        """Begins a new run, after the last was used up, with rows taken from a slice."""
        self._slice, self.newest = taken, taken.work
        self.records.extend(map(Record, rows, repeat(taken.work)))

    def put_first(self, record: Record) -> None:
        """Puts a record of the same queue first: its turn has come."""
        self.newest = cast("Cursor", record.work)
        self.records.appendleft(record)

    def put_back(self, queues: LaneQueues) -> None:
        """Puts the rest of the run back into its queue, before all other records."""
        work, count = self.newest, len(self.records)
        if work is None or not count:
            return
        queues.end_turn()
        if work.ordered:
            self._put_back_ordered(queues)
            return
        taken = self._slice
        assert taken is not None, "it was taken from a slice"
        if not taken:  # all of it was taken
            queues.put(taken, first=True)
        taken.put_back([cast("Row", record.raw) for record in self.records])
        self.records.clear()
        work.take_back(count)

    def _put_back_ordered(self, queues: LaneQueues) -> None:
        """Puts ordered records back; they keep their turn, while others of their slices wait for theirs."""
        for work, records in groupby(reversed(self.records), attrgetter("work")):
            rows = [cast("Row", record.raw) for record in records][::-1]
            queues.put(slice_of_rows(work, rows, admitted=True), first=True)
            work.take_back(len(rows))
        self.records.clear()

    def count_of(self, works: "Sequence[Cursor]") -> int:
        """Counts the records of these cursors in the run."""
        return sum(record.work in works for record in self.records)
