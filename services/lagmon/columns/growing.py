"""Columns that grow: arrays with room for more rows than they have. Pure."""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

_Kind = TypeVar("_Kind", bound=np.generic)
_LEAST: Final = 64
_USUAL: Final = 2


def grown(column: NDArray[_Kind], rows: int, fill: object = None, spare: int = _USUAL) -> NDArray[_Kind]:
    """Returns a column with room for at least `rows` rows. New rows hold `fill`; without it, anything.

    It grows by one row for every `spare` rows. A large number copies rows more often, and leaves fewer unused.
    """
    if rows <= len(column):
        return column
    room = max(_LEAST, rows, len(column) + len(column) // spare)
    found = np.empty((room, *column.shape[1:]), column.dtype)
    if fill is not None:
        found[len(column) :] = fill
    found[: len(column)] = column
    return found
