"""Bytes of kept lag: what was written is read, and what was damaged or cut is noticed."""

import json
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings

from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_SHARD_SERIES
from services.lagmon.kept.chunks import Chunk, Damaged, chunk_of, encode_chunk, encode_entry, read_journal
from services.lagmon.kept.reading import ChunkFile
from services.lagmon.kept.rows import Column, Flag, SeriesKey, Step
from tests.support.examples import examples
from tests.unit.lagmon.kept.kept_steps import START_MS, histories, known, same, step_of, steps_of


def _opened(data: bytes) -> Chunk:
    return ChunkFile(lambda offset, size: data[offset : offset + size]).whole()


def _journal(steps: list[Step]) -> list[bytes]:
    return [encode_entry(step, steps[at - 1] if at else None) for at, step in enumerate(steps)]


@given(histories(most=20))
@settings(max_examples=examples(50))
def test_a_chunk_is_read_as_it_was_written(steps: list[Step]) -> None:
    chunk = chunk_of(steps)
    found = _opened(encode_chunk(chunk))
    assert (found.times_ms, found.stepped, found.origins) == (chunk.times_ms, chunk.stepped, chunk.origins)
    assert tuple(found.keys) == tuple(chunk.keys)
    assert np.array_equal(found.columns, chunk.columns)


def test_files_of_earlier_releases_are_read() -> None:
    golden = Path("tests/golden/kept")
    chunk = _opened((golden / "chunk-1.lag").read_bytes())
    steps, whole = read_journal((golden / "journal-1.journal").read_bytes())
    assert whole == (golden / "journal-1.journal").stat().st_size
    wanted = steps_of(4)
    for step in wanted:  # they kept no smallest age
        step.columns[Column.FLAGS] &= ~np.int64(Flag.SMALLEST)
        step.columns[Column.MIN_MS] = 0
    assert all(same(one, other) for one, other in zip(steps, wanted, strict=True))
    assert chunk.keys == wanted[0].keys
    assert np.array_equal(chunk.columns, chunk_of(wanted).columns)


def test_series_beyond_a_shard_are_in_the_next() -> None:
    keys = [SeriesKey(f"g{number:04}", "logs", "live") for number in range(KEPT_LAG_SHARD_SERIES * 2 + 1)]
    chunk = chunk_of([step_of(START_MS, {key: known(at, at) for at, key in enumerate(keys)})])
    data = encode_chunk(chunk)
    file = ChunkFile(lambda offset, size: data[offset : offset + size])
    assert [shard.series for shard in file.header.shards] == [512, 512, 1]
    assert file.whole().keys == chunk.keys
    assert np.array_equal(file.read(keys[600:601]).columns[keys[600]], chunk.columns[:, 600])


def test_any_changed_byte_of_a_chunk_is_noticed() -> None:
    data = encode_chunk(chunk_of(steps_of(3)))
    for at in range(len(data)):
        with pytest.raises(Damaged):
            _opened(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_chunk_cut_anywhere_is_noticed() -> None:
    data = encode_chunk(chunk_of(steps_of(3)))
    for at in range(len(data)):
        with pytest.raises(Damaged):
            _opened(data[:at])


def test_a_journal_cut_anywhere_gives_its_whole_steps() -> None:
    steps = steps_of(4)
    entries = _journal(steps)
    ends = [0, *accumulate(map(len, entries))]
    data = b"".join(entries)
    for size in range(len(data) + 1):
        found, whole = read_journal(data[:size])
        count = sum(end <= size for end in ends) - 1
        assert whole == ends[count]
        assert len(found) == count
        assert all(map(same, found, steps))


def test_a_changed_byte_ends_a_journal_before_it() -> None:
    steps = steps_of(3)
    entries = _journal(steps)
    data = b"".join(entries)
    for at in range(len(data)):
        found, _ = read_journal(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert len(found) == sum(end <= at for end in accumulate(map(len, entries)))


@given(histories(most=20))
@settings(max_examples=examples(50))
def test_a_journal_is_read_as_it_was_written(steps: list[Step]) -> None:
    found, _ = read_journal(b"".join(_journal(steps)))
    assert len(found) == len(steps)
    assert all(map(same, found, steps))


def test_steps_with_the_same_series_name_them_once() -> None:
    first, second = _journal(steps_of(2))
    head = json.dumps(steps_of(1)[0].keys, separators=(",", ":")).encode()
    plain = zstandard.ZstdDecompressor()
    assert head in plain.decompress(first[8:])
    assert head not in plain.decompress(second[8:])
