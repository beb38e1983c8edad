"""The index of dead letters: one SQLite file per replica, derived from the logs and rebuilt if it is lost.

Each partition's read position is stored in the same file and moves in the same transaction as the rows. So the index
never claims a record it does not hold. Every method blocks: call it through `Tasks.run_blocking`. Two copies of one
letter (see `Letter.identity` and `letters.repeats`) are two rows; the first in the log counts, and readers skip the
others.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from braid.host import private_files
from braid.kernel.errors import Unavailable
from braid.kernel.limits.dlq import DLQ_BUSY_SECONDS, DLQ_COUNTS_KEPT
from services.dlq.index.conditions import ANYTHING, Condition
from services.dlq.model.events import Position
from services.dlq.model.letters import Cursor, Letter, LetterPlace, Origin

T = TypeVar("T")
_NO_FILE: Final = ":memory:"  # SQLite's name for a database without a file
_FORMAT: Final = "5"
_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, partition INTEGER NOT NULL,
    cluster TEXT NOT NULL, topic TEXT NOT NULL, topic_id BLOB NOT NULL, next_offset INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    PRIMARY KEY (stream, generation, partition)
) WITHOUT ROWID;
CREATE TABLE letters (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, owner TEXT NOT NULL, error TEXT NOT NULL, error_name TEXT NOT NULL,
    lane TEXT NOT NULL, id TEXT NOT NULL, attempts INTEGER NOT NULL, origin_partition INTEGER NOT NULL,
    identity TEXT NOT NULL, log TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (stream, generation, partition, offset)
) WITHOUT ROWID;
CREATE TABLE jobs (id TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE targets (
    number INTEGER PRIMARY KEY, cluster TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    topic_id BLOB NOT NULL, leader_epoch INTEGER NOT NULL, owner TEXT NOT NULL, resets INTEGER NOT NULL,
    UNIQUE (cluster, topic, partition, topic_id, leader_epoch, owner, resets)
);
CREATE TABLE sent (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    mark INTEGER NOT NULL, target INTEGER NOT NULL, sent_offset INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    PRIMARY KEY (stream, generation, partition, offset)
) WITHOUT ROWID;
CREATE INDEX letters_by_record ON letters (stream, id);
CREATE INDEX letters_by_time ON letters (time_ms, stream, generation, partition, offset);
CREATE INDEX letters_of_stream_by_time ON letters (stream, time_ms, generation, partition, offset);
CREATE INDEX letters_by_identity ON letters (stream, identity, generation, partition, offset, log);
"""
_ORIGIN_FIELDS: Final = tuple(field.name for field in fields(Origin))
_LETTER_FIELDS: Final = tuple(
    field.name for field in fields(Letter) if field.name not in ("place", "origin", "key", "headers")
)
_INSERT: Final = f"INSERT OR REPLACE INTO letters VALUES ({', '.join('?' * 15)})"
_IN_USE: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_ROOM: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # for the file, or for what is shared of its log
_BEFORE: Final = "stream = ? AND generation = ? AND partition = ? AND offset < ?"
_PLACE: Final = "(generation, partition, offset)"
_EARLIER: Final = """SELECT 1 FROM letters e WHERE e.stream = l.stream AND e.identity = l.identity
    AND (e.generation, e.partition, e.offset) < (l.generation, l.partition, l.offset)"""
# No other copy of the same letter lies before it: `letters.repeats` in SQL.
_FIRST: Final = f"""(l.identity = '' OR NOT EXISTS ({_EARLIER}) OR l.log <> ''
    AND NOT EXISTS ({_EARLIER} AND e.log = l.log) AND EXISTS ({_EARLIER} AND e.log <> ''))"""


class DlqPartition(NamedTuple):
    """One partition of one dlq channel."""

    stream: str
    generation: int
    partition: int

    def place(self, offset: int) -> LetterPlace:
        """The place of a letter at an offset of this partition."""
        return LetterPlace(*self, offset)


class Reading(NamedTuple):
    """How far a partition of one topic was read.

    Attributes:
        leader_epoch: Newest leader epoch among the records read; -1 if unknown.
    """

    cluster: str
    topic: str
    topic_id: bytes
    next_offset: int
    leader_epoch: int = -1


class NewestFirst(NamedTuple):
    """A position in the order of listings, newest first."""

    time_ms: int
    place: LetterPlace


class Scanned(NamedTuple):
    """Letters that a scan found, and the last row it examined; None at the end."""

    letters: Sequence[Letter]
    end: NewestFirst | None


class EarlierCopy(NamedTuple):
    """The place and the log of a letter with the same identity."""

    cursor: Cursor
    log: str


class Following(NamedTuple):
    """A letter, and whether it is the first of its copies; see `earlier_copies`."""

    letter: Letter
    first: bool


class LetterIndex:
    """The index file and its one connection. Methods are thread-safe; they run one at a time."""

    def __init__(self, path: Path, mesh: str) -> None:
        """Opens the index of a mesh. An index of another mesh or format, or a damaged one, is replaced by an empty one.

        Raises:
            Unavailable: another process has it, or its disk is full.
        """
        self._path = path
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[int, int]] = {}  # by stream: `changes` then, and the number of letters
        private_files.make_directory(path.parent)
        try:
            self._connection = _open(path, mesh)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode in _IN_USE:
                remedy = "give each replica a name of its own"
                raise Unavailable(f"another process has the index {path}", field="index", remedy=remedy) from error
            if _is_full(error):
                raise _full(path) from error
            for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
                each.unlink(missing_ok=True)
            self._connection = _open(path, mesh)

    def close(self) -> None:
        """Closes the file so that another process can open it."""
        with self._lock:
            self._connection.close()

    # --- writing

    def write(self, part: DlqPartition, letters: Sequence[Letter], next_offset: int, leader_epoch: int = -1) -> None:
        """Adds the letters read from a partition and moves its position, in one transaction. Rows that exist stay as
        they are.

        `leader_epoch` is that of the newest leader that wrote them, -1 if unknown. Does nothing for a partition that
        was not begun, or was dropped meanwhile. Raises `Unavailable`, as every write does, while the disk is full; then
        nothing has changed.
        """
        rows = [_row(letter) for letter in letters]
        with self.changing() as cursor:
            cursor.execute(
                "UPDATE positions SET next_offset = ?, leader_epoch = MAX(leader_epoch, ?)"
                " WHERE stream = ? AND generation = ? AND partition = ?",
                (next_offset, leader_epoch, *part),
            )
            if cursor.rowcount:
                cursor.executemany(_INSERT, rows)

    def begin(self, part: DlqPartition, reading: Reading) -> None:
        """Starts reading a partition at an offset. Drops all earlier rows of the partition, whatever their topic.

        Records of where letters from that offset on were sent are kept: each names its letter.
        """
        with self.changing() as cursor:
            cursor.execute("DELETE FROM letters WHERE stream = ? AND generation = ? AND partition = ?", part)
            cursor.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*part, *reading))
            cursor.execute(f"DELETE FROM sent WHERE {_BEFORE}", (*part, reading.next_offset))

    def trim(self, part: DlqPartition, start: int) -> None:
        """Drops rows whose copies lie before `start`, the log's first offset."""
        with self.changing() as cursor:
            for table in ("letters", "sent"):
                cursor.execute(f"DELETE FROM {table} WHERE {_BEFORE}", (*part, start))

    def drop(self, stream: str, generation: int) -> None:
        """Drops all rows and positions of a channel whose topic is deleted."""
        with self.changing() as cursor:
            for table in ("letters", "positions", "sent"):
                cursor.execute(f"DELETE FROM {table} WHERE stream = ? AND generation = ?", (stream, generation))

    # --- reading

    def readings(self) -> Mapping[DlqPartition, Reading]:
        """The read position of every partition."""
        columns = ("stream", "generation", "partition", *Reading._fields)
        rows = self._all(f"SELECT {', '.join(columns)} FROM positions")
        return {DlqPartition(*row[:3]): Reading(*row[3:]) for row in rows}

    def positions(self, stream: str) -> Sequence[Position]:
        """The read positions of a stream's partitions, sorted."""
        rows = self._all(
            "SELECT generation, partition, next_offset FROM positions WHERE stream = ? ORDER BY 1, 2", stream
        )
        return [Position(*row) for row in rows]

    def newest(self, stream: str, before: NewestFirst | None, limit: int) -> Sequence[Letter]:
        """Letters of a stream ('' for all), newest first, after a position in that order."""
        span, arguments, order = _span(stream, before)
        query = f"SELECT l.body FROM letters l WHERE {_FIRST} AND {span} ORDER BY {order} LIMIT ?"
        return self.found(letter_of, query, *arguments, limit)

    def scan(self, stream: str, before: NewestFirst | None, rows: int, wanted: Condition) -> Scanned:
        """Examines a limited number of rows in `newest` order, and returns the letters that meet a condition."""
        span, arguments, order = _span(stream, before)
        columns = "l.time_ms, l.stream, l.generation, l.partition, l.offset"
        last = f"SELECT {columns} FROM letters l WHERE {span} ORDER BY {order} LIMIT 1 OFFSET ?"
        found = self._all(last, *arguments, rows - 1)
        end = NewestFirst(found[0][0], LetterPlace(*found[0][1:])) if found else None
        down_to, ending = (
            ("", ()) if end is None else (f"AND ({columns}) >= (?, ?, ?, ?, ?)", (end.time_ms, *end.place))
        )
        where = f"{span} {down_to} AND {wanted.sql} AND {_FIRST}"
        query = f"SELECT l.body FROM letters l WHERE {where} ORDER BY {order}"
        letters = self._all(query, *arguments, *ending, *wanted.arguments)
        return Scanned([letter_of(row[0]) for row in letters], end)

    def following(
        self, stream: str, cursor: Cursor | None, limit: int, wanted: Condition = ANYTHING
    ) -> Sequence[Following]:
        """Letters of a stream in log order, after a place, that meet a condition; later copies included."""
        after = cursor or Cursor(-1, -1, -1)
        where = f"l.stream = ? AND (l.generation, l.partition, l.offset) > (?, ?, ?) AND {wanted.sql}"
        order = "l.generation, l.partition, l.offset"
        query = f"SELECT l.body, {_FIRST} FROM letters l WHERE {where} ORDER BY {order} LIMIT ?"
        found = self._all(query, stream, *after, *wanted.arguments, limit)
        return [Following(letter_of(body), bool(first)) for body, first in found]

    def earlier_copies(self, letter: Letter) -> Sequence[EarlierCopy]:
        """Letters with the same identity that lie before this one."""
        if not letter.identity:
            return []
        where = f"stream = ? AND identity = ? AND {_PLACE} < (?, ?, ?)"
        query = f"SELECT generation, partition, offset, log FROM letters WHERE {where}"
        found = self._all(query, letter.place.stream, letter.identity, *letter.place.cursor)
        return [EarlierCopy(Cursor(*at), log) for *at, log in found]

    def get(self, place: LetterPlace) -> Letter | None:
        """The letter at a place; None if there is none."""
        query = "SELECT body FROM letters WHERE stream = ? AND generation = ? AND partition = ? AND offset = ?"
        found = self._all(query, *place)
        return letter_of(found[0][0]) if found else None

    def count(self, stream: str) -> int:
        """The number of letters in a stream ('' for all)."""
        changes = self.changes
        known = self._counted.get(stream)
        if known is None or known[0] != changes:
            every = "SELECT COUNT(*) FROM letters"
            rows = self._all(f"{every} WHERE stream = ?", stream) if stream else self._all(every)
            later = sum(more for name, _, more in self._later_copies() if stream in ("", name))
            if known is None and len(self._counted) >= DLQ_COUNTS_KEPT:
                self._counted.clear()
            self._counted[stream] = known = (changes, int(rows[0][0]) - later)
        return known[1]

    @property
    def changes(self) -> int:
        """A counter that grows with every change of a row."""
        return self._connection.total_changes

    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of letters by stream and group."""
        rows = self._all("SELECT stream, owner, COUNT(*) FROM letters GROUP BY 1, 2")
        found = {(str(stream), str(group)): int(count) for stream, group, count in rows}
        for stream, group, more in self._later_copies():
            found[stream, group] -= more
        return found

    def _later_copies(self) -> list[tuple[str, str, int]]:
        """Stream, group and number of surplus copies, for letters with several copies. Copies share their group."""
        query = """SELECT c.stream, l.owner, c.copies - c.first FROM
            (SELECT stream, identity, COUNT(*) AS copies, MAX(1, COUNT(DISTINCT NULLIF(log, ''))) AS first FROM letters
             WHERE identity <> '' GROUP BY stream, identity HAVING copies > 1) AS c
            JOIN letters l ON l.stream = c.stream AND l.identity = c.identity
            GROUP BY c.stream, c.identity"""
        return [(str(stream), str(group), int(more)) for stream, group, more in self._all(query)]

    # --- the connection

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Cursor]:
        """Runs one transaction. Raises `Unavailable` while the disk is full; then nothing has changed."""
        with self._lock, closing(self._connection.cursor()) as cursor:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                yield cursor
                self._connection.commit()
            except BaseException as error:
                self._connection.rollback()
                if isinstance(error, sqlite3.Error) and _is_full(error):
                    raise _full(self._path) from error
                raise

    def found(self, made: Callable[..., T], query: str, *arguments: object) -> list[T]:
        """Runs a query and builds one object from each row's columns."""
        return [made(*row) for row in self._all(query, *arguments)]

    def _all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._connection.execute(query, arguments)) as found:
            return found.fetchall()


def _open(path: Path, mesh: str) -> sqlite3.Connection:
    """Opens an index and creates its tables. Raises `sqlite3.DatabaseError` for a file that is no index."""
    # Autocommit: transactions are begun by name. Of what a crash of the machine loses, positions and rows go together.
    if str(path) != _NO_FILE:
        private_files.make_file(path)
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


def _span(stream: str, before: NewestFirst | None) -> tuple[str, list[object], str]:
    """The SQL condition, its arguments and the newest-first order; limited to one stream so that its SQL index is
    used."""
    columns = ("l.time_ms", *(() if stream else ("l.stream",)), "l.generation", "l.partition", "l.offset")
    where, arguments = ["1"], list[object]()
    if stream:
        where.append("l.stream = ?")
        arguments.append(stream)
    if before is not None:
        where.append(f"({', '.join(columns)}) < ({', '.join('?' * len(columns))})")
        arguments += [before.time_ms, *(before.place.cursor if stream else before.place)]
    return " AND ".join(where), arguments, ", ".join(f"{column} DESC" for column in columns)


def _is_full(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode in _NO_ROOM


def _full(path: Path) -> Unavailable:
    remedy = "free some space; dead letters are kept in their clusters, and indexed then"
    return Unavailable(f"the disk of the index {path} is full", field="index", remedy=remedy)


def _damaged() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("damaged, of another format or of another mesh")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _row(letter: Letter) -> tuple[object, ...]:
    """Encodes a letter's fields by position: named fields would take most of the time of reading and writing."""
    origin = [getattr(letter.origin, name) for name in _ORIGIN_FIELDS]
    key = None if letter.key is None else letter.key.hex()
    rest = [getattr(letter, name) for name in _LETTER_FIELDS]
    text = json.dumps([letter.place, origin, key, letter.headers, *rest], separators=(",", ":"))
    compared = (letter.group, letter.error_class, letter.error_name, letter.origin.lane, letter.record_id)
    numbers = (letter.attempts, letter.origin.partition)
    return (*letter.place, letter.time_ms, *compared, *numbers, letter.identity, letter.log, text)


def letter_of(body: str) -> Letter:
    """Decodes a letter from its row's column `body`."""
    place, origin, key, headers, *rest = json.loads(body)
    return Letter(
        place=LetterPlace(*place),
        origin=Origin(*origin),
        key=None if key is None else bytes.fromhex(key),
        headers=tuple((name, value) for name, value in headers),
        **dict(zip(_LETTER_FIELDS, rest, strict=True)),
    )
