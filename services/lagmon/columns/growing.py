"""Columns that grow: arrays with room for more rows than they have. Pure."""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

_Kind = TypeVar("_Kind", bound=np.generic)
_LEAST: Final = 64


def grown(column: NDArray[_Kind], rows: int, fill: object = None) -> NDArray[_Kind]:
    """Returns a column with room for so many rows at least; what it did not have holds `fill`, or anything."""
    if rows <= len(column):
        return column
    room = max(_LEAST, rows, len(column) * 3 // 2)
    found = np.empty((room, *column.shape[1:]), column.dtype)
    if fill is not None:
        found[len(column) :] = fill
    found[: len(column)] = column
    return found
