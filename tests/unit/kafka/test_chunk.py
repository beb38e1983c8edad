"""Fetched bytes: any limit gives the same records, any start skips the same ones, and damage is told, not guessed."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.chunk import Chunk
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import Isolation, KafkaRecord, TopicPartition

PARTITION = TopicPartition("logs", 3)
_CHECKSUM_AT = 17  # in a batch; it covers everything after itself


def batch(base: int, count: int, compression: int = 0) -> bytes:
    """A batch of `count` records from an offset on."""
    builder: Any = DefaultRecordBatchBuilder(
        2, compression, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    for at in range(count):
        builder.append(at, 1_000 + base + at, None, f"{base + at}".encode(), [])
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    return bytes(data)


def chunk_of(data: bytes, offset: int) -> Chunk:
    return Chunk(PARTITION, offset, data, (), Isolation.READ_COMMITTED)


def drain(chunk: Chunk, limit: int) -> list[KafkaRecord]:
    records: list[KafkaRecord] = []
    while True:
        taken = chunk.take(limit)
        records += taken
        assert chunk.next_offset >= (records[-1].offset + 1 if records else 0)
        if len(taken) < limit:
            return records


@given(
    counts=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    gap=st.integers(0, 3),
    skip=st.integers(0, 12),
    limit=st.integers(1, 20),
    compression=st.sampled_from([0, 1, 3, 4]),
)
def test_any_limit_and_any_start(counts: list[int], gap: int, skip: int, limit: int, compression: int) -> None:
    offsets: list[int] = []
    data, base = b"", 0
    for count in counts:
        data += batch(base, count, compression)
        offsets += range(base, base + count)
        base += count + gap
    end = base - gap
    skip = min(skip, end)
    chunk = chunk_of(data, skip)
    records = drain(chunk, limit)
    assert [record.offset for record in records] == [offset for offset in offsets if offset >= skip]
    assert [record.value for record in records] == [f"{record.offset}".encode() for record in records]
    assert chunk.next_offset == end


def test_a_start_inside_a_batch_never_moves_back() -> None:
    chunk = chunk_of(batch(0, 10), 9)
    assert [record.offset for record in chunk.take(2)] == [9]
    assert chunk.next_offset == 10


def test_a_half_batch_at_the_end_is_left_for_later() -> None:
    chunk = chunk_of(batch(0, 2) + batch(2, 2)[:-1], 0)
    assert len(drain(chunk, 10)) == 2
    assert chunk.next_offset == 2


@given(at=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_flipped_bit_is_damage_at_its_place(at: int, bit: int) -> None:
    data = bytearray(batch(0, 2) + batch(2, 5))
    first = len(batch(0, 2))
    covered = first + _CHECKSUM_AT
    data[covered + at % (len(data) - covered)] ^= 1 << bit
    chunk = chunk_of(bytes(data), 0)
    assert [record.offset for record in chunk.take(2)] == [0, 1]
    with pytest.raises(ClusterUnavailable) as damage:
        chunk.take(10)
    assert damage.value.metadata == {"topic": "logs", "partition": "3", "offset": "2"}
    assert chunk.next_offset == 2


def test_damage_does_not_take_what_came_before_it() -> None:
    data = bytearray(batch(0, 2) + batch(2, 5))
    data[-1] ^= 1
    chunk = chunk_of(bytes(data), 0)
    assert [record.offset for record in chunk.take(10)] == [0, 1]
    assert chunk.next_offset == 2
