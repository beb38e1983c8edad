"""Records of one partition as columns: places of keys, values and chosen headers in bytes.

No object for each record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from braid.kernel.ports.kafka.records import KafkaRecord

_Kind = TypeVar("_Kind", bound=np.generic)


class Cells(NamedTuple):
    """One piece of bytes for each record, in order: none begins before the one before it ends.

    Attributes:
        starts: Where each begins, int64; of a null one it means nothing but keeps the order.
        sizes: In bytes, int64; -1 for null and for a header that is not there.
    """

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def of(self, chosen: slice | NDArray[np.bool_] | NDArray[np.int64]) -> "Cells":
        """Returns the cells of some of the records."""
        return Cells(self.starts[chosen], self.sizes[chosen])


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in offset order; every array has one entry a record.

    Attributes:
        data: What the cells lie in.
        offsets: int64.
        timestamps: int64, milliseconds since the epoch.
        timestamp_types: int8, as `KafkaRecord.timestamp_type`.
        header_counts: int64, how many headers each has, whatever their names.
        keys: Keys in `data`.
        values: Values in `data`.
        headers: For each name that was asked for, the last header of that name.
        tails: What is behind the values in `data`, for `headers_in`; None for records that were objects already.
        raws: Those objects.
    """

    data: memoryview
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    timestamp_types: NDArray[np.int8]
    header_counts: NDArray[np.int64]
    keys: Cells
    values: Cells
    headers: Sequence[Cells]
    tails: Cells | None = None
    raws: Sequence["KafkaRecord"] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    def of(self, chosen: slice | NDArray[np.bool_]) -> "RecordColumns":
        """Returns the columns of some of the records."""
        return RecordColumns(
            self.data,
            self.offsets[chosen],
            self.timestamps[chosen],
            self.timestamp_types[chosen],
            self.header_counts[chosen],
            self.keys.of(chosen),
            self.values.of(chosen),
            [cells.of(chosen) for cells in self.headers],
            None if self.tails is None else self.tails.of(chosen),
            self._raws_of(chosen),
        )

    def _raws_of(self, chosen: slice | NDArray[np.bool_]) -> Sequence["KafkaRecord"]:
        if not self.raws:
            return ()
        return self.raws[chosen] if isinstance(chosen, slice) else list(compress(self.raws, chosen.tolist()))

    def cell(self, cells: Cells, row: int) -> bytes | None:
        """Returns the bytes of one cell, None for null: for looking at single records."""
        start, size = int(cells.starts[row]), int(cells.sizes[row])
        return None if size < 0 else bytes(self.data[start : start + size])


def pieces_at(data: memoryview, starts: NDArray[np.int64], kind: np.dtype[_Kind], *, at: int = 0) -> NDArray[_Kind]:
    """Reads pieces of one size at many places in bytes, each so many bytes behind its start.

    Args:
        data: The bytes.
        starts: The places, from 0.
        kind: What stands there: numbers, or `V5` for five bytes.
        at: How far behind its start.

    Raises:
        IndexError: a piece does not lie inside.
    """
    every: NDArray[_Kind] = np.ndarray((max(0, len(data) - at - kind.itemsize + 1),), kind, data, at, (1,))
    return every[starts]


def columns_of(records: Sequence["KafkaRecord"], names: Sequence[str]) -> RecordColumns:
    """Makes columns of records that are objects already; `names` are the headers asked for."""
    by_name = [_last_headers(record) for record in records]
    pieces = [
        piece
        for record, headers in zip(records, by_name, strict=True)
        for piece in (record.key, record.value, *map(headers.get, names))
    ]
    width = 2 + len(names)
    there = [piece or b"" for piece in pieces]
    starts = _int64(list(accumulate(map(len, there), initial=0))[:-1]).reshape(-1, width)
    sizes = _int64([-1 if piece is None else len(piece) for piece in pieces]).reshape(-1, width)
    cells = [Cells(starts[:, at], sizes[:, at]) for at in range(width)]
    return RecordColumns(
        memoryview(b"".join(there)),
        _int64([record.offset for record in records]),
        _int64([record.timestamp for record in records]),
        np.array([record.timestamp_type for record in records], np.int8),
        _int64([len(record.headers) for record in records]),
        cells[0],
        cells[1],
        cells[2:],
        raws=records,
    )


def pieces_in(data: memoryview, cells: Cells) -> list[bytes | None]:
    """Returns the bytes of every cell, None for null; all at once if they are of one size."""
    starts, sizes = cells
    if not len(sizes):
        return []
    size = int(sizes[0])
    if (sizes == size).all():
        if size <= 0:
            return [b"" if size == 0 else None] * len(sizes)
        alike: list[bytes | None] = pieces_at(data, starts, np.dtype(f"V{size}")).tolist()
        return alike
    first, last = int(starts[0]), int((starts + np.maximum(sizes, 0)).max())
    around = bytes(data[first:last])
    starts = starts - first
    pairs = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    if sizes.min() >= 0:
        return [around[start:end] for start, end in pairs]
    return [around[start:end] if end >= start else None for start, end in pairs]


def headers_in(tail: bytes) -> list[tuple[str, bytes]]:
    """Reads the headers behind a record's value, as Kafka writes them (KIP-98). The record must be sound.

    A header's value may be None, whatever its type says: other tools write such.
    """
    left, at = _varint(tail, 0)
    found = []
    while left > 0:
        size, at = _varint(tail, at)
        name, at = tail[at : at + size].decode(), at + size
        size, at = _varint(tail, at)
        found.append((name, tail[at : at + size] if size >= 0 else None))
        at += max(size, 0)
        left -= 1
    return found  # type: ignore[return-value]  # see above


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a zigzag varint; returns it and the place where it ends."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _last_headers(record: "KafkaRecord") -> dict[str, bytes]:
    return dict(record.headers)  # of several of a name the last one stays


def _int64(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)
