"""The index of dead letters: one SQLite file a replica, derived from the logs and rebuilt from them when it is gone.

How far each partition was read lives in the same file and moves in the same transaction as the rows, so the index
never claims a record it does not hold. Every method blocks: call it through `Tasks.run_blocking`. Two copies of one
letter (same origin, see `Letter.identity`) are two rows; the one that lies first counts, the others are passed over.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from braid.kernel.errors import Unavailable
from braid.kernel.limits import DLQ_BUSY_SECONDS
from services.dlq.events import Position
from services.dlq.letters import Cursor, Letter, Origin, Place

_FORMAT: Final = "2"
_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, partition INTEGER NOT NULL,
    cluster TEXT NOT NULL, topic TEXT NOT NULL, topic_id BLOB NOT NULL, next_offset INTEGER NOT NULL,
    PRIMARY KEY (stream, generation, partition)
) WITHOUT ROWID;
CREATE TABLE letters (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, owner TEXT NOT NULL, identity TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (stream, generation, partition, offset)
) WITHOUT ROWID;
CREATE INDEX letters_by_time ON letters (time_ms, stream, generation, partition, offset);
CREATE INDEX letters_by_identity ON letters (stream, identity, generation, partition, offset);
"""
_ORIGIN_FIELDS: Final = tuple(field.name for field in fields(Origin))
_LETTER_FIELDS: Final = tuple(
    field.name for field in fields(Letter) if field.name not in ("place", "origin", "key", "headers")
)
_IN_USE: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PLACE: Final = "(generation, partition, offset)"
# No other copy of the same letter lies before it.
_FIRST: Final = """(l.identity = '' OR NOT EXISTS (
    SELECT 1 FROM letters e WHERE e.stream = l.stream AND e.identity = l.identity
    AND (e.generation, e.partition, e.offset) < (l.generation, l.partition, l.offset)))"""


class Part(NamedTuple):
    """One partition of one dlq channel."""

    stream: str
    generation: int
    partition: int

    def place(self, offset: int) -> Place:
        """The place of an offset in it."""
        return Place(*self, offset)


class Reading(NamedTuple):
    """How far a partition was read, and of which topic."""

    cluster: str
    topic: str
    topic_id: bytes
    next_offset: int


class NewestFirst(NamedTuple):
    """A place in the order of listings."""

    time_ms: int
    place: Place


class LetterIndex:
    """The file and its one connection; methods may be called from any thread, one at a time gets through."""

    def __init__(self, path: Path, mesh: str) -> None:
        """Opens the index of a mesh, or begins anew when it is another mesh's, of another format, or damaged."""
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = _open(path, mesh)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode in _IN_USE:
                remedy = "give each replica a name of its own"
                raise Unavailable(f"another process has the index {path}", field="index", remedy=remedy) from error
            for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
                each.unlink(missing_ok=True)
            self._connection = _open(path, mesh)

    def close(self) -> None:
        """Frees the file."""
        with self._lock:
            self._connection.close()

    # --- writing

    def write(self, part: Part, letters: Sequence[Letter], next_offset: int) -> None:
        """Adds what was read of a partition and moves its position, at once; a row that is there already stays one.

        Does nothing for a partition that is not begun, or was dropped meanwhile.
        """
        rows = [_row(letter) for letter in letters]
        with self._changing() as cursor:
            cursor.execute(
                "UPDATE positions SET next_offset = ? WHERE stream = ? AND generation = ? AND partition = ?",
                (next_offset, *part),
            )
            if cursor.rowcount:
                cursor.executemany("INSERT OR REPLACE INTO letters VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def begin(self, part: Part, reading: Reading) -> None:
        """Reads a partition from a place on; rows from before, of whatever topic, are dropped."""
        with self._changing() as cursor:
            cursor.execute("DELETE FROM letters WHERE stream = ? AND generation = ? AND partition = ?", part)
            cursor.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?)", (*part, *reading))

    def trim(self, part: Part, start: int) -> None:
        """Drops rows whose copies left the log, which begins at `start`."""
        with self._changing() as cursor:
            cursor.execute(
                "DELETE FROM letters WHERE stream = ? AND generation = ? AND partition = ? AND offset < ?",
                (*part, start),
            )

    def drop(self, stream: str, generation: int) -> None:
        """Forgets a channel whose topic is gone."""
        with self._changing() as cursor:
            for table in ("letters", "positions"):
                cursor.execute(f"DELETE FROM {table} WHERE stream = ? AND generation = ?", (stream, generation))

    # --- reading

    def readings(self) -> Mapping[Part, Reading]:
        """How far every partition was read."""
        rows = self._all("SELECT stream, generation, partition, cluster, topic, topic_id, next_offset FROM positions")
        return {Part(*row[:3]): Reading(*row[3:]) for row in rows}

    def positions(self, stream: str) -> Sequence[Position]:
        """How far a stream's partitions were read, sorted."""
        rows = self._all(
            "SELECT generation, partition, next_offset FROM positions WHERE stream = ? ORDER BY 1, 2", stream
        )
        return [Position(*row) for row in rows]

    def newest(self, stream: str, before: NewestFirst | None, limit: int) -> Sequence[Letter]:
        """Letters of a stream ('' for all), newest first, after a place in that order."""
        where, arguments = [_FIRST], list[object]()
        if stream:
            where.append("l.stream = ?")
            arguments.append(stream)
        if before is not None:
            where.append("(l.time_ms, l.stream, l.generation, l.partition, l.offset) < (?, ?, ?, ?, ?)")
            arguments += [before.time_ms, *before.place]
        order = "l.time_ms DESC, l.stream DESC, l.generation DESC, l.partition DESC, l.offset DESC"
        query = f"SELECT l.body FROM letters l WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"
        return [_letter(row[0]) for row in self._all(query, *arguments, limit)]

    def following(self, stream: str, cursor: Cursor | None, limit: int) -> Sequence[Letter]:
        """Letters of a stream by place, after one; later copies included, see `earlier_copies`."""
        after = cursor or Cursor(-1, -1, -1)
        order = "generation, partition, offset"
        query = f"SELECT body FROM letters WHERE stream = ? AND {_PLACE} > (?, ?, ?) ORDER BY {order} LIMIT ?"
        return [_letter(row[0]) for row in self._all(query, stream, *after, limit)]

    def earlier_copies(self, letter: Letter) -> Sequence[Cursor]:
        """Where copies of the same letter lie that lie before this one."""
        if not letter.identity:
            return []
        where = f"stream = ? AND identity = ? AND {_PLACE} < (?, ?, ?)"
        query = f"SELECT generation, partition, offset FROM letters WHERE {where}"
        return [Cursor(*row) for row in self._all(query, letter.place.stream, letter.identity, *letter.place.cursor)]

    def get(self, place: Place) -> Letter | None:
        """One letter."""
        query = "SELECT body FROM letters WHERE stream = ? AND generation = ? AND partition = ? AND offset = ?"
        found = self._all(query, *place)
        return _letter(found[0][0]) if found else None

    def count(self, stream: str) -> int:
        """How many letters a stream has ('' for all)."""
        query = f"SELECT COUNT(*) FROM letters l WHERE {_FIRST}"
        rows = self._all(f"{query} AND l.stream = ?", stream) if stream else self._all(query)
        return int(rows[0][0])

    @property
    def changes(self) -> int:
        """Grows with every change of a row."""
        return self._connection.total_changes

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many letters there are by stream and group."""
        rows = self._all(f"SELECT l.stream, l.owner, COUNT(*) FROM letters l WHERE {_FIRST} GROUP BY 1, 2")
        return {(str(row[0]), str(row[1])): int(row[2]) for row in rows}

    # --- the connection

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Cursor]:
        with self._lock, closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()

    def _all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._connection.execute(query, arguments)) as found:
            return found.fetchall()


def _open(path: Path, mesh: str) -> sqlite3.Connection:
    """A connection to an index with its tables. Raises `sqlite3.DatabaseError` for a file that is no index of ours."""
    # Autocommit: transactions are begun by name. Of what a crash of the machine loses, positions and rows go together.
    connection = sqlite3.connect(path, timeout=DLQ_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
            connection.executemany("INSERT INTO facts VALUES (?, ?)", [("format", _FORMAT), ("mesh", mesh)])
        facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
        whole = connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
        connection.execute("COMMIT")
        if facts != {"format": _FORMAT, "mesh": mesh} or not whole:
            raise _damaged()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _damaged() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("damaged, of another format or of another mesh")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _row(letter: Letter) -> tuple[object, ...]:
    """Fields by position: named ones would take most of the time of reading and writing."""
    origin = [getattr(letter.origin, name) for name in _ORIGIN_FIELDS]
    key = None if letter.key is None else letter.key.hex()
    rest = [getattr(letter, name) for name in _LETTER_FIELDS]
    text = json.dumps([letter.place, origin, key, letter.headers, *rest], separators=(",", ":"))
    return (*letter.place, letter.time_ms, letter.group, letter.identity, text)


def _letter(body: str) -> Letter:
    place, origin, key, headers, *rest = json.loads(body)
    return Letter(
        place=Place(*place),
        origin=Origin(*origin),
        key=None if key is None else bytes.fromhex(key),
        headers=tuple((name, value) for name, value in headers),
        **dict(zip(_LETTER_FIELDS, rest, strict=True)),
    )
