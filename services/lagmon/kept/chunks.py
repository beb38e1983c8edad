"""The bytes of kept lag: chunks of consecutive steps, which never change, and journals of the open chunk's steps. Pure.

    chunk:   "BKL2" ‖ length of the header (4 bytes) ‖ CRC-32 of it (4) ‖ header ‖ shards
    header:  JSON with times, stepped, origins, and of each shard: first and last series, series, offset, bytes, CRC-32
    shard:   length of the keys (4) ‖ zstd of the keys as JSON ‖ zstd of the columns
    journal: of each step: length (4) ‖ CRC-32 (4) ‖ zstd of: length of the head (4) ‖ JSON head ‖ columns

Columns are differences to the row before, zig-zag, transposed into planes of bytes, so that what does not change takes
next to nothing (Pelkonen and others, *Gorilla*, VLDB 2015, on why differences are small). Numbers are big-endian.
Releases before the smallest age was kept wrote "BKL1" and steps without a count, of eight columns; both are still read.
A shard holds at most 512 series: whoever reads one series reads one shard of each chunk.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import zstandard

from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_CHUNK_BYTES_MAX, KEPT_LAG_SHARD_SERIES
from services.lagmon.kept.rows import COLUMNS, Columns, KeyTable, SeriesKey, Step

_COLUMNS_FIRST: Final = 8  # of journals that do not say
_MAGIC: Final = b"BKL2"
_COLUMNS_BY_MAGIC: Final = {b"BKL1": _COLUMNS_FIRST, _MAGIC: COLUMNS}
_NUMBER: Final = struct.Struct(">I")
_FRAME: Final = struct.Struct(">II")
PREFIX_BYTES: Final = len(_MAGIC) + _FRAME.size
_CHUNK_LEVEL: Final = 3
_JOURNAL_LEVEL: Final = 1
_SIGN_BIT: Final = 63


class Damaged(Exception):
    """Bytes that are not what was written; never raised to callers of the service."""


class Shard(NamedTuple):
    """A shard's place in its chunk, and the series it holds."""

    first: SeriesKey
    last: SeriesKey
    series: int
    offset: int
    size: int
    crc: int


class Header(NamedTuple):
    """A chunk's steps, and where its shards are.

    Attributes:
        times_ms, stepped, origins: Of each step; see `Step`.
        shards: Sorted by series; offsets count from the chunk's first byte.
        columns: How many the chunk was written with.
    """

    times_ms: Sequence[int]
    stepped: Sequence[bool]
    origins: Sequence[int]
    shards: Sequence[Shard]
    columns: int = COLUMNS


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive steps of all series.

    Attributes:
        keys: Sorted.
        columns: Shape (columns, series, steps).
    """

    times_ms: Sequence[int]
    stepped: Sequence[bool]
    origins: Sequence[int]
    keys: KeyTable
    columns: Columns


def chunk_of(steps: Sequence[Step]) -> Chunk:
    """Puts steps together; a series that is missing in a step has no flags there."""
    first = steps[0].keys
    if all(step.keys is first or step.keys == first for step in steps):
        keys, columns = first, np.stack([step.columns for step in steps], axis=2)
    else:
        keys = KeyTable(sorted({key for step in steps for key in step.keys}))
        places = keys.positions
        columns = np.zeros((COLUMNS, len(keys), len(steps)), np.int64)
        for number, step in enumerate(steps):
            columns[:, [places[key] for key in step.keys], number] = step.columns
    return Chunk(
        [step.time_ms for step in steps],
        [step.stepped for step in steps],
        [step.origin for step in steps],
        keys,
        columns,
    )


def encode_chunk(chunk: Chunk) -> bytes:
    """Encodes a chunk; equal chunks give equal bytes."""
    parts: list[bytes] = []
    shards: list[tuple[SeriesKey, SeriesKey, int, int, int, int]] = []
    offset = 0
    for at in range(0, len(chunk.keys), KEPT_LAG_SHARD_SERIES):
        keys = chunk.keys[at : at + KEPT_LAG_SHARD_SERIES]
        names = zstandard.compress(json.dumps(keys, separators=(",", ":")).encode(), _CHUNK_LEVEL)
        body = zstandard.compress(_pack(chunk.columns[:, at : at + len(keys)]), _CHUNK_LEVEL)
        part = _NUMBER.pack(len(names)) + names + body
        shards.append((keys[0], keys[-1], len(keys), offset, len(part), zlib.crc32(part)))
        parts.append(part)
        offset += len(part)
    told = {
        "times": list(chunk.times_ms),
        "stepped": list(chunk.stepped),
        "origins": list(chunk.origins),
        "shards": shards,
    }
    header = json.dumps(told, separators=(",", ":")).encode()
    return b"".join((_MAGIC, _FRAME.pack(len(header), zlib.crc32(header)), header, *parts))


def header_size(prefix: bytes) -> int:
    """Reads the length of the header from a chunk's first `PREFIX_BYTES`. Raises `Damaged`."""
    if len(prefix) != PREFIX_BYTES or prefix[: len(_MAGIC)] not in _COLUMNS_BY_MAGIC:
        raise Damaged("no chunk")
    size, _ = _FRAME.unpack_from(prefix, len(_MAGIC))
    if size > KEPT_LAG_CHUNK_BYTES_MAX:
        raise Damaged("a header without end")
    return int(size)


def read_header(prefix: bytes, header: bytes) -> Header:
    """Reads the header of a chunk. Raises `Damaged`."""
    size, crc = _FRAME.unpack_from(prefix, len(_MAGIC))
    if len(header) != size or zlib.crc32(header) != crc:
        raise Damaged("its header was changed, or cut short")
    told = json.loads(header)
    start = PREFIX_BYTES + size
    shards = [
        Shard(SeriesKey._make(first), SeriesKey._make(last), series, start + offset, length, check)
        for first, last, series, offset, length, check in told["shards"]
    ]
    return Header(told["times"], told["stepped"], told["origins"], shards, _COLUMNS_BY_MAGIC[prefix[: len(_MAGIC)]])


def read_keys(shard: Shard, data: bytes) -> Sequence[SeriesKey]:
    """Reads the series of a shard. Raises `Damaged`."""
    _check(shard, data)
    (size,) = _NUMBER.unpack_from(data)
    names = json.loads(_inflated(data[_NUMBER.size : _NUMBER.size + size], KEPT_LAG_CHUNK_BYTES_MAX))
    return [SeriesKey._make(name) for name in names]


def read_columns(header: Header, shard: Shard, data: bytes) -> Columns:
    """Reads the columns of a shard, of shape (columns, series, steps). Raises `Damaged`."""
    _check(shard, data)
    (size,) = _NUMBER.unpack_from(data)
    return _unpack(data[_NUMBER.size + size :], header.columns, shard.series, len(header.times_ms))


def encode_entry(step: Step, before: Step | None) -> bytes:
    """Encodes a step for the journal; its series are named only where they are not those of the step before."""
    same = before is not None and (before.keys is step.keys or before.keys == step.keys)
    head = json.dumps(
        {
            "time": step.time_ms,
            "stepped": step.stepped,
            "origin": step.origin,
            "columns": COLUMNS,
            "keys": None if same else step.keys,
        },
        separators=(",", ":"),
    ).encode()
    raw = _NUMBER.pack(len(head)) + head + _planes(step.columns[:, :, np.newaxis])
    payload = zstandard.compress(raw, _JOURNAL_LEVEL)
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def read_journal(data: bytes) -> tuple[Sequence[Step], int]:
    """Reads the steps of a journal, up to the first that is not whole.

    Returns:
        The steps, and how many bytes they take: what follows was cut by a crash.
    """
    steps: list[Step] = []
    end = 0
    for step, position in _entries(data):
        steps.append(step)
        end = position
    return steps, end


def _entries(data: bytes) -> Iterator[tuple[Step, int]]:
    position = 0
    keys: KeyTable | None = None
    while position + _FRAME.size <= len(data):
        size, crc = _FRAME.unpack_from(data, position)
        position += _FRAME.size
        payload = data[position : position + size]
        position += size
        if len(payload) != size or zlib.crc32(payload) != crc:
            return
        try:
            step = _entry(_inflated(payload, KEPT_LAG_CHUNK_BYTES_MAX), keys)
        except Damaged:
            return
        keys = step.keys
        yield step, position


def _entry(raw: bytes, before: KeyTable | None) -> Step:
    (size,) = _NUMBER.unpack_from(raw)
    head = json.loads(raw[_NUMBER.size : _NUMBER.size + size])
    named = head["keys"]
    if named is None and before is None:
        raise Damaged("a step whose series are named nowhere")
    keys = before if named is None and before is not None else KeyTable(map(SeriesKey._make, named))
    columns = _from_planes(raw[_NUMBER.size + size :], head.get("columns", _COLUMNS_FIRST), len(keys), 1)[:, :, 0]
    return Step(head["time"], keys, columns, head["stepped"], head["origin"])


def _check(shard: Shard, data: bytes) -> None:
    if len(data) != shard.size or zlib.crc32(data) != shard.crc:
        raise Damaged("a shard was changed, or cut short")


def _pack(columns: Columns) -> bytes:
    steps = np.diff(columns, axis=2, prepend=np.int64(0))
    return _planes((steps << 1) ^ (steps >> _SIGN_BIT))


def _unpack(data: bytes, written: int, series: int, steps: int) -> Columns:
    size = written * series * steps * 8
    coded = _from_planes(_inflated(data, size), written, series, steps).view(np.uint64)
    plain = (coded >> np.uint64(1)).view(np.int64) ^ -(coded & np.uint64(1)).view(np.int64)
    return np.cumsum(plain, axis=2, dtype=np.int64)


def _planes(columns: Columns) -> bytes:
    """Transposes numbers of 8 bytes into 8 planes a column."""
    numbers = np.ascontiguousarray(columns, np.dtype(">i8")).reshape(COLUMNS, -1)
    planes = numbers.view(np.uint8).reshape(COLUMNS, numbers.shape[1], 8)
    return np.ascontiguousarray(planes.transpose(0, 2, 1)).tobytes()


def _from_planes(raw: bytes, written: int, series: int, steps: int) -> Columns:
    """Reads as many columns as were written; those that an earlier release did not have are 0."""
    if written not in _COLUMNS_BY_MAGIC.values() or len(raw) != written * series * steps * 8:
        raise Damaged("columns of another shape")
    planes = np.frombuffer(raw, np.uint8).reshape(written, 8, series * steps)
    numbers = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(np.dtype(">i8"))
    columns = np.zeros((COLUMNS, series, steps), np.int64)
    columns[:written] = numbers.reshape(written, series, steps)
    return columns


def _inflated(data: bytes, most: int) -> bytes:
    """Decompresses at most so many bytes. Raises `Damaged`."""
    try:
        if zstandard.frame_content_size(data) > most:
            raise Damaged("it inflates to more than it may")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=most)
    except zstandard.ZstdError as error:
        raise Damaged("it cannot be decompressed") from error
