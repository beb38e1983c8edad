"""Histories, snapshots and watches in SQLite, within one transaction. Nothing here begins or ends one."""

import sqlite3
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from braid.kernel.errors import Compacted, Conflict, CorruptHistory, Fenced, Invalid
from braid.kernel.limits.store import WATCH_KEEP_REVISIONS, WATCH_PAGE_BATCHES
from braid.kernel.ports import Appended, EventBatch, Fence, HistoryId, Loaded, Snapshot
from braid.stores.batches import whole_tail
from braid.stores.sqlite_process import boot_id

_LENGTH: Final = struct.Struct(">I")
_OF_HISTORY: Final = "service = ? AND kind = ? AND id = ?"


def read_mesh(connection: sqlite3.Connection) -> str:
    """Reads the id of the mesh; '' before one was made.

    Earlier releases have no table for it, and ignore one.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mesh'").fetchone() is None:
        return ""
    row = connection.execute("SELECT mesh FROM mesh").fetchone()
    return str(row[0]) if row else ""


def make_mesh(connection: sqlite3.Connection, fresh: str) -> str:
    """Returns the id of the mesh; stores the given one if there was none yet."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS mesh (id INTEGER PRIMARY KEY CHECK (id = 1), mesh TEXT NOT NULL) STRICT"
    )
    connection.execute("INSERT OR IGNORE INTO mesh VALUES (1, ?)", (fresh,))
    return read_mesh(connection)


def read_incarnation(connection: sqlite3.Connection) -> int:
    """The store's incarnation."""
    (incarnation,) = connection.execute("SELECT incarnation FROM store").fetchone()
    return int(incarnation)


def read_revision(connection: sqlite3.Connection) -> int:
    """The store's revision."""
    (revision,) = connection.execute("SELECT revision FROM store").fetchone()
    return int(revision)


def read_position(connection: sqlite3.Connection) -> tuple[int, int]:
    """The store's incarnation and revision: what watches read next depends on nothing else."""
    incarnation, revision = connection.execute("SELECT incarnation, revision FROM store").fetchone()
    return int(incarnation), int(revision)


def next_revision(connection: sqlite3.Connection) -> int:
    """Takes the next revision; the caller writes under it."""
    (revision,) = connection.execute("UPDATE store SET revision = revision + 1 RETURNING revision").fetchone()
    return int(revision)


def load(connection: sqlite3.Connection, history: HistoryId) -> Loaded:
    """Newest snapshot and tail. Raises `CorruptHistory`."""
    snapshot = _read_snapshot(connection, history)
    after = snapshot.sequence if snapshot else 0
    rows = connection.execute(
        f"SELECT first, events, crc FROM batch WHERE {_OF_HISTORY} AND first + count - 1 > ? ORDER BY first",
        (*history, after),
    )
    batches = [(first, _unpack(history, first, blob, crc)) for first, blob, crc in rows]
    sequence = _read_head(connection, history)
    events = whole_tail(history, snapshot, batches, sequence)
    return Loaded(snapshot, after + 1, events, sequence, read_revision(connection))


def load_many(connection: sqlite3.Connection, histories: Iterable[HistoryId]) -> Sequence[Loaded]:
    """Several histories, as `load` reads each. Raises `CorruptHistory`."""
    return [load(connection, each) for each in histories]


def read_heads(connection: sqlite3.Connection, histories: Iterable[HistoryId]) -> Sequence[int]:
    """The last sequence of each history; 0 where there is none."""
    return [_read_head(connection, each) for each in histories]


def list_histories(connection: sqlite3.Connection, service: str) -> tuple[Sequence[HistoryId], int]:
    """All histories of a service, sorted, and the revision."""
    rows = connection.execute("SELECT service, kind, id FROM head WHERE service = ? ORDER BY kind, id", (service,))
    return [HistoryId(*row) for row in rows], read_revision(connection)


def append(
    connection: sqlite3.Connection,
    history: HistoryId,
    events: Sequence[bytes],
    expected: int,
    fence: Fence,
    now: float,
) -> Appended:
    """Appends one batch. Raises `Fenced`, `Conflict`."""
    check_fence(connection, fence, now)
    sequence = _read_head(connection, history)
    if sequence != expected:
        raise Conflict(f"history {history} ends at {sequence}, not at {expected}", remedy="load it again")
    revision = next_revision(connection)
    blob = _pack(events)
    row = (revision, *history, expected + 1, len(events), blob, zlib.crc32(blob))
    connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO head VALUES (?, ?, ?, ?)", (*history, expected + len(events)))
    return Appended(expected + len(events), revision)


def find_append(
    connection: sqlite3.Connection, history: HistoryId, events: Sequence[bytes], expected: int, revision: int
) -> Appended | None:
    """Finds the append with this revision, if it is there; settles a commit that failed midway."""
    row = connection.execute(
        f"SELECT events FROM batch WHERE revision = ? AND {_OF_HISTORY} AND first = ?",
        (revision, *history, expected + 1),
    ).fetchone()
    return Appended(expected + len(events), revision) if row and row[0] == _pack(events) else None


def save_snapshot(
    connection: sqlite3.Connection, history: HistoryId, snapshot: Snapshot, fence: Fence, now: float
) -> None:
    """Keeps a snapshot; an older one than is kept changes nothing. Raises `Fenced`, `Invalid`."""
    check_fence(connection, fence, now)
    if not 0 < snapshot.sequence <= _read_head(connection, history):
        raise Invalid(f"history {history} has no event {snapshot.sequence}", field="snapshot.sequence")
    row = connection.execute(f"SELECT sequence FROM snapshot WHERE {_OF_HISTORY}", history).fetchone()
    if row and row[0] >= snapshot.sequence:
        return
    kept = (*history, snapshot.sequence, snapshot.data, zlib.crc32(snapshot.data))
    connection.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?)", kept)
    _forget(connection, history, snapshot.sequence, next_revision(connection) - WATCH_KEEP_REVISIONS)


def _forget(connection: sqlite3.Connection, history: HistoryId, sequence: int, until: int) -> None:
    """Deletes a history's batches that a snapshot replaced, except for watchers a little behind."""
    replaced = f"{_OF_HISTORY} AND first + count - 1 <= ? AND revision <= ?"
    which = (*history, sequence, until)
    (last,) = connection.execute(f"SELECT max(revision) FROM batch WHERE {replaced}", which).fetchone()
    if last is not None:
        connection.execute(f"DELETE FROM batch WHERE {replaced}", which)
        connection.execute("UPDATE store SET compacted = max(compacted, ?)", (last,))


def batches_after(connection: sqlite3.Connection, service: str, revision: int) -> tuple[Sequence[EventBatch], int]:
    """Returns the next batches of a service after a revision, and the revision up to which they are complete.

    Raises:
        Compacted: some of them are gone, or the store is younger than the revision.
        CorruptHistory: one of them is damaged.
    """
    current, compacted = connection.execute("SELECT revision, compacted FROM store").fetchone()
    if not compacted <= revision <= current:
        raise Compacted(f"the store does not keep what follows revision {revision}", remedy="load the histories again")
    rows = connection.execute(
        "SELECT revision, service, kind, id, first, events, crc FROM batch"
        " WHERE service = ? AND revision > ? ORDER BY revision LIMIT ?",
        (service, revision, WATCH_PAGE_BATCHES),
    )
    page = [_read_batch(*row) for row in rows]
    return page, page[-1].revision if len(page) == WATCH_PAGE_BATCHES else int(current)


def check_fence(connection: sqlite3.Connection, fence: Fence, now: float) -> None:
    """Raises `Fenced` unless the fence's leadership is held, by a session that lives."""
    row = connection.execute(
        "SELECT 1 FROM leader JOIN session ON session.id = leader.session"
        " WHERE service = ? AND revision = ? AND boot = ? AND expires > ?",
        (fence.service, fence.revision, boot_id(), now),
    ).fetchone()
    if row is None:
        raise Fenced(f"leadership {fence.revision} of {fence.service} is over", remedy="campaign again")


def _read_head(connection: sqlite3.Connection, history: HistoryId) -> int:
    row = connection.execute(f"SELECT sequence FROM head WHERE {_OF_HISTORY}", history).fetchone()
    return int(row[0]) if row else 0


def _read_snapshot(connection: sqlite3.Connection, history: HistoryId) -> Snapshot | None:
    row = connection.execute(f"SELECT sequence, data, crc FROM snapshot WHERE {_OF_HISTORY}", history).fetchone()
    if row is None:
        return None
    sequence, data, crc = row
    if zlib.crc32(data) != crc:
        raise _damaged(history, f"snapshot {sequence}")
    return Snapshot(sequence, data)


def _read_batch(revision: int, service: str, kind: str, name: str, first: int, blob: bytes, crc: int) -> EventBatch:
    history = HistoryId(service, kind, name)
    return EventBatch(history, first, _unpack(history, first, blob, crc), revision)


def _pack(events: Sequence[bytes]) -> bytes:
    return b"".join(part for event in events for part in (_LENGTH.pack(len(event)), event))


def _unpack(history: HistoryId, first: int, blob: bytes, crc: int) -> Sequence[bytes]:
    if zlib.crc32(blob) != crc:
        raise _damaged(history, f"the batch that begins with event {first}")
    events: list[bytes] = []
    position = 0
    while position < len(blob):
        (length,) = _LENGTH.unpack_from(blob, position)
        position += _LENGTH.size + length
        events.append(blob[position - length : position])
    return tuple(events)


def _damaged(history: HistoryId, what: str) -> CorruptHistory:
    return CorruptHistory(
        f"{what} of history {history} is damaged",
        remedy="restore the store from a backup; until then no decision is made on this history",
        metadata={"history": str(history)},
    )
