"""Columns of whole numbers as bytes, each as narrow as its own range. Pure.

A column is its least number, and what each entry has beyond it in 0, 1, 2, 4 or 8 bytes. So a column of equal numbers
takes no bytes.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]
_KINDS: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


class DamagedColumns(ValueError):
    """Columns that do not fit together, or numbers that cannot be."""


class Packed(NamedTuple):
    """One column of whole numbers, packed.

    Attributes:
        base: The least number.
        width: Bytes of each entry beyond it.
        data: The entries, little-endian.
    """

    base: int
    width: int
    data: bytes


def pack(column: _Ints) -> Packed:
    """Packs a column."""
    if not len(column):
        return Packed(0, 0, b"")
    base = int(column.min())
    most = int(column.max()) - base
    width = 0 if not most else next(width for width in _KINDS if most < 1 << 8 * width)
    if not width:
        return Packed(base, 0, b"")
    return Packed(base, width, (column - base).astype(_KINDS[width]).tobytes())


def unpack(packed: Packed, count: int) -> _Ints:
    """Unpacks a column of so many entries.

    Raises:
        DamagedColumns: it has another number of entries, or one that is no 64-bit number.
    """
    base, width, data = packed
    if not width and not data:
        return np.full(count, base, np.int64)
    if width not in _KINDS or len(data) != count * width:
        raise DamagedColumns(f"a column of {len(data)} bytes does not hold {count} entries of {width}")
    beyond = np.frombuffer(data, _KINDS[width])
    if count and base + int(beyond.max()) >= 1 << 63:
        raise DamagedColumns("a column has a number beyond 64 bits")
    found: _Ints = beyond.astype(np.int64) + base
    return found
