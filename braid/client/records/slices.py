"""Slices: records of one partition that wait together, as columns or as rows.

Rows are made when they are wanted, few at a time. Thousands at once would live so long that Python's garbage collector
scans everything again and again.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from braid.client.records.delivery import Delivery
from braid.client.records.record import QuarantinedBatch, Row, rows_of
from braid.kernel.ports import FetchedColumns
from braid.kernel.record_columns import RecordColumns

W = TypeVar("W", bound=Delivery)


class Slice(Generic[W]):
    """Some records of a fetch, of which the first `index` were taken.

    Attributes:
        work: Whose they are.
        columns: What was fetched; None for records that were rows already.
        count: How many records it was made of.
        index: So many of them were taken.
        admitted: Their turn has come (`KeyOrder`), and they keep it until they are settled.
    """

    __slots__ = ("_back", "_coming", "_rows", "_sizes", "_times", "admitted", "columns", "count", "index", "work")

    def __init__(
        self,
        work: W,
        columns: RecordColumns | None,
        times: NDArray[np.int64],
        sizes: NDArray[np.int64],
        *,
        rows: Sequence[Row] | None = None,
        admitted: bool = False,
    ) -> None:
        """`times` are ingestion times (ms), `sizes` what they weigh in memory, one each a record."""
        self.work = work
        self.columns = columns
        self.count = len(times)
        self.index = 0
        self.admitted = admitted
        self._times = times
        self._sizes = sizes
        self._rows = rows
        self._coming: Iterator[Row] | None = None  # those from `index` on, behind `_back`
        self._back: deque[Row] = deque()

    def __len__(self) -> int:
        return self.count - self.index

    @property
    def rows(self) -> Sequence[Row]:
        """All records it was made of, taken or not."""
        if self._rows is None:
            assert self.columns is not None, "a slice has columns or rows"
            self._rows = list(rows_of(self.columns, self._times, self._sizes))
        return self._rows

    def take(self, count: int) -> Sequence[Row]:
        """Takes so many records, in order; the slice has at least as many."""
        start = self.index
        self.index += count
        if self._rows is not None:
            return self._rows[start : self.index]
        if self._coming is None:
            assert self.columns is not None, "a slice has columns or rows"
            self._coming = rows_of(self.columns.of(slice(start, None)), self._times[start:], self._sizes[start:])
        back = self._back
        taken = [back.popleft() for _ in range(min(count, len(back)))] if back else []
        taken += islice(self._coming, count - len(taken))
        return taken

    def put_back(self, rows: Sequence[Row]) -> None:
        """Puts the records that were taken last back to the front."""
        self.index -= len(rows)
        if self._rows is None:
            self._back.extendleft(reversed(rows))

    @property
    def first_offset(self) -> int:
        """The offset of the first row that was not taken."""
        if self._rows is not None:
            return self._rows[self.index].offset
        assert self.columns is not None, "a slice has columns or rows"
        return int(self.columns.offsets[self.index])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets of records that were not taken."""
        if self.columns is not None:
            return self.columns.offsets[self.index :]
        return np.array([row.offset for row in self.rows[self.index :]], np.int64)

    @property
    def times(self) -> NDArray[np.int64]:
        """Ingestion times (ms) of records that were not taken."""
        return self._times[self.index :]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Weights in bytes of records that were not taken."""
        return self._sizes[self.index :]

    def rest(self, count: int) -> "Slice[W]":
        """Takes up to `count` records out, in order."""
        self._coming = None
        self._back.clear()
        taken = slice(self.index, min(self.index + count, self.count))
        self.index = taken.stop
        return Slice(
            self.work,
            None if self.columns is None else self.columns.of(taken),
            self._times[taken],
            self._sizes[taken],
            rows=None if self._rows is None else self._rows[taken],
            admitted=self.admitted,
        )


def slice_of_rows(work: W, rows: Sequence[Row], *, admitted: bool) -> Slice[W]:
    """Makes a slice of rows that wait again."""
    times = np.array([row.ingested_at for row in rows], np.int64)
    sizes = np.array([row.size for row in rows], np.int64)
    return Slice(work, None, times, sizes, rows=rows, admitted=admitted)


def below(fetched: FetchedColumns, until: int) -> FetchedColumns:
    """Returns the part of a fetch below the offset `until`."""
    if fetched.next_offset <= until:
        return fetched
    parts = [part.of(slice(int(part.offsets.searchsorted(until)))) for part in fetched.parts]
    damaged = [each for each in fetched.damaged if each.first_offset < until]
    return fetched._replace(parts=[part for part in parts if len(part)], next_offset=until, damaged=damaged)


def in_order(
    parts: Sequence[RecordColumns], damaged: Sequence[QuarantinedBatch]
) -> Iterator[RecordColumns | QuarantinedBatch]:
    """Yields the parts of a fetch, cut at undecodable batches between their records, and those batches, in order."""
    left = list(damaged)
    for part in parts:
        rest = part
        while left and left[0].offset < int(part.offsets[-1]):
            cut = int(rest.offsets.searchsorted(left[0].offset))
            if cut:
                yield rest.of(slice(cut))
            yield left.pop(0)
            rest = rest.of(slice(cut, None))
        yield rest
    yield from left
