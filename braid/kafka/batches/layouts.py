"""The layout of one record, or of its tail: where its parts lie, and what a record must share to have the same layout.

A record has the same layout if it is as long and has the same sizes, counts and names, and numbers of as many bytes.
Then parts found inside one record lie inside each of them. A tail is what follows a record's value: the number of
headers, and the headers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.kafka import COLUMN_HEADERS_MAX, COLUMN_NAME_BYTES_MAX

WORD: Final = 8  # bytes that are looked at together
_NUMBER_BYTES_MAX: Final = 9  # of a tenth only one bit would count


class Unusual(Exception):
    """A record that is perhaps damaged, perhaps only rare."""


class Check(NamedTuple):
    """A property all records must share: the bits of the mask in the word, or the byte, at a place that is inside."""

    place: int
    size: int
    mask: np.uint64
    wanted: np.uint64


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one record or tail; places count from its beginning.

    Attributes:
        widths: Of the numbers it begins with: attributes, time and offset; none of a tail.
        checks: What the others must have too: sizes, the count of headers, their names, where numbers end.
        count: How many headers there are.
        cells: Place and size of the key, the value and the last header of each name; -1 as the size of a null one.
    """

    widths: Sequence[int]
    checks: Sequence[Check]
    count: int
    cells: Sequence[tuple[int, int]]


class _Reading:
    """Reads one record from start to end."""

    def __init__(self, record: bytes) -> None:
        self._record = record
        self._fixed_from = 0
        self.at = 0
        self.fixed: list[tuple[int, int]] = []

    def number(self) -> int:
        """Reads a zigzag varint."""
        value = 0
        for shift in range(0, 7 * min(_NUMBER_BYTES_MAX, len(self._record) - self.at), 7):
            byte = self._record[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise Unusual

    def free_number(self) -> int:
        """Reads the width of a number whose value other records need not share."""
        at = self.at
        self.number()
        self._fixed_from = self.at
        return self.at - at

    def free_piece(self) -> tuple[int, int]:
        """Reads place and size of a part whose content other records need not share, but whose size they must."""
        size = self._size(-1)
        self._fix()
        found = (self.at, size)
        self.at = self._fixed_from = self.at + max(size, 0)
        return found

    def headers(self, names: Sequence[bytes]) -> tuple[int, list[tuple[int, int]]]:
        """Reads the number of headers, and place and size of the last one of each name, up to the end."""
        places = dict.fromkeys(names, (self.at, -1))
        count = self.number()
        if not 0 <= count <= COLUMN_HEADERS_MAX:
            raise Unusual
        for _ in range(count):
            name, piece = self._name(), self.free_piece()
            if name in places:
                places[name] = piece
        if self.at != len(self._record):
            raise Unusual
        self._fix()
        return count, [places[name] for name in names]

    def _fix(self) -> None:
        if self.at > self._fixed_from:
            self.fixed.append((self._fixed_from, self.at))

    def _name(self) -> bytes:
        size = self._size(0)
        self.at += size
        name = self._record[self.at - size : self.at]
        if size > COLUMN_NAME_BYTES_MAX or not name.isascii():
            raise Unusual
        return name

    def _size(self, least: int) -> int:
        size = self.number()
        if not least <= size <= len(self._record) - self.at:
            raise Unusual
        return size


def layout_of_record(record: bytes, names: Sequence[bytes]) -> Layout:
    """Reads one record without its length.

    Raises:
        Unusual: it is not exactly as writers write it, or its headers are many or strange.
    """
    reading = _Reading(record)
    widths = [reading.free_number() for _ in range(3)]
    pieces = [reading.free_piece(), reading.free_piece()]
    count, headers = reading.headers(names)
    return Layout(widths, _checks(record, sum(widths), reading.fixed), count, [*pieces, *headers])


def layout_of_tail(tail: bytes, names: Sequence[bytes]) -> Layout:
    """Reads the layout of a tail; raises as `layout_of_record` does."""
    reading = _Reading(tail)
    count, headers = reading.headers(names)
    return Layout((), _checks(tail, 0, reading.fixed), count, headers)


def _checks(record: bytes, numbers: int, fixed: Sequence[tuple[int, int]]) -> list[Check]:
    """Covers where numbers end, and what is fixed, with words; with bytes where a record is shorter than a word."""
    mask = bytearray(b"\x80" * numbers + bytes(len(record) - numbers))
    for start, end in fixed:
        mask[start:end] = b"\xff" * (end - start)
    size = WORD if len(record) >= WORD else 1
    found, covered = [], 0
    for start, end in [(0, numbers), *fixed]:
        for at in range(max(start, covered), end, size):
            place = min(at, len(record) - size)
            bits = int.from_bytes(mask[place : place + size], "little")
            wanted = int.from_bytes(record[place : place + size], "little") & bits
            found.append(Check(place, size, np.uint64(bits), np.uint64(wanted)))
            covered = place + size
    return found
