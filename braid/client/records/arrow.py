"""Arrow arrays of cells that lie in fetched bytes, made without an object a record."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braid.kernel.record_columns import Cells, pieces_at


def binary_of(columns: Sequence[tuple[memoryview, Cells]]) -> pa.Array:
    """Cells, each in bytes of its own, as one array of `pa.binary`."""
    taken = [_alike(data, cells) if _are_alike(cells) else _taken(data, cells) for data, cells in columns]
    return taken[0] if len(taken) == 1 else pa.concat_arrays(taken)


def as_text(found: pa.Array) -> pa.Array:
    """ASCII as strings; what is not valid text is replaced."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if text is None else text.decode("ascii", "replace") for text in found.to_pylist()]
        return pa.array(texts, pa.string())


def _are_alike(cells: Cells) -> bool:
    """Whether all are of one size, or all null."""
    return len(cells.sizes) > 0 and bool((cells.sizes == cells.sizes[0]).all())


def _alike(data: memoryview, cells: Cells) -> pa.Array:
    count, size = len(cells.sizes), int(cells.sizes[0])
    if size < 0:
        return pa.nulls(count, pa.binary())
    edges = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    pieces = pa.py_buffer(pieces_at(data, cells.starts, np.dtype(f"V{size}")) if size else b"")
    return pa.Array.from_buffers(pa.binary(), count, [None, edges, pieces])


def _taken(data: memoryview, cells: Cells) -> pa.Array:
    """Cells and what lies between them make an array over the fetched bytes, of which every second one is taken."""
    count = len(cells.sizes)
    edges = np.empty((count, 2), np.int32)
    edges[:, 0] = cells.starts
    edges[:, 1] = cells.starts + np.maximum(cells.sizes, 0)
    around = pa.py_buffer(edges)
    pieces = pa.Array.from_buffers(pa.binary(), max(0, 2 * count - 1), [None, around, pa.py_buffer(data)])
    missing = cells.sizes < 0
    wanted = pa.array(np.arange(0, 2 * count, 2), pa.int64(), mask=missing if missing.any() else None)
    return pieces.take(wanted)
