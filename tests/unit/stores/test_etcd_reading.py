"""Histories put together from what their keys hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import CorruptHistory
from braid.kernel.ports import HistoryId, Loaded, Snapshot
from braid.stores.etcd import reading
from braid.stores.etcd.reading import StoredHistory
from braid.stores.etcd_wire import stored_pb2 as stored

LOGS = HistoryId("registry", "stream", "logs")


def _head(sequence: int) -> bytes:
    return stored.StoredHead(sequence=sequence).SerializeToString()


def _batch(first: int, count: int) -> bytes:
    events = [b"%d" % number for number in range(first, first + count)]
    return stored.StoredBatch(first=first, events=events).SerializeToString()


def _pinned(head: int, batches: list[bytes], snapshot: Snapshot | None = None, chunk_bytes: int = 3) -> StoredHistory:
    chunks = reading.split(snapshot.data, chunk_bytes) if snapshot else ()
    manifest = reading.describe_snapshot(snapshot, "u", len(chunks)).SerializeToString() if snapshot else None
    return StoredHistory(LOGS, 9, _head(head) if head else None, manifest, chunks, batches)


def test_what_was_never_appended_to_is_empty() -> None:
    assert reading.assemble(_pinned(0, [])) == Loaded(None, 1, [], 0, 9)


def test_snapshot_and_tail_join_also_within_a_batch() -> None:
    snapshot = Snapshot(4, b"state at 4")
    loaded = reading.assemble(_pinned(7, [_batch(3, 3), _batch(6, 2)], snapshot))
    assert loaded == Loaded(snapshot, 5, [b"5", b"6", b"7"], 7, 9)


@pytest.mark.parametrize(
    ("head", "batches"),
    [
        pytest.param(3, [_batch(2, 2)], id="the first is missing"),
        pytest.param(5, [_batch(1, 2), _batch(4, 2)], id="one in the middle is missing"),
        pytest.param(5, [_batch(1, 4)], id="the last is missing"),
        pytest.param(1, [_batch(1, 2)], id="the head is behind"),
        pytest.param(3, [_batch(1, 2), _batch(2, 2)], id="one is double"),
        pytest.param(0, [_batch(1, 1)], id="the head is missing"),
        pytest.param(2, [_batch(1, 2)[:-1]], id="a batch is cut"),
    ],
)
def test_a_tail_that_is_not_whole_is_corrupt(head: int, batches: list[bytes]) -> None:
    with pytest.raises(CorruptHistory):
        reading.assemble(_pinned(head, batches))


def test_a_snapshot_that_is_not_whole_is_corrupt() -> None:
    whole = _pinned(4, [], Snapshot(4, b"state at 4"))
    assert reading.assemble(whole).snapshot == Snapshot(4, b"state at 4")
    for chunks in (whole.chunks[:-1], [*whole.chunks[:-1], b"5"], [*whole.chunks, b""], whole.chunks[::-1]):
        with pytest.raises(CorruptHistory, match="not whole"):
            reading.assemble(whole._replace(chunks=chunks))


def test_a_snapshot_beyond_the_head_is_corrupt() -> None:
    with pytest.raises(CorruptHistory):
        reading.assemble(_pinned(3, [], Snapshot(4, b"x")))


@given(st.binary(max_size=50), st.integers(1, 20))
def test_chunks_are_bounded_and_join_to_the_whole(data: bytes, size_bytes: int) -> None:
    chunks = reading.split(data, size_bytes)
    assert b"".join(chunks) == data
    assert all(0 < len(chunk) <= size_bytes for chunk in chunks)
