"""Reads the values of many commits at once, out of the bytes in which they lie.

It accepts only values that are exactly as a broker writes them. All others are left to `records.read_value`, which
alone decides what is damaged. Values may be hostile: no place outside of a value is read.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.record_columns import Cells, pieces_at

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_BYTES_MIN: Final = 20  # version, offset, an empty metadata, a time
_BYTES_MAX: Final = 1 << 16  # a metadata string and its neighbours; sums of sizes stay far from their type's end
_OFFSET_AT: Final = 2
_METADATA_AT: Final = 10
_EPOCH_BYTES: Final = 4
_EPOCH_FROM: Final = 3
_FLEXIBLE: Final = 4
_EXPIRES: Final = 1
_TIME_BYTES: Final = 8
_NO_TAGS: Final = 1  # a byte: no tagged field
_TOPIC_ID: Final = 19  # bytes: one tagged field, tag 0, 16 bytes
_TOPIC_ID_ALONE: Final = 0x010010
_INT16: Final = np.dtype(">i2")
_INT64: Final = np.dtype(">i8")
_BYTE: Final = np.dtype("u1")


class ReadValues(NamedTuple):
    """The parts of values, one entry for each; `read` says where they mean something."""

    read: _Flags
    offsets: _Ints
    times_ms: _Ints
    metadata: Cells


def read_values(data: memoryview, values: Cells) -> ReadValues:
    """Reads values that are not null; leaves those that are not usual."""
    count = len(values.starts)
    found = ReadValues(
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        Cells(np.zeros(count, np.int64), np.zeros(count, np.int64)),
    )
    usual = (values.sizes >= _BYTES_MIN) & (values.sizes <= _BYTES_MAX)
    rows = np.flatnonzero(usual)
    if not len(rows):
        return found
    versions = pieces_at(data, values.starts[rows], _INT16)
    for version in range(_FLEXIBLE + 1):
        chosen = rows[versions == version]
        if len(chosen):
            _read_version(data, version, values.of(chosen), chosen, found)
    return found


def _read_version(data: memoryview, version: int, values: Cells, rows: _Ints, found: ReadValues) -> None:
    starts, sizes = values
    at = _METADATA_AT + (_EPOCH_BYTES if version >= _EPOCH_FROM else 0)
    if version >= _FLEXIBLE:
        lengths, places, good = _varint_lengths(data, starts, at)
    else:
        lengths = pieces_at(data, starts, _INT16, at=at).astype(np.int64)
        places, good = np.full(len(starts), at + _INT16.itemsize), lengths >= 0
    ends = places + lengths
    left = sizes - ends - _TIME_BYTES
    if version >= _FLEXIBLE:
        good &= _well_tagged(data, starts + sizes, left)
    else:
        good &= left == (_TIME_BYTES if version == _EXPIRES else 0)
    if not good.all():
        rows, starts, lengths, ends, places = rows[good], starts[good], lengths[good], ends[good], places[good]
    found.read[rows] = True
    found.offsets[rows] = pieces_at(data, starts, _INT64, at=_OFFSET_AT)
    found.times_ms[rows] = pieces_at(data, starts + ends, _INT64)
    found.metadata.starts[rows] = starts + places
    found.metadata.sizes[rows] = lengths


def _varint_lengths(data: memoryview, starts: _Ints, at: int) -> tuple[_Ints, _Ints, _Flags]:
    """Reads the lengths of compact strings of one or two bytes, and where the strings begin."""
    first = pieces_at(data, starts, _BYTE, at=at).astype(np.int64)
    second = pieces_at(data, starts, _BYTE, at=at + 1).astype(np.int64)
    more = first >= 0x80
    lengths = np.where(more, first & 0x7F | second << 7, first) - 1
    return lengths, at + 1 + more.astype(np.int64), (lengths >= 0) & ~(more & (second >= 0x80))


def _well_tagged(data: memoryview, ends: _Ints, left: _Ints) -> _Flags:
    """Whether what is behind the time is no tagged field, or the topic's id alone."""
    good: _Flags = (left == _NO_TAGS) | (left == _TOPIC_ID)
    behind = np.where(good, ends - left, 0)  # place 0 is there, whatever it holds
    tags = pieces_at(data, behind, _BYTE).astype(np.int64)
    good &= (left == _TOPIC_ID) | (tags == 0)
    long = left == _TOPIC_ID
    if long.any():
        at = behind[long]
        head = tags[long] << 16 | pieces_at(data, at, np.dtype(">u2"), at=1)
        good[long] = head == _TOPIC_ID_ALONE
    return good
