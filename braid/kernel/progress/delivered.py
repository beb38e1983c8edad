"""The delivered records of one partition: which are done, and which are not yet. No I/O, no clock.

A record costs 17 bytes while it is tracked and no object of its own: offsets, ingestion times and one flag each lie in
three parallel arrays in offset order. Finishing a record clears its flag; the lowest unfinished one is found by a byte
search (memchr) that never looks at the same flag twice. The finished are dropped wherever they lie, once they are as
many as the others: memory follows what is unfinished, however much was done beyond a record that is stuck. Everything
is O(1) amortised.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.errors import Invalid

_UNFINISHED: Final = 1
_ARRAY_LEAST: Final = 32  # offsets
_COMPACT_AT: Final = 4_096  # finished records that are kept, at least, before the arrays are shortened


class DeliveredRecords:
    """Records by offset, from their delivery until they are done and forgotten.

    Attributes:
        in_flight: How many are unfinished.
    """

    __slots__ = ("_forgotten", "_head", "_newest_ms", "_offsets", "_origin", "_times", "_unfinished", "in_flight")

    def __init__(self, origin: int, newest_ms: int | None = None) -> None:
        """Begins with nothing delivered at or above `origin`; `newest_ms` is the time of the newest record below it."""
        self.in_flight = 0
        self._origin = origin
        self._forgotten = origin  # finished records below it may be tracked no more
        self._newest_ms = newest_ms
        self._offsets = array("q")
        self._times = array("q")
        self._unfinished = bytearray()
        self._head = 0

    def __len__(self) -> int:
        """The number of tracked records; finished ones among them are forgotten later."""
        return len(self._offsets)

    def append(self, offset: int, ingested_at_ms: int) -> None:
        """Adds a record after all others."""
        self._offsets.append(offset)
        self._times.append(ingested_at_ms)
        self._unfinished.append(_UNFINISHED)
        self.in_flight += 1

    def extend(self, offsets: NDArray[np.int64], ingested_at_ms: NDArray[np.int64]) -> None:
        """Adds records with increasing offsets after all others."""
        self._offsets.frombytes(offsets.tobytes())
        self._times.frombytes(ingested_at_ms.tobytes())
        self._unfinished.extend(b"\x01" * len(offsets))
        self.in_flight += len(offsets)

    # --- completion

    def finish(self, offset: int) -> bool:
        """Finishes a record. Returns False for a repeat. Raises `Invalid` for one that was never delivered."""
        offsets, unfinished = self._offsets, self._unfinished
        try:
            index = offset - offsets[-1] - 1  # from the end, where the newest follow each other
            near = index < 0 and offsets[index] == offset
        except IndexError:
            near = False
        if not near and (index := self._locate(offset)) < 0:
            return False
        if not unfinished[index]:
            return False
        unfinished[index] = 0
        self.in_flight -= 1
        return True

    def finish_some(self, offsets: Sequence[int]) -> int:
        """Finishes like `finish_many`, for so few records that arrays are not worth building."""
        if len(offsets) < _ARRAY_LEAST:
            return sum(map(self.finish, offsets))
        return self.finish_many(np.array(offsets, np.int64))

    def finish_many(self, offsets: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> int:
        """Finishes records in any order, or those of the mask; returns how many were unfinished until now.

        Raises:
            Invalid: one of them was never delivered; then nothing has changed.
        """
        if (together := self._together(offsets)) is not None:
            return self._clear(together, slice(None) if mask is None else mask)
        positions, strangers = self._positions(offsets if mask is None else offsets[mask])
        for stranger in strangers.tolist():
            self._locate(stranger)
        if not len(positions):
            return 0
        first = int(positions.min())
        return self._clear(slice(first, int(positions.max()) + 1), positions - first)

    def finish_between(self, start: int, end: int) -> None:
        """Finishes the records of `[start, end)`."""
        self._clear(slice(bisect_left(self._offsets, start), bisect_left(self._offsets, end)), slice(None))

    def forget_newest(self) -> None:
        """Forgets when the newest record before the origin was sent."""
        self._newest_ms = None

    # --- what is known

    @property
    def newest_ms(self) -> int | None:
        """Ingestion time of the record with the highest offset, None before any."""
        return self._times[-1] if self._times else self._newest_ms

    def check(self, offset: int) -> None:
        """Raises `Invalid` for a record that was never delivered."""
        self._locate(offset)

    def is_unfinished(self, offset: int) -> bool:
        """Whether a record was delivered and is not done yet."""
        index = bisect_left(self._offsets, offset)
        delivered = index < len(self._offsets) and self._offsets[index] == offset
        return delivered and self._unfinished[index] == _UNFINISHED

    def unfinished(self) -> NDArray[np.int64]:
        """Returns the offsets of unfinished records, increasing, as a copy."""
        if not self.in_flight:
            return np.zeros(0, np.int64)
        offsets = np.frombuffer(self._offsets, np.int64)[self._head :]
        flags = np.frombuffer(self._unfinished, np.uint8)[self._head :]
        unfinished: NDArray[np.int64] = offsets[flags == _UNFINISHED]
        return unfinished

    def oldest(self) -> tuple[int, int] | None:
        """Returns offset and ingestion time (ms) of the lowest unfinished record; None when all are done.

        Frees records below.
        """
        head = self._unfinished.find(_UNFINISHED, self._head)
        if head < 0:
            self._forget_all()
            return None
        self._head = head
        oldest = self._offsets[head], self._times[head]
        if len(self._offsets) - self.in_flight >= max(_COMPACT_AT, self.in_flight):
            self._forget_finished()
        return oldest

    # --- storage

    def _locate(self, offset: int) -> int:
        """Returns the index of a delivered record; -1 for one that finished so long ago that it was forgotten."""
        offsets = self._offsets
        index = bisect_left(offsets, offset)
        if index < len(offsets) and offsets[index] == offset:
            return index
        if self._origin <= offset < self._forgotten:
            return -1
        raise Invalid(f"offset {offset} was never delivered", field="offset")

    def _together(self, wanted: NDArray[np.int64]) -> slice | None:
        """Returns the slice of the wanted offsets if they are contiguous here too; None otherwise."""
        count = len(wanted)
        if not count or not self._offsets:
            return None
        first = bisect_left(self._offsets, int(wanted[0]))
        if first + count > len(self._offsets) or self._offsets[first + count - 1] != wanted[-1]:
            return None
        alike = np.array_equal(np.frombuffer(self._offsets, np.int64, count, first * 8), wanted)
        return slice(first, first + count) if alike else None

    def _positions(self, wanted: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Returns the indices of wanted offsets that are tracked, and the wanted offsets that are not.

        Views of the arrays must not outlive this call: an exported buffer refuses to grow.
        """
        if not self._offsets:
            return np.zeros(0, np.intp), wanted
        known = np.frombuffer(self._offsets, np.int64)
        positions = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = known[positions] == wanted
        return positions[found], wanted[~found]

    def _clear(self, among: slice, chosen: slice | NDArray[np.intp] | NDArray[np.bool_]) -> int:
        """Clears the flags of `chosen` rows, repeated ones included; returns how many flags were set."""
        if not self.in_flight:
            return 0
        flags = np.frombuffer(self._unfinished, np.uint8)[among]
        before = np.count_nonzero(flags)
        flags[chosen] = 0
        newly = int(before - np.count_nonzero(flags))
        self.in_flight -= newly
        return newly

    def _forget_all(self) -> None:
        """Drops all records, all of them finished."""
        if self._offsets:
            self._newest_ms, self._forgotten = self._times[-1], self._offsets[-1] + 1
        del self._offsets[:], self._times[:], self._unfinished[:]
        self._head = 0

    def _forget_finished(self) -> None:
        """Drops the finished records except the newest, which keeps the time of the newest record."""
        keep = np.frombuffer(self._unfinished, np.uint8) == _UNFINISHED
        keep[-1] = True
        self._forgotten = self._offsets[-1]
        self._offsets = array("q", np.frombuffer(self._offsets, np.int64)[keep].tobytes())
        self._times = array("q", np.frombuffer(self._times, np.int64)[keep].tobytes())
        self._unfinished = bytearray(np.frombuffer(self._unfinished, np.uint8)[keep].tobytes())
        self._head = 0
