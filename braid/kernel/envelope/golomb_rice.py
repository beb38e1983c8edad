"""Golomb–Rice coding of a set of offsets inside a commit envelope: for few unfinished among many done, or the reverse.

Golomb, *Run-length encodings*, IEEE Transactions on Information Theory, 1966; Rice and Plaunt, *Adaptive
variable-length coding for efficient compression of spacecraft television data*, 1971. Distances between offsets that
are unfinished with an even chance are geometric; their code is within a few percent of the entropy. Quotients and
remainders stand apart, so that arrays can be written and read at once.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.envelope.wire import put_varint, read_varint
from braid.kernel.errors import Invalid

Lengths = NDArray[np.int64]
REMAINDER_BITS_MAX: Final = 44  # with the bytes below, no sum of distances leaves 64 bits
_BYTES_MAX: Final = 1 << 15
_DONE: Final = 64  # in the byte of the remainders' width: done offsets are listed, not those between


class RicePlan(NamedTuple):
    """How a set is coded, and what that costs.

    Attributes:
        done: Whether done offsets are listed; else those between them.
        width: Bits of a remainder.
        listed: How many offsets are.
        size: Bytes of the payload, the first offset not counted.
    """

    done: bool
    width: int
    listed: int
    size: int


def best_plan(runs: Lengths, gaps: Lengths, size_max: int) -> RicePlan | None:
    """The cheaper of the two lists, with the width of remainders that makes it smallest; None beyond `size_max`.

    Args:
        runs: Lengths of the ranges, in order.
        gaps: Lengths of what lies between them, one fewer.
        size_max: Bytes that another coder needs.
    """
    length = int(runs.sum() + gaps.sum())
    plans = []
    for done, listed, between in ((False, gaps, runs[:-1]), (True, runs, gaps)):
        count = int(listed.sum())
        if count // 8 < size_max:  # each takes a bit or more
            width, bits = best_width(between, count)
            head = len(_head(length, done, width, count))
            plans.append(
                RicePlan(done, width, count, head + (count * width + 7) // 8 + (bits - count * width + 7) // 8)
            )
    return min(plans, key=lambda plan: plan.size, default=None)


def best_width(between: Lengths, count: int) -> tuple[int, int]:
    """The width of remainders that needs the fewest bits, and how many these are.

    They are `count * (width + 1)` plus the sum of all quotients. From one width to the next the first grows by `count`
    and the second shrinks by less each time, so the first width that the next one does not better is the best.

    Args:
        between: The distances that are not 0.
        count: How many distances there are.
    """
    mean = int(between.sum()) // max(count, 1)
    width = max(mean.bit_length() - 2, 0)
    bits = bits_needed(between, count, width)
    for step in (1, -1):
        while 0 <= width + step <= REMAINDER_BITS_MAX:
            further = bits_needed(between, count, width + step)
            if further >= bits:
                break
            width, bits = width + step, further
    return width, bits


def bits_needed(between: Lengths, count: int, width: int) -> int:
    """Bits of remainders and quotients."""
    return count * (width + 1) + int((between >> width).sum())


def write_rice(runs: Lengths, gaps: Lengths, plan: RicePlan) -> bytes:
    """The payload: length of all, width and what is listed, how many, remainders, quotients in unary.

    A distance is how many offsets lie between one that is listed and the one before it (at first, the set's start);
    its low bits are the remainder, the rest is the quotient: so many zeros and a one. Least significant bits first.
    """
    distances = np.zeros(plan.listed, np.int64)
    if plan.done:
        distances[np.cumsum(runs)[:-1]] = gaps
    else:
        distances[np.cumsum(gaps) - gaps] = runs[:-1]
    ones = np.cumsum((distances >> plan.width) + 1)
    unary = np.zeros(int(ones[-1]), np.uint8)
    unary[ones - 1] = 1
    remainders = (distances[:, None] >> np.arange(plan.width) & 1).astype(np.uint8)
    head = _head(int(runs.sum() + gaps.sum()), plan.done, plan.width, plan.listed)
    return b"".join((head, _packed(remainders.ravel()), _packed(unary)))


def read_rice(data: bytes, start: int) -> list[int]:
    """Edges of the set that begins at `start`: start, end, start, end …

    Raises:
        Invalid: it is not what `write_rice` writes for any set of offsets.
    """
    length, position = read_varint(data, 0)
    form, position = read_varint(data, position)
    count, position = read_varint(data, position)
    width, done = form % _DONE, form >= _DONE
    rest = data[position:]
    split = (count * width + 7) // 8
    if form >= 2 * _DONE or width > REMAINDER_BITS_MAX or count == 0 or not split < len(rest) <= _BYTES_MAX:
        raise Invalid("a Golomb-Rice code is cut off, empty, too long or of an impossible width")
    unary = np.flatnonzero(_bits(rest[split:]))
    if len(unary) != count or (int(unary[-1]) + 8) // 8 != len(rest) - split:
        raise Invalid("a Golomb-Rice code has not as many quotients as it says")
    quotients = np.diff(unary, prepend=-1) - 1
    remainders = _bits(rest[:split])[: count * width].reshape(count, width) @ (1 << np.arange(width, dtype=np.int64))
    distances = (quotients << width) + remainders
    if int(distances.sum()) + count > length or start < 0 or start + length >= 1 << 63:
        raise Invalid("a Golomb-Rice code goes beyond its length, or beyond all offsets")
    return _edges(np.cumsum(distances + 1) + (start - 1), start, start + length, done=done)


def _edges(listed: Lengths, start: int, end: int, *, done: bool) -> list[int]:
    """The ranges' edges; the first and the last offset are in the set, or it would be shorter."""
    breaks = np.flatnonzero(np.diff(listed) != 1)
    starts = listed[np.append(0, breaks + 1)]
    ends = listed[np.append(breaks, len(listed) - 1)] + 1
    edges: list[int] = np.stack((starts, ends), axis=1).ravel().tolist()
    whole = (edges[0], edges[-1]) == (start, end) if done else start < edges[0] and edges[-1] < end
    if not whole:
        raise Invalid("a Golomb-Rice code does not begin and end with its set")
    return edges if done else [start, *edges, end]


def _head(length: int, done: bool, width: int, count: int) -> bytes:
    out = bytearray()
    for value in (length, width + _DONE * done, count):
        put_varint(out, value)
    return bytes(out)


def _packed(bits: NDArray[np.uint8]) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _bits(data: bytes) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
