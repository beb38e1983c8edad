"""Decodes records of one layout together: one of them is read, and the others are compared with it, all at once.

No record is trusted that was not compared; `batches.layouts` says how little of it must be compared. The records here
are whole records without their lengths, or their tails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from braid.kafka.batches.layouts import WORD, Layout
from braid.kernel.record_columns import Cells, pieces_at

_Ints = NDArray[np.int64]
_Words = NDArray[np.uint64]
_Kind = TypeVar("_Kind", np.uint64, np.uint8)
_WORDS: Final = np.dtype("<u8")
_BYTES: Final = np.dtype("u1")
_ALIKE_LEAST: Final = 32  # of one length, before they are compared instead of read
_ALIKE_SHARE: Final = 16  # and one in so many of all: every length costs some 50 µs
_LAYOUTS_TRIED: Final = 3  # of one length
_LAYOUT_WORTH: Final = 0.5  # of those of one length so many are left: a further layout is not worth it


@dataclass(frozen=True, slots=True)
class Pieces:
    """The parts of records and their places, one entry for each record.

    Attributes:
        delta_ms: Times above the batch's first.
        deltas: Offsets above the batch's first.
        counts: How many headers each has.
        cells: Keys, values, and the last header of each name; of tails the headers alone.
    """

    delta_ms: _Ints
    deltas: _Ints
    counts: _Ints
    cells: Sequence[Cells]

    def of(self, rows: slice) -> "Pieces":
        """Returns the entries of some records, in the same memory."""
        pairs = [cells.of(rows) for cells in self.cells]
        return Pieces(self.delta_ms[rows], self.deltas[rows], self.counts[rows], pairs)

    def put(self, rows: _Ints, found: "Pieces") -> None:
        """Writes the parts found in some of the records."""
        self.delta_ms[rows], self.deltas[rows], self.counts[rows] = found.delta_ms, found.deltas, found.counts
        for cells, others in zip(self.cells, found.cells, strict=True):
            cells.starts[rows], cells.sizes[rows] = others.starts, others.sizes


def room(count: int, cells: int) -> Pieces:
    """Makes the entries of so many records, to be written."""
    numbers = np.empty((3 + 2 * cells, count), np.int64)
    pairs = [Cells(numbers[at], numbers[at + 1]) for at in range(3, 3 + 2 * cells, 2)]
    return Pieces(numbers[0], numbers[1], numbers[2], pairs)


@dataclass(frozen=True, slots=True)
class Places:
    """Where many records, or their tails, of one length lie.

    Attributes:
        plain: Their bytes.
        size: How many bytes each takes.
        count: How many they are.
        first: Where the first one begins.
        step: Each begins so much behind the one before.
        starts: Where they begin when they do not follow each other so.
    """

    plain: memoryview
    size: int
    count: int
    first: int
    step: int
    starts: _Ints | None = None

    def words(self, place: int, size: int = WORD) -> _Words:
        """The word, or byte, at a place of each, lowest byte first."""
        return self._at(place, _WORDS) if size == WORD else self._at(place, _BYTES).astype(np.uint64)

    def _at(self, place: int, kind: np.dtype[_Kind]) -> NDArray[_Kind]:
        if self.starts is not None:
            return pieces_at(self.plain, self.starts, kind, at=place)
        return np.ndarray((self.count,), kind, self.plain, self.first + place, (self.step,))

    def begins(self) -> _Ints:
        """Where each begins."""
        if self.starts is not None:
            return self.starts
        return np.arange(self.first, self.first + self.step * self.count, self.step, dtype=np.int64)

    def one(self, index: int) -> bytes:
        """The bytes of one of them."""
        first = self.first + index * self.step if self.starts is None else int(self.starts[index])
        return bytes(self.plain[first : first + self.size])

    def of(self, chosen: _Ints) -> "Places":
        """Returns some of the places."""
        return replace(self, count=len(chosen), starts=self.begins()[chosen])


class Layouts:
    """The layouts that were right last, by length, for batches that are decoded together."""

    def __init__(self, read: Callable[[bytes], Layout]) -> None:
        """`read` reads the layout of one record or tail."""
        self._read = read
        self._known: dict[int, Layout] = {}

    def known(self, places: Places) -> Layout | None:
        """Returns the layout last used for this length, which may be right."""
        return self._known.get(places.size)

    def of_first(self, places: Places) -> Layout | None:
        """Reads the layout of the first record; None if its numbers cannot be read at once."""
        layout = self._read(places.one(0))
        numbers = sum(layout.widths)
        if numbers and not numbers <= WORD <= places.size:
            return None
        self._known[places.size] = layout
        return layout


def put_alike(places: Places, layouts: Layouts, found: Pieces) -> _Ints:
    """Writes the parts of many records, or tails, that have a layout in common.

    Args:
        places: Where they lie.
        layouts: What they may be like.
        found: Room for what stands in them.

    Returns:
        Which ones are left, by their numbers.

    Raises:
        Unusual: one of them is.
    """
    left = np.arange(places.count)
    for turn in range(_LAYOUTS_TRIED):
        rest = places if len(left) == places.count else places.of(left)
        layout = (None if turn else layouts.known(rest)) or layouts.of_first(rest)
        if layout is None:
            break
        wrong = _differences(rest, layout)
        if rest is places and not wrong.any():
            _write(places, layout, found)
            return left[:0]
        alike = np.flatnonzero(wrong == 0)
        part = rest.of(alike)
        written = room(len(alike), len(found.cells))
        _write(part, layout, written)
        found.put(left[alike], written)
        before, left = len(left), left[wrong != 0]
        if len(left) < _ALIKE_LEAST or (turn and len(left) > before * _LAYOUT_WORTH):
            break
    return left


def put_alike_by_length(plain: memoryview, starts: _Ints, sizes: _Ints, layouts: Layouts, found: Pieces) -> _Ints:
    """`put_alike` of records or tails of all lengths, `starts` in order; rare lengths are left."""
    least = max(_ALIKE_LEAST, len(starts) // _ALIKE_SHARE)
    kinds, counts = np.unique(sizes, return_counts=True)
    left = np.ones(len(starts), np.bool_)
    for size, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        if count < least or size <= 0:
            continue
        if count == len(starts):
            return put_alike(Places(plain, size, count, 0, 0, starts), layouts, found)
        rows = np.flatnonzero(sizes == size)
        part = room(count, len(found.cells))
        strange = put_alike(Places(plain, size, count, 0, 0, starts[rows]), layouts, part)
        found.put(rows, part)
        left[rows] = False
        left[rows[strange]] = True
    return np.flatnonzero(left)


def _differences(places: Places, layout: Layout) -> _Words:
    """Returns a number for each record; not 0 if its layout differs."""
    wrong = np.zeros(places.count, np.uint64)
    for check in layout.checks:
        words = places.words(check.place, check.size) & check.mask
        words ^= check.wanted
        wrong |= words
    return wrong


def _write(places: Places, layout: Layout, found: Pieces) -> None:
    """Writes the parts of records with this layout."""
    if layout.widths:
        words = places.words(0)
        first, second, third = layout.widths
        _write_number(words >> np.uint64(8 * first), second, found.delta_ms)
        _write_number(words >> np.uint64(8 * (first + second)), third, found.deltas)
    found.counts.fill(layout.count)
    begins = places.begins()
    for cells, (place, size) in zip(found.cells, layout.cells, strict=True):
        np.add(begins, place, out=cells.starts)
        cells.sizes.fill(size)


def _write_number(words: NDArray[np.uint64], width: int, found: _Ints) -> None:
    """Writes the zigzag varints that begin the words."""
    value = (words & np.uint64(0x7F)).view(np.int64)
    for index in range(1, width):
        value |= (words >> np.uint64(index) & np.uint64(0x7F << 7 * index)).view(np.int64)
    np.bitwise_xor(value >> 1, -(value & 1), out=found)
