"""Fetched bytes: any limit gives the same records, any start skips the same ones, and damage is told, not guessed."""

from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.util import decode_varint_py
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.batches.batch import Inflater
from braid.kafka.fetching.chunk import Chunk
from braid.kernel.limits.kafka import INFLATED_INLINE_BYTES_MAX, RECORD_HEADERS_MAX
from braid.kernel.ports import DamagedBatch, Isolation, KafkaRecord, TopicPartition
from testbed.batches import CODECS, batch, packed, raw_batch, record_bytes

PARTITION = TopicPartition("logs", 3)
_CHECKSUM_AT = 17  # in a batch; it covers everything after itself


def chunk_of(data: bytes, offset: int, *, suspect: int | None = None, end: int = 1_000) -> Chunk:
    return Chunk(PARTITION, offset, data, (), Isolation.READ_COMMITTED, end=end, suspect=suspect)


def drain(chunk: Chunk, limit: int = 100) -> tuple[list[KafkaRecord], list[DamagedBatch]]:
    """Takes until the chunk is used up; large batches are opened here and now."""
    records: list[KafkaRecord] = []
    damaged: list[DamagedBatch] = []
    while not chunk.used_up:
        if chunk.large:
            chunk.open_large()
        fetched = chunk.take(limit, Inflater())
        assert len(fetched.records) + len(fetched.damaged) <= limit
        records += fetched.records
        damaged += fetched.damaged
        assert chunk.next_offset >= (records[-1].offset + 1 if records else 0)
        assert fetched.next_offset == chunk.next_offset
    return records, damaged


def told(damaged: Sequence[DamagedBatch]) -> list[tuple[int, int]]:
    return [(each.first_offset, each.last_offset) for each in damaged]


@given(
    counts=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    gap=st.integers(0, 3),
    skip=st.integers(0, 12),
    limit=st.integers(1, 20),
    codec=st.sampled_from(CODECS),
)
def test_any_limit_and_any_start(counts: list[int], gap: int, skip: int, limit: int, codec: int) -> None:
    offsets: list[int] = []
    data, base = b"", 0
    for count in counts:
        data += batch(base, count, codec)
        offsets += range(base, base + count)
        base += count + gap
    end = base - gap
    skip = min(skip, end)
    chunk = chunk_of(data, skip)
    records, damaged = drain(chunk, limit)
    assert damaged == []
    assert [record.offset for record in records] == [offset for offset in offsets if offset >= skip]
    assert [record.value for record in records] == [f"{record.offset}".encode() for record in records]
    assert chunk.next_offset == end


def test_columns_made_of_objects_keep_them() -> None:
    parts = chunk_of(batch(0, 5) + batch(5, 2), 0).take_columns(1_000, Inflater(), []).parts
    assert [at for part in parts for at in part.offsets.tolist()] == list(range(7))
    for part in parts:
        assert part.tails is None, "so few are read one by one"
        assert [record.offset for record in part.raws] == part.offsets.tolist()


def test_a_whole_take_ends_between_batches_or_cuts_the_first() -> None:
    chunk, sizes = chunk_of(batch(0, 900) + batch(900, 900) + batch(1_800, 900) + batch(2_700, 2_500), 0), []
    while not chunk.used_up:
        sizes.append([len(part) for part in chunk.take_columns(2_000, Inflater(), [], whole=True).parts])
    assert sizes == [[1_800], [900], [2_000], [500]]


def test_a_start_inside_a_batch_never_moves_back() -> None:
    chunk = chunk_of(batch(0, 10), 9)
    assert [record.offset for record in chunk.take(2, Inflater()).records] == [9]
    assert chunk.next_offset == 10


@pytest.mark.parametrize("left", [1, 11, 12, 20, 60])
def test_a_half_batch_at_the_end_is_left_for_later(left: int) -> None:
    chunk = chunk_of(batch(0, 2) + batch(2, 2)[:left], 0)
    records, damaged = drain(chunk, 10)
    assert (len(records), damaged, chunk.next_offset) == (2, [], 2)
    assert chunk.suspect is None
    assert chunk.failure is None


def test_a_batch_that_is_all_below_the_position_is_passed() -> None:
    chunk = chunk_of(batch(0, 3) + batch(3, 2), 3)
    records, damaged = drain(chunk)
    assert ([record.offset for record in records], damaged) == ([3, 4], [])


# --- damage


@given(at=st.integers(0, 200), bit=st.integers(0, 7), codec=st.sampled_from(CODECS))
def test_a_flipped_bit_is_fetched_again_then_reported_as_damage(at: int, bit: int, codec: int) -> None:
    data = bytearray(batch(0, 2) + batch(2, 5, codec) + batch(7, 2))
    first, end = len(batch(0, 2)), len(data) - len(batch(7, 2))
    covered = first + _CHECKSUM_AT
    data[covered + at % (end - covered)] ^= 1 << bit
    chunk = chunk_of(bytes(data), 0)
    records, damaged = drain(chunk)
    assert ([record.offset for record in records], damaged) == ([0, 1], [])
    assert chunk.suspect == chunk.next_offset == 2

    again = chunk_of(bytes(data)[first:], 2, suspect=chunk.suspect)
    records, damaged = drain(again)
    assert [record.offset for record in records] == [7, 8]
    assert told(damaged) == [(2, 6)]
    assert "checksum" in damaged[0].why
    assert again.next_offset == 9
    assert again.suspect is None


def test_damage_from_the_way_only_is_whole_the_second_time() -> None:
    chunk = chunk_of(batch(2, 5), 2, suspect=2)
    records, damaged = drain(chunk)
    assert (len(records), damaged) == (5, [])


@pytest.mark.parametrize("field_at", [23, 26, 57, 60])  # last offset's delta, record count
@pytest.mark.parametrize("bit", range(8))
def test_a_head_that_lies_passes_no_sound_record(field_at: int, bit: int) -> None:
    data = bytearray(batch(0, 5))
    data[field_at] ^= 1 << bit
    chunk = chunk_of(bytes(data), 0, suspect=0, end=40)
    _, damaged = drain(chunk)
    assert damaged[0].first_offset == 0
    assert 0 <= damaged[0].last_offset <= 4
    followed = chunk_of(bytes(data) + batch(9, 1), 0, suspect=0, end=40)
    records, damaged = drain(followed)
    assert [record.offset for record in records] == [9]
    assert told(damaged) == [(0, 8)]


def test_so_much_of_a_damaged_batch_is_told_as_is_wanted() -> None:
    data = raw_batch(0, 3, b"garbage", 4)
    for kept, told_bytes in ((0, b""), (10, data[:10]), (1_000, data)):
        chunk = Chunk(PARTITION, 0, data, (), Isolation.READ_COMMITTED, end=3, keep_damaged_bytes=kept)
        [damaged] = drain(chunk)[1]
        assert (damaged.raw, damaged.size_bytes) == (told_bytes, len(data))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_garbage_under_a_right_checksum_is_damage_at_once(codec: int) -> None:
    garbage = raw_batch(2, 5, bytes(range(7, 200)), codec)
    records, damaged = drain(chunk_of(batch(0, 2) + garbage + batch(7, 1), 0))
    assert [record.offset for record in records] == [0, 1, 7]
    assert told(damaged) == [(2, 6)]
    assert damaged[0].attributes == codec
    assert damaged[0].size_bytes == len(garbage)


@pytest.mark.parametrize("codec", CODECS)
def test_half_a_batchs_records_are_delivered_and_the_rest_damage(codec: int) -> None:
    plain = b"".join(record_bytes(at, b"v") for at in range(3)) + b"\xff" * 20
    records, damaged = drain(chunk_of(raw_batch(0, 6, packed(codec, plain), codec) + batch(6, 1), 0))
    assert [record.offset for record in records] == [0, 1, 2, 6]
    assert told(damaged) == [(3, 5)]


@pytest.mark.parametrize(
    ("what", "plain", "count"),
    [
        ("more records than there can be", record_bytes(0, b"v"), (1 << 31) - 1),
        ("fewer records than none", record_bytes(0, b"v"), -1),
        ("a value of nearly 2^63 bytes", bytes([40, 0, 0, 0, 1]) + b"\xfe" + b"\xff" * 8 + b"\x01" + bytes(20), 1),
        ("a value near the sum's overflow", bytes([40, 0, 0, 0, 1]) + b"\x80" + b"\xff" * 8 + b"\x01" + bytes(20), 1),
        ("a number without end", b"\xff" * 30, 1),
        ("records out of order", record_bytes(1, b"v") + record_bytes(0, b"v"), 2),
        ("an offset of another batch", record_bytes(90, b"v"), 1),
        ("headers that are no text", record_bytes(0, b"v", [(b"\xff\xfe", b"")]), 1),
        ("nothing at all", b"", 1),
    ],
)
@pytest.mark.parametrize("codec", CODECS)
def test_hostile_records(what: str, plain: bytes, count: int, codec: int) -> None:
    data = raw_batch(0, 2, packed(codec, plain), codec, count=count)
    records, damaged = drain(chunk_of(data + batch(2, 1), 0))
    assert records[-1].offset == 2
    assert told(damaged)[-1][1] == 1, what


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_no_record_recurs_where_offsets_go_back_between_takes(limit: int) -> None:
    data = raw_batch(0, 9, b"".join(record_bytes(at, b"v") for at in (0, 1, 2, 1, 5)))
    records, damaged = drain(chunk_of(data + batch(9, 1), 0), limit)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 9
    assert told(damaged)[0][1] == 8


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_other_message_formats_are_refused(magic: int) -> None:
    data = bytearray(batch(0, 1))
    data[16] = magic
    records, damaged = drain(chunk_of(bytes(data) + batch(1, 1), 0))
    assert [record.offset for record in records] == [1]
    assert told(damaged) == [(0, 0)]
    assert f"format {magic}" in damaged[0].why


@pytest.mark.parametrize("length", [-1, 0, 13, 48, 2_000_000_000])
def test_bytes_that_are_no_batch_are_fetched_again_then_reported(length: int) -> None:
    data = bytearray(batch(0, 3))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    chunk = chunk_of(bytes(data), 0)
    assert drain(chunk) == ([], [])
    assert (chunk.suspect, chunk.failure) == (0, None)
    again = chunk_of(bytes(data), 0, suspect=0)
    assert drain(again) == ([], [])
    assert again.failure is not None
    assert again.failure.metadata == {"topic": "logs", "partition": "3", "offset": "0"}


@given(data=st.binary(max_size=400), at=st.integers(0, 400))
def test_noise_in_a_batch_never_escapes(data: bytes, at: int) -> None:
    """The batch may hold anything: what is delivered is in order, and the rest is told or asked for again."""
    whole = bytearray(batch(0, 9))
    whole[at : at + len(data)] = data
    chunk = chunk_of(bytes(whole), 0, suspect=0)
    records, damaged = drain(chunk)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert all(first <= last < chunk.next_offset for first, last in told(damaged))


# --- bombs


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_is_told_and_its_neighbours_are_delivered(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.kafka.batches.large.INFLATED_RECORD_BYTES_MAX", 3 << 20)
    bomb = raw_batch(1, 1, packed(codec, record_bytes(0, bytes(4 << 20))), codec)
    chunk = chunk_of(batch(0, 1) + bomb + batch(2, 1), 0)
    records, damaged = drain(chunk)
    assert [record.offset for record in records] == [0, 2]
    assert told(damaged) == [(1, 1)]
    assert damaged[0].why.startswith("bomb:")


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_honest_batch_is_opened_beside_the_event_loop(codec: int) -> None:
    value = bytes(INFLATED_INLINE_BYTES_MAX + 1)
    chunk = chunk_of(raw_batch(0, 1, packed(codec, record_bytes(0, value)), codec), 0)
    assert chunk.take(10, Inflater()).records == []
    assert chunk.large
    records, damaged = drain(chunk)
    assert ([record.value for record in records], damaged) == ([value], [])


@pytest.mark.parametrize("codec", CODECS)
def test_one_turn_opens_only_so_much(codec: int) -> None:
    each = packed(codec, record_bytes(0, bytes(700_000)))
    chunk = chunk_of(b"".join(raw_batch(at, 1, each, codec) for at in range(6)), 0)
    assert len(chunk.take(100, Inflater()).records) == 2
    assert not chunk.used_up
    assert len(drain(chunk)[0]) == 4


def test_headers_that_would_fill_memory_are_damage() -> None:
    few = [(b"h", b"")] * RECORD_HEADERS_MAX
    fine, flood = record_bytes(0, bytes(1 << 20), few), record_bytes(1, b"", [*few, (b"h", b"")])
    records, damaged = drain(chunk_of(raw_batch(0, 3, fine + flood + record_bytes(2, b"")), 0))
    assert [record.offset for record in records] == [0]
    assert told(damaged) == [(1, 2)]
    assert "headers" in damaged[0].why


@pytest.mark.parametrize("codec", CODECS[1:])
def test_aiokafka_s_own_decompressors_are_never_called(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control first: they would be called, by these names, if a compressed batch reached aiokafka's reader."""

    def called(*_: object) -> bytes:
        raise RuntimeError("aiokafka's own decompressor, which knows no bound")

    for module in ("aiokafka.record._crecords.default_records", "aiokafka.record.default_records", "aiokafka.codec"):
        for name in ("gzip", "snappy", "lz4", "zstd"):
            monkeypatch.setattr(f"{module}.{name}_decode", called)
    with pytest.raises(RuntimeError, match="own decompressor"):
        list(DefaultRecordBatch(batch(0, 3, codec)))
    for data in (batch(0, 3, codec), raw_batch(0, 1, packed(codec, record_bytes(0, bytes(3 << 20))), codec)):
        records, damaged = drain(chunk_of(data, 0))
        assert records
        assert damaged == []


def test_the_pure_reader_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka has a second reader, for where its extension is missing: and then its numbers are read in Python too.

    Those of the extension look at no bound, which ended this test by SIGSEGV once in a dozen runs.
    """
    monkeypatch.setattr(_DefaultRecordBatchPy._read_msg, "__defaults__", (decode_varint_py,))
    monkeypatch.setattr("braid.kafka.batches.batch.DefaultRecordBatch", _DefaultRecordBatchPy)
    for codec in CODECS:
        records, damaged = drain(chunk_of(batch(0, 9, codec) + raw_batch(9, 1, b"?", codec) + batch(10, 1), 0))
        assert [record.offset for record in records] == [*range(9), 10]
        assert told(damaged) == [(9, 9)]
