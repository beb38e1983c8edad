"""Inflates a large batch and cuts it into pieces of whole records, each an uncompressed batch.

Batches may be hostile. Memory holds one piece, the record it cuts, and the codec's window, whatever the batch inflates
to. The batch ends when its head's number of records is reached, and the codec's data must end there, too.
"""

from typing import NamedTuple

from braid.kafka.batches.batch import HEAD_BYTES, Frame, first_offset, put_head, read_varint
from braid.kafka.batches.decompress import DoesNotFit, fresh_room, inflated_parts
from braid.kernel.limits.kafka import (
    INFLATED_RECORD_BYTES_MAX,
    LARGE_PARTS_FREE,
    LARGE_PIECE_BYTES,
    XERIAL_BLOCK_BYTES_MIN,
)


class Piece(NamedTuple):
    """Consecutive records of a batch.

    Attributes:
        frame: The batch's, with the number of these records.
        plain: They, behind a head of their own.
        last: Whether the batch ends with them.
        first: Offset of the first one, as it says itself; None for a batch that was not cut.
    """

    frame: Frame
    plain: memoryview
    last: bool = True
    first: int | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the piece was cut out of a large batch."""
        return self.first is not None


class LargeBatch:
    """The pieces of one batch, whose checksum was checked before. Not for the event loop.

    Attributes:
        frame: Of the whole batch.
    """

    def __init__(self, frame: Frame) -> None:
        """Begins before the first record."""
        self.frame = frame
        self._parts = inflated_parts(frame.codec, frame.raw[HEAD_BYTES:])
        self._part = memoryview(b"")
        self._parts_left = LARGE_PARTS_FREE
        self._begun = b""  # what of a record, or more, was inflated behind the last piece
        self._left = frame.records
        self._record_max = INFLATED_RECORD_BYTES_MAX if frame.codec else len(frame.raw)

    def next(self) -> Piece | None:
        """Returns the next records, as many as a piece holds, or a single larger one; None after the last.

        Raises:
            DoesNotFit: the next record is larger than any may be.
            One of `DAMAGE`: there is no next record, although there should be, or something else behind the last.
        """
        if not self._left:
            if self._begun or self._fill(fresh_room(1)):
                raise ValueError(f"there is more behind its {self.frame.records} records")
            return None
        count = 0
        while not count:
            room = fresh_room(max(LARGE_PIECE_BYTES, HEAD_BYTES + self._next_size()))
            used = self._fill_behind_head(room)
            count, end = whole_records(room[:used], HEAD_BYTES, self._left)
            self._begun = bytes(room[end:used])
            if not count and used < len(room) and self._next_size() > len(self._begun):
                raise ValueError(f"it ends after {self.frame.records - self._left} of {self.frame.records} records")
        self._left -= count
        frame = self.frame._replace(records=count)
        put_head(frame, room)
        last = not self._left and used < len(room) and not self._begun
        return Piece(frame, room[:end], last, first_offset(frame, room))

    def _next_size(self) -> int:
        """Returns the bytes of the next record, with its length; if unknown yet, one more byte than is there."""
        try:
            length, behind = read_varint(self._begun, 0)
        except IndexError:
            return len(self._begun) + 1
        if length < 0:
            raise ValueError(f"a record of {length} bytes")
        if behind + length > self._record_max:
            why = f"a record of {length} bytes, more than {self._record_max}"
            raise DoesNotFit(why) if self.frame.codec else ValueError(why)
        return behind + length

    def _fill_behind_head(self, room: memoryview) -> int:
        """Returns where what was inflated ends: before the end of `room` only where the batch does."""
        begun = HEAD_BYTES + len(self._begun)
        room[HEAD_BYTES:begun] = self._begun
        return begun + self._fill(room[begun:])

    def _fill(self, room: memoryview) -> int:
        used = 0
        while used < len(room):
            if not self._part:
                part = next(self._parts, None)
                if part is None:
                    break
                self._count(part)
                self._part = part
            size = min(len(self._part), len(room) - used)
            room[used : used + size] = self._part[:size]
            self._part = self._part[size:]
            used += size
        return used

    def _count(self, part: memoryview) -> None:
        """Counts parts without content, which would otherwise cost time without end."""
        self._parts_left += len(part) // XERIAL_BLOCK_BYTES_MIN - 1
        if self._parts_left < 0:
            raise DoesNotFit("of more parts than there is content for")


def whole_records(data: memoryview, at: int, most: int) -> tuple[int, int]:
    """Counts the whole records in bytes from a place on, up to a number, and returns where they end.

    It ends before a record whose length makes no sense, too.
    """
    count, end = 0, len(data)
    while count < most and at < end:
        length, behind = data[at], at + 1
        if length < 0x80 and not length & 1:  # written out, because there may be many
            behind += length >> 1
        else:
            try:
                length, behind = read_varint(data, at)
            except (IndexError, ValueError):
                break
            if length < 0:
                break
            behind += length
        if behind > end:
            break
        at = behind
        count += 1
    return count, at
