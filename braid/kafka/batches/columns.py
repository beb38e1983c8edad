"""Decodes the records of whole batches in plain at once (KIP-98), into places in their bytes; no object a record.

It accepts only records exactly as writers write them. For all others it returns None, and the batch is read record by
record. Only that reader decides what is damaged, and which records before the damage can be read. Batches may be
hostile: no place outside the bytes is read, and no size is used before it was compared with what is left.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kafka.batches.layouts import Unusual, layout_of_record, layout_of_tail
from braid.kafka.batches.uniform_records import Layouts, Pieces, Places, put_alike, put_alike_by_length, room
from braid.kernel.limits.kafka import COLUMN_HEADERS_MAX, COLUMN_NAME_BYTES_MAX
from braid.kernel.record_columns import Cells, RecordColumns

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]
_RECORD_BYTES_MIN: Final = 6  # attributes, time, offset, key, value, headers: a byte each
_LENGTH_SHIFT_MAX: Final = 28  # a record's length is an int32: five bytes
_NUMBER_SHIFT_MAX: Final = 56  # nine bytes; of a tenth only one bit would count
_STREAK: Final = 12  # records of one size before more are looked for at once
_WIDTH_BITS: Final = 3  # a length takes up to five bytes
_WINDOW: Final = 512  # so many, and ever more
_WIDER: Final = 4
_RUN_LEAST: Final = 48  # records of one length in a row, before they are compared instead of read


class UncheckedHead(NamedTuple):
    """The statements of a batch's head about its records; nothing of it is trusted.

    Attributes:
        ends_at: Where its records end in the bytes.
        records: How many there are.
        base_offset: What records' offsets count from.
        last_delta: What the last offset is above it at most.
        first_ms: What records' times count from.
        appended_ms: The time of all of them where the broker set it; None where writers did.
    """

    ends_at: int
    records: int
    base_offset: int
    last_delta: int
    first_ms: int
    appended_ms: int | None


class _Steps(NamedTuple):
    """Consecutive records of a batch, as steps.

    Attributes:
        sizes: Of a step's records, their lengths included.
        widths: How many bytes of it the length takes.
        runs: How many records a step is.
    """

    sizes: _Ints
    widths: _Ints
    runs: _Ints


class _Walked(NamedTuple):
    """The steps while they grow: size and width in one number, and by step the runs that are longer than 1."""

    codes: list[int]
    runs: dict[int, int]


def decode_columns(
    plain: memoryview, first_at: int, heads: Sequence[UncheckedHead], names: Sequence[str]
) -> RecordColumns | None:
    """Decodes the records of one or more batches; None if they must be read one by one.

    Args:
        plain: The batches' records, not compressed, one batch's behind the other's.
        first_at: Where the first record begins.
        heads: What the batches' heads say, in offset order.
        names: The headers that are looked for.
    """
    try:
        return _decode(plain, first_at, heads, [name.encode() for name in names])
    except Unusual:
        return None


def all_headers(columns: RecordColumns) -> tuple[Cells, Cells]:
    """Returns names and values of all headers of decoded records, in order, each record's together."""
    assert columns.tails is not None, "they were decoded here"
    data: _Bytes = np.frombuffer(columns.data, np.uint8)
    counts, ends = columns.header_counts, columns.tails.starts + columns.tails.sizes
    _, at = _numbers(data, columns.tails.starts)
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    names, values = (Cells(np.empty(total, np.int64), np.empty(total, np.int64)) for _ in range(2))
    for turn in range(int(counts.max(initial=0))):
        live = np.flatnonzero(counts > turn)
        rows = firsts[live] + turn
        for found in (names, values):
            cells, at[live] = _cells(data, at[live], ends[live])
            found.starts[rows], found.sizes[rows] = cells
    return names, values


def _decode(plain: memoryview, first_at: int, heads: Sequence[UncheckedHead], names: Sequence[bytes]) -> RecordColumns:
    steps = _steps(plain, first_at, heads)
    found = room(sum(head.records for head in heads), 2 + len(names))
    rest = _put_runs(plain, steps, first_at, names, found)
    starts, ends = _bodies(steps, first_at)
    if len(rest):
        if len(rest) == len(starts):
            found = _read(plain, starts, ends, names)
        else:
            found.put(rest, _read(plain, starts[rest], ends[rest], names))
    each = np.array([head.records for head in heads], np.int64)
    deltas = found.deltas
    _demand(deltas.min() >= 0 and (deltas <= np.repeat([head.last_delta for head in heads], each)).all())
    offsets = deltas + np.repeat([head.base_offset for head in heads], each)
    _demand((offsets[1:] > offsets[:-1]).all())
    keys, values, *headers = found.cells
    behind = values.starts + np.maximum(values.sizes, 0)
    tails = Cells(behind, ends - behind)
    times = _times(found.delta_ms, heads, each)
    return RecordColumns(plain, offsets, *times, found.counts, keys, values, headers, tails)


def _put_runs(plain: memoryview, steps: _Steps, first_at: int, names: Sequence[bytes], found: Pieces) -> _Ints:
    """Decodes consecutive records of one length; returns which records are left."""
    sizes, widths, runs = steps
    if len(runs) == len(found.deltas):
        return np.arange(len(runs))
    other = (sizes[1:] != sizes[:-1]) | (widths[1:] != widths[:-1])
    firsts = np.concatenate(([0], np.flatnonzero(other) + 1))
    counts = np.add.reduceat(runs, firsts)
    ends = np.cumsum(counts)
    places = np.cumsum(sizes[firsts] * counts) - sizes[firsts] * counts + first_at
    left = np.ones(len(found.deltas), np.bool_)
    layouts = Layouts(lambda record: layout_of_record(record, names))
    for at in np.flatnonzero(counts >= _RUN_LEAST).tolist():
        size, width, count = int(sizes[firsts[at]]), int(widths[firsts[at]]), int(counts[at])
        run = Places(plain, size - width, count, int(places[at]) + width, size)
        rows = slice(int(ends[at]) - count, int(ends[at]))
        strange = put_alike(run, layouts, found.of(rows))
        left[rows] = False
        left[strange + rows.start] = True
    return np.flatnonzero(left)


def _read(plain: memoryview, starts: _Ints, ends: _Ints, names: Sequence[bytes]) -> Pieces:
    """Decodes records of any layout."""
    data: _Bytes = np.frombuffer(plain, np.uint8)
    _, at = _numbers(data, starts)  # attributes: none is used
    delta_ms, at = _numbers(data, at)
    deltas, at = _numbers(data, at)
    keys, at = _cells(data, at, ends)
    values, at = _cells(data, at, ends)
    tails = room(len(starts), len(names))
    layouts = Layouts(lambda tail: layout_of_tail(tail, names))
    rest = put_alike_by_length(plain, at, ends - at, layouts, tails)
    if len(rest):
        counts, behind = _numbers(data, at[rest])
        headers, behind = _headers(data, behind, ends[rest], counts, names)
        _demand(np.array_equal(behind, ends[rest]))
        tails.counts[rest] = counts
        for cells, others in zip(tails.cells, headers, strict=True):
            cells.starts[rest], cells.sizes[rest] = others
    return Pieces(delta_ms, deltas, tails.counts, [keys, values, *tails.cells])


def _times(delta_ms: _Ints, heads: Sequence[UncheckedHead], each: _Ints) -> tuple[_Ints, NDArray[np.int8]]:
    """Returns the records' times and their types."""
    starts = np.array([head.first_ms if head.appended_ms is None else head.appended_ms for head in heads], np.int64)
    kinds = np.repeat(np.array([head.appended_ms is not None for head in heads], np.int8), each)
    return np.where(kinds, 0, delta_ms) + np.repeat(starts, each), kinds


def _steps(plain: memoryview, first_at: int, heads: Sequence[UncheckedHead]) -> _Steps:
    """Returns the records one after another, up to the end of each batch."""
    data: _Bytes = np.frombuffer(plain, np.uint8)
    found = _Walked([], {})
    at = first_at
    for head in heads:
        _walk(plain, data, at, head, found)
        at = head.ends_at
    _demand(at == len(plain))
    codes = np.array(found.codes, np.int64)
    runs = np.ones(len(codes), np.int64)
    runs[list(found.runs)] = list(found.runs.values())
    return _Steps(codes >> _WIDTH_BITS, codes & (1 << _WIDTH_BITS) - 1, runs)


def _bodies(steps: _Steps, first_at: int) -> tuple[_Ints, _Ints]:
    """Returns where the records begin, after their lengths, and where they end."""
    sizes, widths = np.repeat(steps.sizes, steps.runs), np.repeat(steps.widths, steps.runs)
    ends = np.cumsum(sizes) + first_at
    return ends - sizes + widths, ends


def _walk(plain: memoryview, data: _Bytes, at: int, head: UncheckedHead, found: _Walked) -> None:
    """Notes the records of a batch.

    Where records follow each other with the same length, the next ones are looked at together: as long as the bytes of
    the length are the same at every such step, the steps are right.
    """
    left, end = head.records, head.ends_at
    last, streak, window = 0, 0, _WINDOW
    add = found.codes.append
    _demand(0 < left <= end - at and end <= len(plain))
    while left and at + 1 < end:  # a record is longer than two bytes of its length
        first, second = plain[at], plain[at + 1]
        if first >= 0x80 > second:  # written out, because this is what takes the time
            size, width = (first & 0x7F) >> 1 | second << 6, 2
            size += 2
        else:
            size, width = _length(plain, at)
        if at + size > end or first & 1:
            raise Unusual
        add(size << _WIDTH_BITS | width)
        at += size
        left -= 1
        if size != last:
            last, streak = size, 0
            continue
        streak += 1
        if streak >= _STREAK and (looked_at := min(window, left, (end - at) // size)):
            run = _same_lengths(data, at - size, width, size, looked_at + 1) - 1
            streak, window = (streak, window * _WIDER) if run == looked_at else (0, _WINDOW)
            found.runs[len(found.codes) - 1] = run + 1
            at += size * run
            left -= run
    _demand(at == end and not left)


def _length(plain: memoryview, at: int) -> tuple[int, int]:
    """Returns the length of the record at a place, and how many bytes the length takes."""
    value = shift = 0
    for place in range(at, min(at + 1 + _LENGTH_SHIFT_MAX // 7, len(plain))):
        byte = plain[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            _demand(value >> 1 >= _RECORD_BYTES_MIN)
            width = place + 1 - at
            return (value >> 1) + width, width
        shift += 7
    raise Unusual


def _same_lengths(data: _Bytes, at: int, width: int, size: int, most: int) -> int:
    """Counts consecutive records from a place on that have the same length, up to a limit."""
    same = np.ones(most, np.bool_)
    for place in range(at, at + width):
        same &= data[place : place + (most - 1) * size + 1 : size] == data[place]
    return most if same.all() else int(same.argmin())


def _numbers(data: _Bytes, at: _Ints) -> tuple[_Ints, _Ints]:
    """Reads zigzag varints at many places; returns them and where each ends."""
    byte = data.take(at, mode="clip")
    more = byte >= 0x80
    values = (byte & 0x7F).astype(np.int64)
    at = at + 1
    shift = 7
    while more.any():
        _demand(shift <= _NUMBER_SHIFT_MAX)
        byte = data.take(at, mode="clip")
        values |= np.where(more, byte & 0x7F, 0).astype(np.int64) << shift
        at += more
        more &= byte >= 0x80
        shift += 7
    return (values >> 1) ^ -(values & 1), at


def _cells(data: _Bytes, at: _Ints, ends: _Ints, *, least: int = -1) -> tuple[Cells, _Ints]:
    """Reads cells that begin with their size at many places; returns them and where each ends, within its record."""
    sizes, at = _numbers(data, at)
    _demand(not ((sizes < least) | (sizes > ends - at)).any())
    return Cells(at, sizes), at + np.maximum(sizes, 0)


def _headers(
    data: _Bytes, at: _Ints, ends: _Ints, counts: _Ints, names: Sequence[bytes]
) -> tuple[Sequence[Cells], _Ints]:
    """The last header of each name in every record, and where the headers end. All first headers, all second, …"""
    found = [Cells(at.copy(), np.full(len(at), -1, np.int64)) for _ in names]
    least, most = int(counts.min()), int(counts.max())
    _demand(least >= 0 and most <= COLUMN_HEADERS_MAX)
    for turn in range(most):
        live = slice(None) if turn < least else np.flatnonzero(counts > turn)
        keys, behind = _cells(data, at[live], ends[live], least=0)
        values, behind = _cells(data, behind, ends[live])
        at[live] = behind
        for which, rows in _named(data, keys, names):
            chosen = live if isinstance(rows, slice) else np.arange(len(at))[live][rows]
            found[which].starts[chosen] = values.starts[rows]
            found[which].sizes[chosen] = values.sizes[rows]
    return found, at


def _named(data: _Bytes, keys: Cells, names: Sequence[bytes]) -> Sequence[tuple[int, slice | NDArray[np.bool_]]]:
    """Returns which of the names each place has. Most often all places have the same name."""
    size = int(keys.sizes[0])
    _demand(size <= COLUMN_NAME_BYTES_MAX)
    first = data[int(keys.starts[0]) :][:size].tobytes()
    if (keys.sizes == size).all() and _stand(data, keys.starts, first).all():
        _demand(first.isascii())
        return [(names.index(first), slice(None))] if first in names else []
    found = [(which, _where(data, keys, name)) for which, name in enumerate(names)]
    _demand(_all_ascii(data, keys))
    return found


def _where(data: _Bytes, keys: Cells, name: bytes) -> NDArray[np.bool_]:
    rows: NDArray[np.bool_] = keys.sizes == len(name)
    rows[rows] = _stand(data, keys.starts[rows], name)
    return rows


def _stand(data: _Bytes, starts: _Ints, name: bytes) -> NDArray[np.bool_]:
    """Returns at which places a name begins."""
    same: NDArray[np.bool_] = (_gather(data, starts, len(name)) == np.frombuffer(name, np.uint8)).all(axis=1)
    return same


def _all_ascii(data: _Bytes, keys: Cells) -> bool:
    """Whether all names are ASCII; the record-by-record reader judges other names."""
    for size in np.unique(keys.sizes).tolist():
        _demand(size <= COLUMN_NAME_BYTES_MAX)
        if (_gather(data, keys.starts[keys.sizes == size], size) >= 0x80).any():
            return False
    return True


def _gather(data: _Bytes, starts: _Ints, size: int) -> _Bytes:
    """Reads equally many bytes at each place; shape (places, size)."""
    return data.take(starts[:, np.newaxis] + np.arange(size), mode="clip")


def _demand(usual: bool | np.bool_) -> None:
    if not usual:
        raise Unusual
