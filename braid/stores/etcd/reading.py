"""Assembles a history from the values of its keys, and cuts snapshots into chunks. Pure."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from braid.kernel.errors import CorruptHistory
from braid.kernel.ports import HistoryId, Loaded, Snapshot
from braid.stores.batches import whole_tail
from braid.stores.etcd_wire import stored_pb2 as stored

M = TypeVar("M", bound=Message)


class StoredHistory(NamedTuple):
    """Everything kept of a history at one revision; values as stored, None for a key that does not exist."""

    history: HistoryId
    revision: int
    head: bytes | None
    manifest: bytes | None
    chunks: Sequence[bytes]
    batches: Sequence[bytes]


def assemble(pinned: StoredHistory) -> Loaded:
    """Joins snapshot and tail.

    Raises:
        CorruptHistory: the snapshot is not whole, the tail has a hole or misses the head, or a value does not decode.
    """
    snapshot = _join(pinned)
    sequence = decode(stored.StoredHead, pinned.head or b"").sequence
    batches = [decode(stored.StoredBatch, value) for value in pinned.batches]
    events = whole_tail(pinned.history, snapshot, ((batch.first, batch.events) for batch in batches), sequence)
    first = snapshot.sequence + 1 if snapshot else 1
    return Loaded(snapshot, first, events, sequence, pinned.revision)


def decode(kind: type[M], value: bytes) -> M:
    """Reads a stored value. Raises `CorruptHistory` when it does not decode."""
    try:
        return kind.FromString(value)
    except DecodeError as error:
        raise CorruptHistory(f"{len(value)} bytes in etcd are no {kind.DESCRIPTOR.name}: {error}") from error


def split(data: bytes, size_bytes: int) -> Sequence[bytes]:
    """Cuts a snapshot into chunks; an empty snapshot has none."""
    return [data[start : start + size_bytes] for start in range(0, len(data), size_bytes)]


def describe_snapshot(snapshot: Snapshot, upload: str, chunks: int) -> stored.StoredManifest:
    """Builds the manifest of a snapshot in so many chunks."""
    return stored.StoredManifest(
        sequence=snapshot.sequence,
        upload=upload,
        chunks=chunks,
        size_bytes=len(snapshot.data),
        crc32=zlib.crc32(snapshot.data),
    )


def _join(pinned: StoredHistory) -> Snapshot | None:
    if pinned.manifest is None:
        return None
    manifest = decode(stored.StoredManifest, pinned.manifest)
    data = b"".join(pinned.chunks)
    whole = len(pinned.chunks) == manifest.chunks and len(data) == manifest.size_bytes
    if not whole or zlib.crc32(data) != manifest.crc32:
        raise CorruptHistory(f"the snapshot of history {pinned.history} at {manifest.sequence} is not whole")
    return Snapshot(manifest.sequence, data)
