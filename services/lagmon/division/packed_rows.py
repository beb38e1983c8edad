"""Shared rows as packed columns, and packed columns as shared rows. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.lagmon.sampling import LAG_PROGRESS_MAX
from services.lagmon.division.exported import SharedRows
from services.lagmon.division.packing import DamagedColumns, Packed, pack, unpack
from services.lagmon.division.shared_rows import SharedNumbers

_PLACED: Final = 3  # columns that say which rows they are


class PackedRows(NamedTuple):
    """Some rows of one cluster.

    Attributes:
        size: How many.
        columns: Places, pairs, partitions, numbers, and lengths of metadata.
        metadata: Of all rows, one behind the other.
    """

    size: int
    columns: Sequence[Packed]
    metadata: bytes


def pack_rows(rows: SharedRows) -> PackedRows:
    """Packs rows."""
    lengths = np.fromiter(map(len, rows.metadata), np.int64, len(rows.metadata))
    columns = (rows.places, rows.pair, rows.partition, *rows.numbers, lengths)
    return PackedRows(len(rows.places), [pack(column) for column in columns], b"".join(rows.metadata))


def unpack_rows(packed: PackedRows) -> SharedRows:
    """Unpacks rows.

    Raises:
        DamagedColumns: the columns do not fit together.
    """
    count, text = packed.size, packed.metadata
    if not 0 < count <= LAG_PROGRESS_MAX or len(packed.columns) != _PLACED + len(SharedNumbers._fields) + 1:
        raise DamagedColumns(f"{count} rows in {len(packed.columns)} columns")
    *columns, lengths = [unpack(column, count) for column in packed.columns]
    if int(lengths.min()) < 0 or int(lengths.max()) > len(text):
        raise DamagedColumns("metadata of a length that cannot be")
    ends = np.cumsum(lengths).tolist()
    if ends[-1] != len(text):
        raise DamagedColumns("metadata that does not fit its lengths")
    metadata = [text[first:end] for first, end in pairwise([0, *ends])]
    places, pair, partition = columns[:_PLACED]
    return SharedRows(places, pair, partition, SharedNumbers._make(columns[_PLACED:]), metadata)
