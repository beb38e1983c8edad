"""Batches made of rows, and what is read of them in both ways: as columns, and record by record."""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from braid.kafka.batches.batch import Inflater
from braid.kafka.fetching.chunk import Chunk
from braid.kernel.ports import DamagedBatch, Isolation, KafkaRecord, TopicPartition
from braid.kernel.record_columns import RecordColumns
from testbed.batches import packed, raw_batch, varint

NAMES: Final = ("braid-id", "braid-ts", "n")
_Row = tuple[object, ...]

texts = st.one_of(st.none(), st.binary(max_size=4), st.sampled_from([b"x" * 63, b"y" * 64, bytes(200), b""]))
names = st.sampled_from(["braid-id", "braid-ts", "n", "other", "m", "ü", ""])
rows = st.tuples(
    st.integers(1, 3),  # above the offset before
    st.one_of(st.integers(-3, 300), st.integers(-(1 << 60), 1 << 60)),
    texts,
    texts,
    st.one_of(
        st.just([("braid-id", b"01A:12"), ("braid-ts", b"1700000000000")]),
        st.lists(st.tuples(names, texts), max_size=3),
    ),
)
Given = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def sized(value: bytes | None) -> bytes:
    """The bytes of a value behind its length, as a record has them."""
    return varint(-1) if value is None else varint(len(value)) + value


def record(delta: int, time: int, key: bytes | None, value: bytes | None, headers: Sequence[Any]) -> bytes:
    """One record's bytes, relative to its batch."""
    behind = b"".join(sized(name.encode()) + sized(text) for name, text in headers)
    body = b"\x00" + varint(time) + varint(delta) + sized(key) + sized(value) + varint(len(headers)) + behind
    return varint(len(body)) + body


def payload(given_rows: Sequence[Given]) -> tuple[bytes, int]:
    """Records' bytes, and how many offsets they span."""
    data, delta = b"", -1
    for step, time, key, value, headers in given_rows:
        delta += step
        data += record(delta, time, key, value, headers)
    return data, delta + 1


def made(given_rows: Sequence[Given], base: int, flags: int, *, spare: int = 0) -> bytes:
    """A batch, of which compaction may have taken the last records."""
    data, spans = payload(given_rows)
    codec = flags & 7
    return raw_batch(base, spans + spare, packed(codec, data), flags, count=len(given_rows), time_ms=1_000)


def rows_of_records(records: Sequence[KafkaRecord]) -> list[_Row]:
    """The rows that records make, one by one."""
    found: list[_Row] = []
    for each in records:
        last = dict(each.headers)
        found.append(
            (
                *(each.offset, each.timestamp, each.timestamp_type, len(each.headers), each.key, each.value),
                *map(last.get, NAMES),
            )
        )
    return found


def rows_of_columns(part: RecordColumns) -> list[_Row]:
    """The rows that columns make; their cells lie inside the data, in order."""
    for cells in (part.keys, part.values, *part.headers):
        ends = cells.starts + cells.sizes.clip(0)
        assert (cells.starts[1:] >= ends[:-1]).all(), "cells keep the order"
        assert len(part) == 0 or (cells.starts.min() >= 0 and ends.max() <= len(part.data)), "cells lie inside"
    return [
        (
            int(part.offsets[row]),
            int(part.timestamps[row]),
            int(part.timestamp_types[row]),
            int(part.header_counts[row]),
            *(part.cell(cells, row) for cells in (part.keys, part.values, *part.headers)),
        )
        for row in range(len(part))
    ]


def chunk_of(data: bytes, offset: int = 0, suspect: int | None = None) -> Chunk:
    """A fetched answer that begins at an offset."""
    partition = TopicPartition("logs", 3)
    return Chunk(partition, offset, data, [(7, 0)], Isolation.READ_COMMITTED, end=1 << 40, suspect=suspect)


def drained(chunk: Chunk, limit: int, *, columns: bool) -> tuple[list[_Row], list[DamagedBatch], object]:
    """All that a chunk gives, its damage, and how it ended."""
    found: list[_Row] = []
    damaged: list[DamagedBatch] = []
    while not chunk.used_up:
        if chunk.large:
            chunk.open_large()
        if columns:
            taken = chunk.take_columns(limit, Inflater(), NAMES)
            assert taken.size <= limit
            assert taken.next_offset == chunk.next_offset
            found += (row for part in taken.parts for row in rows_of_columns(part))
            damaged += taken.damaged
        else:
            plain = chunk.take(limit, Inflater())
            found += rows_of_records(plain.records)
            damaged += plain.damaged
    return found, damaged, (chunk.next_offset, chunk.suspect, str(chunk.failure))


def same_both_ways(data: bytes, offset: int = 0, limit: int = 100, suspect: int | None = None) -> list[_Row]:
    """Columns of each batch, and of several put together, are what records are."""
    wanted = drained(chunk_of(data, offset, suspect), limit, columns=False)
    for together in (True, False):
        chunk = chunk_of(data, offset, suspect)
        chunk._many_at_once = together
        assert drained(chunk, limit, columns=True) == wanted
    return wanted[0]
