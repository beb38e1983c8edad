"""Large batches come in pieces, and bring what they would bring as a whole, in the memory of a piece."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.batches import large as large_module
from braid.kafka.batches.batch import Inflater
from braid.kafka.batches.large import whole_records
from braid.kafka.fetching import chunk as chunk_module
from braid.kafka.fetching.chunk import Chunk
from braid.kernel.limits.kafka import INFLATED_RECORD_BYTES_MAX
from braid.kernel.ports import DamagedBatch, Isolation, TopicPartition
from testbed.batches import CODECS, NAMES, batch, packed, packed_pieces, raw_batch, record_bytes, record_head

ROOT: Final = Path(__file__).parents[4]
MIB: Final = 1 << 20
GROWTH_BYTES: Final = 24 * MIB

Found = tuple[list[tuple[int, bytes | None]], list[DamagedBatch], int]


def chunk_of(data: bytes, offset: int = 0) -> Chunk:
    return Chunk(TopicPartition("large", 0), offset, data, (), Isolation.READ_COMMITTED, end=1 << 40, suspect=offset)


def drained(chunk: Chunk, limit: int, *, columns: bool) -> Found:
    """All that a chunk brings: offsets with values, damage, and where it ends."""
    rows: list[tuple[int, bytes | None]] = []
    damaged: list[DamagedBatch] = []
    while not chunk.used_up:
        if chunk.large:
            chunk.open_large()
        before = chunk.next_offset
        if columns:
            taken = chunk.take_columns(limit, Inflater(), [])
            for part in taken.parts:
                rows += [(int(at), part.cell(part.values, row)) for row, at in enumerate(part.offsets)]
            damaged += taken.damaged
        else:
            plain = chunk.take(limit, Inflater())
            rows += [(record.offset, record.value) for record in plain.records]
            damaged += plain.damaged
        assert chunk.next_offset >= before
    return rows, damaged, chunk.next_offset


def in_pieces(data: bytes, piece: int, offset: int = 0, limit: int = 100, *, columns: bool = False) -> Found:
    """The same where every batch is a large one, and a piece has so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_module, "INFLATED_INLINE_BYTES_MAX", 0)
        patch.setattr(large_module, "LARGE_PIECE_BYTES", piece)
        return drained(chunk_of(data, offset), limit, columns=columns)


def told(damaged: Sequence[DamagedBatch]) -> list[tuple[int, int]]:
    return [(each.first_offset, each.last_offset) for each in damaged]


def same_in_pieces(data: bytes, piece: int, offset: int = 0, limit: int = 100) -> Found:
    """Records and columns, in pieces and as a whole, are the same."""
    wanted = drained(chunk_of(data, offset), limit, columns=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("braid.kafka.batches.batch.COLUMN_RECORDS_MIN", 1)
        for columns in (False, True):
            found = in_pieces(data, piece, offset, limit, columns=columns)
            assert found[0] == wanted[0]
            assert told(found[1]) == told(wanted[1])
            assert found[2] == wanted[2]
    return wanted


sizes = st.one_of(st.integers(0, 40), st.sampled_from([56, 57, 58, 63, 64, 65, 300, 1_000]))
pieces = st.integers(62, 700)
codecs = st.sampled_from(CODECS)


@given(
    values=st.lists(st.tuples(st.integers(1, 3), sizes), min_size=1, max_size=60),
    codec=codecs,
    piece=pieces,
    skip=st.integers(0, 130),
    limit=st.integers(1, 50),
)
def test_pieces_bring_what_the_whole_brings(
    values: list[tuple[int, int]], codec: int, piece: int, skip: int, limit: int
) -> None:
    plain, delta = b"", -1
    for step, size in values:
        delta += step
        plain += record_bytes(delta, bytes([delta % 256]) * size)
    data = raw_batch(5, delta + 3, packed(codec, plain), codec, count=len(values)) + batch(5 + delta + 3, 2)
    rows, damaged, end = same_in_pieces(data, piece, min(skip, delta + 7), limit)
    assert (damaged, end) == ([], delta + 10)
    if not skip:
        assert len(rows) == len(values) + 2


@given(
    count=st.integers(0, 12),
    said=st.integers(0, 14),
    noise=st.one_of(st.just(b""), st.binary(max_size=30)),
    at=st.integers(0, 400),
    codec=codecs,
    piece=pieces,
    limit=st.integers(1, 20),
)
def test_pieces_tell_the_damage_that_the_whole_tells(
    count: int, said: int, noise: bytes, at: int, codec: int, piece: int, limit: int
) -> None:
    """For records in a wrong order, only the same piece is compared: the order across pieces may differ."""
    plain = bytearray(b"".join(record_bytes(delta, bytes(delta * 5)) for delta in range(count)))
    plain[at : at + len(noise)] = noise
    data = raw_batch(0, 15, packed(codec, bytes(plain)), codec, count=said) + batch(15, 2)
    whole = drained(chunk_of(data), limit, columns=False)
    found = in_pieces(data, piece, limit=limit)
    assert found[0][-2:] == [(15, b"15"), (16, b"16")], "what follows was not reached"
    if any("order" in each.why for each in (*whole[1], *found[1])):
        assert [at for at, _ in found[0]] == sorted({at for at, _ in found[0]})
    else:
        assert (found[0], told(found[1]), found[2]) == (whole[0], told(whole[1]), whole[2])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("said", [0, 7, 9, 11, 500])
def test_a_false_record_count_is_trusted_as_far_as_records_go(codec: int, said: int) -> None:
    plain = b"".join(record_bytes(delta, bytes(50)) for delta in range(9))
    data = raw_batch(0, 12, packed(codec, plain), codec, count=said) + batch(12, 1)
    rows, damaged, end = in_pieces(data, 200)
    there = min(said, 9)
    assert [at for at, _ in rows] == [*range(there), 12]
    assert told(damaged) == ([] if said == 9 else [(there, 11)])
    assert end == 13


@pytest.mark.parametrize("codec", CODECS[1:])
def test_of_data_that_were_cut_comes_what_lies_before(codec: int) -> None:
    whole = packed_pieces(codec, [record_bytes(at, at.to_bytes(2, "big") * 9_000) for at in range(200)])
    data = raw_batch(0, 200, whole[: len(whole) * 3 // 4], codec) + batch(200, 1)
    rows, damaged, _ = in_pieces(data, 100_000)
    offsets = [at for at, _ in rows]
    assert offsets == [*range(len(offsets) - 1), 200]
    assert len(offsets) > 50
    assert told(damaged) == [(len(offsets) - 1, 199)]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_before_one_that_is_too_large_are_delivered(codec: int) -> None:
    """The size that it says is enough: nothing is inflated for it."""
    honest = b"".join(record_bytes(at, bytes(MIB)) for at in range(3))
    plain = honest + record_head(3, INFLATED_RECORD_BYTES_MAX) + bytes(1_000)
    data = raw_batch(10, 9, packed(codec, plain), codec) + batch(19, 1)
    rows, damaged, end = drained(chunk_of(data), 100, columns=True)
    assert ([at for at, _ in rows], end) == ([10, 11, 12, 19], 20)
    assert told(damaged) == [(13, 18)]
    assert damaged[0].why.startswith(f"bomb: {len(data) - len(batch(19, 1))} bytes of {NAMES[codec]} hold a record of")


def test_pieces_in_another_order_are_damage() -> None:
    plain = b"".join(record_bytes(at, bytes(50)) for at in (0, 1, 2, 3, 1, 5))
    rows, damaged, _ = in_pieces(raw_batch(0, 6, packed(4, plain), 4), 61 + 2 * len(record_bytes(0, bytes(50))))
    assert [at for at, _ in rows] == [0, 1, 2, 3]
    assert told(damaged) == [(4, 5)]
    assert "order" in damaged[0].why


def test_a_flood_of_parts_without_content_ends() -> None:
    empty = bytes(cramjam.gzip.compress(b""))
    data = raw_batch(0, 2, empty * 70_000, 1) + batch(2, 1)
    rows, damaged, _ = in_pieces(data, 1_000)
    assert ([at for at, _ in rows], told(damaged)) == ([2], [(0, 1)])


def test_a_restart_in_the_middle_brings_the_rest() -> None:
    plain = b"".join(record_bytes(at, bytes(1_000)) for at in range(9_000))
    for columns in (True, False):
        rows, damaged, end = drained(chunk_of(raw_batch(0, 9_000, packed(4, plain), 4), 7_777), 2_000, columns=columns)
        assert ([at for at, _ in rows], damaged, end) == (list(range(7_777, 9_000)), [], 9_000)


def test_a_batch_that_is_not_for_the_caller_is_passed_at_once() -> None:
    aborted = raw_batch(0, 9_000, packed(4, b"".join(record_bytes(at, bytes(1_000)) for at in range(9_000))), 0x14)
    data = bytearray(aborted)
    chunk = Chunk(
        TopicPartition("large", 0), 0, bytes(data) + batch(9_000, 1), [(-1, 0)], Isolation.READ_COMMITTED, end=1
    )
    rows, damaged, _ = drained(chunk, 100, columns=True)
    assert ([at for at, _ in rows], damaged) == ([9_000], [])


@given(data=st.binary(max_size=200), most=st.integers(0, 40), at=st.integers(0, 3))
def test_whole_records_lie_inside(data: bytes, most: int, at: int) -> None:
    count, end = whole_records(memoryview(data), at, most)
    assert 0 <= count <= most
    assert at <= end <= max(at, len(data))


# --- memory


class Cost(NamedTuple):
    """The report of a reader process."""

    records: int
    in_order: bool
    damaged: int
    grown_bytes: int


def records_of_zeros(count: int) -> Iterator[bytes]:
    zeros = bytes(1_024)
    for at in range(0, count, 1_024):
        yield b"".join(record_bytes(delta, zeros) for delta in range(at, min(count, at + 1_024)))


def cost_of(path: Path, count: int, *more: str) -> Cost:
    command = [sys.executable, "-m", "tests.support.large_reader", str(path), str(count), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return Cost(*json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("codec", CODECS[1:])
def test_an_honest_batch_of_200_mib_costs_the_memory_of_a_piece(codec: int, tmp_path: Path) -> None:
    count = 200 << 10
    path = tmp_path / "batch"
    path.write_bytes(raw_batch(0, count, packed_pieces(codec, records_of_zeros(count)), codec))
    cost = cost_of(path, count)
    sys.stdout.write(f"{NAMES[codec]}: {path.stat().st_size:,} bytes: memory +{cost.grown_bytes / MIB:.1f} MiB\n")
    assert cost[:3] == (count, True, 0)
    assert cost.grown_bytes < GROWTH_BYTES


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_memory_of_a_batch_inflated_as_a_whole_would_be_seen(tmp_path: Path) -> None:
    count = 40 << 10
    path = tmp_path / "batch"
    path.write_bytes(raw_batch(0, count, packed_pieces(4, records_of_zeros(count)), 4))
    assert cost_of(path, count, str(INFLATED_RECORD_BYTES_MAX)).grown_bytes > GROWTH_BYTES
