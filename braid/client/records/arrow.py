"""Makes Arrow arrays of cells that lie in fetched bytes, without an object for each record."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from braid.kafka.batches.columns import all_headers
from braid.kernel.limits.client import HEADER_SECTIONS_MAX, REPEATED_COLUMNS_KEPT_MAX
from braid.kernel.record_columns import Cells, RecordColumns, headers_in, pieces_at

HEADERS: Final = pa.map_(pa.string(), pa.binary())
_Bytes = NDArray[np.uint8]


def binary_of(columns: Sequence[tuple[memoryview, Cells]]) -> pa.Array:
    """Makes one array of `pa.binary` from cells, each in bytes of its own."""
    taken = [_alike(data, cells) if _are_alike(cells) else _taken(data, cells) for data, cells in columns]
    return taken[0] if len(taken) == 1 else pa.concat_arrays(taken)


def as_text(found: pa.Array) -> pa.Array:
    """Decodes ASCII as strings; bytes that are not valid text are replaced."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if text is None else text.decode("ascii", "replace") for text in found.to_pylist()]
        return pa.array(texts, pa.string())


def _are_alike(cells: Cells) -> bool:
    """Whether all cells are of one size, or all are null."""
    return len(cells.sizes) > 0 and bool((cells.sizes == cells.sizes[0]).all())


def _alike(data: memoryview, cells: Cells) -> pa.Array:
    count, size = len(cells.sizes), int(cells.sizes[0])
    if size < 0:
        return pa.nulls(count, pa.binary())
    edges = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    pieces = pa.py_buffer(pieces_at(data, cells.starts, np.dtype(f"V{size}")) if size else b"")
    return pa.Array.from_buffers(pa.binary(), count, [None, edges, pieces])


def _taken(data: memoryview, cells: Cells) -> pa.Array:
    """Makes an array over the fetched bytes: every second element is a cell, the others lie between cells."""
    count = len(cells.sizes)
    edges = np.empty((count, 2), np.int32)
    edges[:, 0] = cells.starts
    edges[:, 1] = cells.starts + np.maximum(cells.sizes, 0)
    around = pa.py_buffer(edges)
    pieces = pa.Array.from_buffers(pa.binary(), max(0, 2 * count - 1), [None, around, pa.py_buffer(data)])
    missing = cells.sizes < 0
    wanted = pa.array(np.arange(0, 2 * count, 2), pa.int64(), mask=missing if missing.any() else None)
    return pieces.take(wanted)


class _Shape(NamedTuple):
    """The layout of a tail: names of its headers, places of their values, and the bytes that belong to no value."""

    names: list[str]
    values: list[slice]
    fixed: _Bytes


def header_maps(columns: RecordColumns) -> pa.Array:
    """Returns the headers of records that were decoded as columns, as `HEADERS`; repeated names stay."""
    assert columns.tails is not None, "records that were objects keep their own headers"
    sizes = columns.tails.sizes
    edges = [0, *(np.flatnonzero(sizes[1:] != sizes[:-1]) + 1).tolist(), len(sizes)]
    if len(edges) > HEADER_SECTIONS_MAX + 1:
        return _of_any(columns)
    sections = [columns.of(slice(start, end)) for start, end in pairwise(edges) if end > start]
    made = [_of_alike(section) for section in sections]
    return pa.concat_arrays(made) if len(made) != 1 else made[0]


def _of_alike(columns: RecordColumns) -> pa.Array:
    """Reads tails of one size: if they differ only in their values, those are cut out of all tails at once."""
    assert columns.tails is not None, "see above"
    starts, count, size = columns.tails.starts, len(columns), int(columns.tails.sizes[0])
    tails: _Bytes = pieces_at(columns.data, starts, np.dtype(f"V{size}")).view(np.uint8).reshape(count, size)
    shape = _shape_of(tails[0].tobytes())
    if shape is None or ((tails ^ tails[0]) & shape.fixed).any():
        return _of_any(columns)
    each = len(shape.names)
    keys = _repeated(tuple(shape.names), 1 << max(0, count - 1).bit_length()).slice(0, count * each)
    widths = np.array([piece.stop - piece.start for piece in shape.values], np.int32)
    ends = np.arange(count, dtype=np.int32)[:, np.newaxis] * widths.sum(dtype=np.int32) + np.cumsum(
        widths, dtype=np.int32
    )
    pieces = np.concatenate([tails[:, piece] for piece in shape.values], axis=1) if each else np.zeros(0, np.uint8)
    value_edges = pa.py_buffer(np.concatenate((np.zeros(1, np.int32), ends.ravel())))
    values = pa.Array.from_buffers(
        pa.binary(), count * each, [None, value_edges, pa.py_buffer(np.ascontiguousarray(pieces))]
    )
    return pa.MapArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(each)), keys, values)


@lru_cache(maxsize=REPEATED_COLUMNS_KEPT_MAX)
def _repeated(names: tuple[str, ...], times: int) -> pa.Array:
    """Repeats a list of names for each record."""
    return pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), times), pa.int64()))


def _shape_of(tail: bytes) -> _Shape | None:
    """Returns the layout of a tail; None when a header has no value."""
    names, values, fixed = [], [], np.full(len(tail), 0xFF, np.uint8)
    end = len(tail)
    told = cast("list[tuple[str, bytes | None]]", headers_in(tail))
    for name, value in reversed(told):  # from behind: a value ends where the next header begins
        if value is None:
            return None
        names.append(name)
        values.append(slice(end - len(value), end))
        fixed[values[-1]] = 0
        end -= len(value) + _width(len(value)) + len(name) + _width(len(name))
    return _Shape(names[::-1], values[::-1], fixed)


def _width(size: int) -> int:
    """Returns how many bytes a size takes as a zigzag varint; zero takes one as well."""
    return max(1, -(-(size << 1).bit_length() // 7))


def _of_any(columns: RecordColumns) -> pa.Array:
    """Reads tails of any layout, one header after another, each of all records at once."""
    names, values = all_headers(columns)
    edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(columns.header_counts))).astype(np.int32)
    if not len(names.starts):
        return pa.MapArray.from_arrays(pa.array(edges), pa.array([], pa.string()), pa.array([], pa.binary()))
    keys = as_text(binary_of([(columns.data, names)]))
    return pa.MapArray.from_arrays(pa.array(edges), keys, binary_of([(columns.data, values)]))
