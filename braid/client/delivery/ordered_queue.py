"""Records of one cursor that wait for earlier ones of their key or partition. No I/O.

`key_order` decides which records may be out at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.records.record import QuarantinedBatch, Record, Row
from braid.client.records.slices import Slice, slice_of_rows

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor


class OrderedQueue:
    """Keeps records until their turn comes, then puts them before all others of their lane."""

    __slots__ = ("_closed", "_cursor", "_order", "_ready")

    def __init__(self, cursor: "Cursor", ready: ReadyQueue, order: KeyOrder[Row, Slice["Cursor"]]) -> None:
        """`order` belongs to this cursor alone."""
        self._cursor = cursor
        self._ready = ready
        self._order = order
        self._closed = False

    def admit(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns those of some records that may be handed out; the others wait here."""
        return self._order.admit_many(rows)

    def admit_slice(self, waiting: Slice["Cursor"], count: int) -> bool:
        """Whether so many records of a slice may be handed out together; if not, all of them wait here."""
        if self._order.admit_slice(count):
            return True
        self._order.put_aside(waiting.rest(len(waiting)))
        return False

    def settled(self, record: Record) -> None:
        """Settles a record: the next one of its key may be handed out."""
        raw = record.raw
        if self._closed or isinstance(raw, QuarantinedBatch):
            return
        if self._order.slice_out:
            self.settled_of_slice(1)
        elif (following := self._order.settled(raw)) is not None:
            self._ready.follow(self._cursor, following)

    def settled_of_slice(self, count: int) -> None:
        """Settles so many records of the slice that is out; the rest may wait to be tried again."""
        if self._closed:
            return
        again = self._order.settled_of_slice(count)
        if rows := self._order.all_returned():
            again = [slice_of_rows(self._cursor, rows, admitted=False)]
        for waiting in sorted(again, key=lambda each: each.first_offset, reverse=True):
            self._ready.put(waiting, first=True)

    def back(self, row: Row) -> bool:
        """Whether a record that is to be tried again does so with the others of the slice that is out."""
        if not self._order.slice_out:
            return False
        self._order.returned(row)
        self.settled_of_slice(0)
        return True

    def close(self) -> int:
        """Hands out nothing more; returns the bytes of the records that waited here."""
        self._closed = True
        records, slices = self._order.clear()
        return sum(each.size for each in records) + sum(int(each.sizes.sum()) for each in slices)
