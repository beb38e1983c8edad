"""The exact set: chunks of any shape survive storage, and each sequence is admitted once."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Refused
from pipelines.table import seen
from pipelines.table.identity import CHUNK_SEQUENCES

LOWS = st.lists(st.integers(0, CHUNK_SEQUENCES - 1), max_size=300)
SPANS = st.lists(st.tuples(st.integers(0, CHUNK_SEQUENCES - 1), st.integers(1, 9_000)), max_size=12)


def chunk_of(lows: list[int], spans: list[tuple[int, int]]) -> seen.Bits:
    chunk = seen.nothing_seen()
    chunk[lows] = True
    for start, length in spans:
        chunk[start : start + length] = True
    return chunk


@given(LOWS, SPANS)
def test_a_chunk_survives_storage(lows: list[int], spans: list[tuple[int, int]]) -> None:
    chunk = chunk_of(lows, spans)
    stored = seen.encode(chunk)
    assert len(stored) <= seen.CHUNK_BYTES_MAX
    assert np.array_equal(seen.decode(stored), chunk)


@pytest.mark.parametrize(("step", "size"), [(1, 4), (2, seen.CHUNK_BYTES_MAX), (64, 4 * 1_024)])
def test_a_chunk_costs_what_the_docstring_says(step: int, size: int) -> None:
    chunk = seen.nothing_seen()
    chunk[::step] = True
    assert len(seen.encode(chunk)) == size


@given(st.lists(LOWS, max_size=5))
def test_each_sequence_is_admitted_once_over_all_batches(batches: list[list[int]]) -> None:
    chunk, admitted = seen.nothing_seen(), []
    for batch in batches:
        lows = np.array(sorted(batch), dtype=np.int64)
        admitted += lows[seen.admit(chunk, lows)].tolist()
        chunk = seen.decode(seen.encode(chunk))
    assert sorted(admitted) == sorted({low for batch in batches for low in batch})


@pytest.mark.parametrize("stored", [b"\0", b"\1\0\0\0", b"\0\0\5\0\3\0\6\0", bytes(seen.CHUNK_BYTES_MAX + 4)])
def test_damage_is_refused(stored: bytes) -> None:
    with pytest.raises(Refused, match="damaged"):
        seen.decode(stored)


@given(st.binary(max_size=64))
def test_hostile_bytes_give_a_chunk_or_a_refusal(stored: bytes) -> None:
    with contextlib.suppress(Refused):
        assert seen.decode(stored).shape == (CHUNK_SEQUENCES,)
