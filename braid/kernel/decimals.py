"""Reads decimal numbers out of bytes, many at once. Pure."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.record_columns import pieces_at

_Words = NDArray[np.uint64]
_WORD: Final = 8
_DIGITS: Final = np.dtype(np.uint64).newbyteorder("<")  # the first digit is the lowest byte
_ZEROS: Final = np.uint64(0x3030303030303030)
_BEYOND_NINE: Final = np.uint64(0x7676767676767676)  # takes a byte above nine to its highest bit
_HIGHEST: Final = np.uint64(0x8080808080808080)
# Digits to pairs, pairs to fours, fours to eights: each half is added to ten, a hundred, ten thousand times the other.
_STEPS: Final = tuple(
    (np.uint64(keep), np.uint64(times), np.uint64(shift))
    for keep, times, shift in (
        (0x0F0F0F0F0F0F0F0F, (10 << 8) + 1, 8),
        (0x00FF00FF00FF00FF, (100 << 16) + 1, 16),
        (0x0000FFFF0000FFFF, (10_000 << 32) + 1, 32),
    )
)


def decimals(data: memoryview, starts: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Reads numbers of `size` digits (1 to 16) at many places, and says at which places all bytes are digits."""
    high = np.zeros(len(starts), np.uint64)
    if size < _WORD:
        digits = pieces_at(data, starts, np.dtype(f"V{size}")).view(np.uint8).reshape(-1, size)
        padded = np.full((len(starts), _WORD), ord("0"), np.uint8)
        padded[:, _WORD - size :] = digits
        low = padded.view(_DIGITS).ravel() ^ _ZEROS
    else:
        low = pieces_at(data, starts, _DIGITS, at=size - _WORD) ^ _ZEROS
    if size > _WORD:
        high = (pieces_at(data, starts, _DIGITS) ^ _ZEROS) << np.uint64(8 * (2 * _WORD - size))
    sound = ((low + _BEYOND_NINE | low | high + _BEYOND_NINE | high) & _HIGHEST) == 0
    return (_value(high) * np.uint64(10**_WORD) + _value(low)).view(np.int64), sound


def _value(digits: _Words) -> _Words:
    for keep, times, shift in _STEPS:
        digits = (digits & keep) * times >> shift
    return digits
