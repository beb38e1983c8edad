"""Coders for sets of offsets and for attempts inside a commit envelope, and what each would cost.

A coded set is one byte naming the coder, then its payload, relative to an anchor (an offset both sides know).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.envelope.golomb_rice import best_plan, best_width, read_rice, write_rice
from braid.kernel.envelope.wire import put_varint, read_varint, read_varints, unzigzag, write_varints, zigzag
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.limits.envelope import ENVELOPE_ATTEMPTS_MAX
from braid.kernel.progress.fields import Attempts
from braid.kernel.progress.ranges import EMPTY, Ranges

OFFSET_MAX: Final = (1 << 63) - 1
_VARINT_STEPS: Final = np.array([1 << bits for bits in range(7, 63, 7)], np.int64)
_FEW_EDGES: Final = 8
_RICE_FIRST_BYTES_MAX: Final = 18  # length, width, count, and two bytes begun
_FIRST_BYTES_MAX: Final = 11  # the coder's number and the largest distance from an anchor


class Coder(IntEnum):
    """Numbers of the range coders; they are never reused. POINTER is reserved."""

    EMPTY = 0
    GOLOMB_RICE = 1
    RUNS = 2
    BITMAP = 3
    POINTER = 4


_EMPTY: Final = bytes([Coder.EMPTY])
_RICE: Final = bytes([Coder.GOLOMB_RICE])
_RUNS: Final = bytes([Coder.RUNS])
_BITMAP: Final = bytes([Coder.BITMAP])


def encode_ranges(ranges: Ranges, anchor: int) -> bytes:
    """Codes a set with the coder that needs the fewest bytes: runs on a tie, then the bitmap."""
    if not ranges:
        return _EMPTY
    edges = ranges.edges
    head = bytearray()
    put_varint(head, zigzag(edges[0] - anchor))
    if len(edges) <= _FEW_EDGES:  # Golomb-Rice has more to say of itself than so few lengths take
        runs = write_varints([high - low for low, high in pairwise(edges)])
        if (edges[-1] - edges[0] + 7) // 8 < len(runs):
            return _BITMAP + head + _bitmap(edges)
        return _RUNS + head + runs
    all_edges = np.fromiter(edges, np.int64, len(edges))
    lengths = all_edges[1:] - all_edges[:-1]
    size = int(_varint_sizes(lengths).sum())
    bitmap_size = (edges[-1] - edges[0] + 7) // 8
    plan = best_plan(lengths[::2], lengths[1::2], min(size, bitmap_size))
    if plan is not None and plan.size < min(size, bitmap_size):
        return _RICE + head + write_rice(lengths[::2], lengths[1::2], plan)
    if bitmap_size < size:
        return _BITMAP + head + _bitmap(edges)
    return _RUNS + head + write_varints(lengths.tolist())


def _bitmap(edges: Sequence[int]) -> bytes:
    """One bit per offset from the first one on, least significant bit first."""
    relative = np.array(edges, np.int64) - edges[0]
    steps = np.zeros(edges[-1] - edges[0] + 1, np.int8)
    steps[relative[::2]] = 1
    steps[relative[1::2]] = -1
    return np.packbits(np.cumsum(steps[:-1], dtype=np.int8), bitorder="little").tobytes()


def decode_ranges(data: bytes, anchor: int) -> Ranges:
    """Reads a coded set. Memory stays within a constant factor of the data's size.

    Raises:
        Invalid: it is not well-formed or leaves the range of offsets.
        Unsupported: this release does not know the coder.
    """
    coder = data[:1]
    if coder in (b"", _EMPTY):
        return EMPTY
    if coder not in _READERS:
        raise Unsupported(f"coder {coder[0]} is not known to this release")
    distance, position = read_varint(data, 1)
    start = anchor + unzigzag(distance)
    edges = _READERS[coder](data[position:], start)
    if edges and not (edges[0] >= 0 and edges[-1] <= OFFSET_MAX):
        raise Invalid("a range leaves the range of offsets")
    return Ranges.of_edges(edges)


def _run_edges(payload: bytes, start: int) -> list[int]:
    lengths = read_varints(payload)
    if len(lengths) % 2 == 0 or 0 in lengths:
        raise Invalid("alternating runs must begin and end with a run, none of them empty")
    return list(accumulate(lengths, initial=start))


def _bitmap_edges(payload: bytes, start: int) -> list[int]:
    bits = np.zeros(len(payload) * 8 + 2, np.uint8)
    bits[1:-1] = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    edges: list[int] = np.flatnonzero(bits[1:] != bits[:-1]).tolist()
    return [start + edge for edge in edges]


_READERS: Final[Mapping[bytes, Callable[[bytes, int], list[int]]]] = {
    _RICE: read_rice,
    _RUNS: _run_edges,
    _BITMAP: _bitmap_edges,
}


class SizedRanges:
    """Tells, in logarithmic time, how many bytes the part of a set below some offset needs at most."""

    def __init__(self, ranges: Ranges) -> None:
        """Measures every prefix of the set once, in linear time."""
        edges = np.array(ranges.edges, np.int64).reshape(-1, 2)
        self.starts: NDArray[np.int64] = edges[:, 0]
        self.ends: NDArray[np.int64] = edges[:, 1]
        gaps = np.append(0, self.starts[1:] - self.ends[:-1]) if len(edges) else self.starts
        runs = np.cumsum(_varint_sizes(self.ends - self.starts) + _varint_sizes(gaps))
        bitmap = (self.ends - self.starts[:1] + 7) // 8
        fewest = np.minimum(runs, bitmap)
        if len(edges) * 2 > _FEW_EDGES:
            fewest = np.minimum(fewest, _rice_sizes(self.ends - self.starts, gaps))
        self._sizes = np.append(0, fewest + _FIRST_BYTES_MAX)

    def size_below(self, horizon: int) -> int:
        """An upper bound of the bytes `encode_ranges` needs for the set below `horizon`."""
        return int(self._sizes[np.searchsorted(self.starts, horizon, side="left")])


def _rice_sizes(runs: NDArray[np.int64], gaps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Upper bounds for the first 1, 2, … runs; each gap stands before its run.

    Widths that suit the whole set are tried, and some smaller ones; for a part the best width may be another, and
    better.
    """
    fewest = np.full(len(runs), OFFSET_MAX, np.int64)
    before = np.append(0, runs[:-1])  # the run before each gap
    for listed, between in ((gaps, before), (runs, gaps)):
        counts = np.cumsum(listed)
        if counts[-1] >> 32:
            continue
        best, _ = best_width(between, int(counts[-1]))
        for width in {best, max(best - 1, 0), max(best - 3, 0)}:
            bits = counts * (width + 1) + np.cumsum(between >> width)
            fewest = np.minimum(fewest, bits // 8 + _RICE_FIRST_BYTES_MAX)
    fewest[: _FEW_EDGES // 2] = OFFSET_MAX  # too few for it
    return fewest


def _varint_sizes(values: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.searchsorted(_VARINT_STEPS, values, side="right") + 1


def encode_attempts(attempts: Sequence[Attempts], anchor: int, size_max: int | None = None) -> tuple[bytes, int]:
    """Codes attempts as triples (gap since the end of the last run, run of offsets, attempts of each).

    Args:
        attempts: By increasing offset, at or above the anchor.
        anchor: Where the first gap is counted from.
        size_max: Stop before exceeding so many bytes; None for no limit.

    Returns:
        The bytes, and how many attempts, counted from the lowest offset, they hold.
    """
    out = bytearray()
    index, position = 0, anchor
    while index < len(attempts):
        offset, count = attempts[index]
        run = 1
        while index + run < len(attempts) and attempts[index + run] == (offset + run, count):
            run += 1
        size = len(out)
        for value in (offset - position, run, count):
            put_varint(out, value)
        if size_max is not None and len(out) > size_max:
            return bytes(out[:size]), index
        index, position = index + run, offset + run
    return bytes(out), index


def decode_attempts(data: bytes, anchor: int) -> tuple[Attempts, ...]:
    """Reads coded attempts.

    Raises:
        Invalid: they are not well-formed, leave the range of offsets or exceed `ENVELOPE_ATTEMPTS_MAX`.
    """
    numbers = read_varints(data)
    if len(numbers) % 3:
        raise Invalid("attempts must come in triples")
    attempts: list[Attempts] = []
    position = anchor
    for gap, run, count in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        start, position = position + gap, position + gap + run
        if not (run and count) or position > OFFSET_MAX or len(attempts) + run > ENVELOPE_ATTEMPTS_MAX:
            raise Invalid("attempts are empty, too many or beyond the range of offsets")
        attempts.extend(Attempts(offset, count) for offset in range(start, position))
    return tuple(attempts)
