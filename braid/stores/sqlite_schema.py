"""The SQLite store at rest: its tables, and how a file becomes a store or is recognised as one.

One row of `store` holds the one counter of revisions. Every batch has a revision of its own, so that a watch is a scan.
"""

import sqlite3
from pathlib import Path
from typing import Final

from braid.kernel.errors import BraidError, CorruptHistory, StoreUnavailable
from braid.stores.sqlite_process import ProcessIdentity, is_dead

APPLICATION_ID: Final = 0x62726431  # "brd1"
SCHEMA_VERSION: Final = 1

_TABLES: Final = """
CREATE TABLE store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    incarnation INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    compacted INTEGER NOT NULL  -- watches from before this revision cannot be served
) STRICT;
INSERT INTO store VALUES (1, 1, 0, 0);
CREATE TABLE head (
    service TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (service, kind, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE batch (
    revision INTEGER PRIMARY KEY,
    service TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    events BLOB NOT NULL,  -- each with its length before it, 4 bytes, big-endian
    crc INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX batch_by_history ON batch (service, kind, id, first);
CREATE INDEX batch_by_service ON batch (service, revision);
CREATE TABLE snapshot (
    service TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    data BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (service, kind, id)
) STRICT;
CREATE TABLE process (
    boot TEXT NOT NULL, namespace TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL,
    PRIMARY KEY (boot, namespace, pid, started)
) STRICT, WITHOUT ROWID;
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    ttl REAL NOT NULL,
    expires REAL NOT NULL,  -- CLOCK_BOOTTIME of that boot, seconds
    boot TEXT NOT NULL, namespace TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL
) STRICT;
CREATE TABLE leader (
    service TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,  -- at which this leadership began: the fence
    instance TEXT NOT NULL,
    address TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE
) STRICT;
CREATE INDEX leader_by_session ON leader (session);
CREATE TABLE endpoint (
    service TEXT NOT NULL, instance TEXT NOT NULL,
    address TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (service, instance)
) STRICT;
CREATE INDEX endpoint_by_session ON endpoint (session);
"""

_OF_PROCESS: Final = "boot = ? AND namespace = ? AND pid = ? AND started = ?"
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a needed lock; nothing was done then."""
    return _primary(error) in _BUSY


def explained(error: sqlite3.Error, path: Path) -> BraidError:
    """Returns the store's error for an error of SQLite, naming the file and the remedy."""
    if _primary(error) in _DAMAGED:
        return damaged(path, str(error))
    if _primary(error) == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"the disk of the store {path} is full", remedy="free some space")
    return StoreUnavailable(
        f"the store {path} cannot be used: {error}", remedy="check the file, its owner and its disk"
    )


def damaged(path: Path, found: str) -> CorruptHistory:
    """Returns the error for a file that is no sound database any more."""
    return CorruptHistory(
        f"the store {path} is damaged: {found}",
        remedy="stop the services, then put a backup in its place: braid store restore FILE",
        metadata={"path": str(path)},
    )


def prepare(connection: sqlite3.Connection) -> None:
    """Sets what every connection needs: write-ahead log, commits that survive a power cut, cascading sessions."""
    connection.execute("PRAGMA journal_mode = WAL")
    set_lasting(connection, lasting=True)
    connection.execute("PRAGMA foreign_keys = ON")


def set_lasting(connection: sqlite3.Connection, lasting: bool) -> None:
    """Sets whether commits survive a power cut. A commit that does also saves those before it.

    See sqlite.org/pragma.html#pragma_synchronous: in WAL mode, the file stays sound either way.
    """
    connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")


def recognise(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a store; False while it is empty.

    Raises:
        StoreUnavailable: it belongs to something else, or to a newer release.
    """
    application, version, tables = _head(connection)
    if application == APPLICATION_ID and version == SCHEMA_VERSION:
        return True
    if application == APPLICATION_ID and version > SCHEMA_VERSION:
        raise StoreUnavailable(f"the store {path} was written by a newer release", remedy="upgrade this one")
    if application or version or tables:
        raise StoreUnavailable(f"{path} is a database, but not a Braid store", remedy="name another file")
    return False


def _head(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Reads application, schema version and number of tables at one moment: another process may be making the store."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    return application, version, tables


def check_soundness(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `CorruptHistory` when the file is cut off or its pages contradict each other."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, str(verdict))


def create(connection: sqlite3.Connection, path: Path) -> None:
    """Makes an empty file a store, within the transaction of the caller, unless another process was faster."""
    if recognise(connection, path):
        return
    for statement in filter(str.strip, _TABLES.split(";\n")):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def register(connection: sqlite3.Connection, process: ProcessIdentity) -> None:
    """Registers a process, and forgets those that are dead."""
    for row in connection.execute("SELECT boot, namespace, pid, started FROM process").fetchall():
        if is_dead(ProcessIdentity(*row)):
            connection.execute(f"DELETE FROM process WHERE {_OF_PROCESS}", row)
    connection.execute("INSERT OR IGNORE INTO process VALUES (?, ?, ?, ?)", process)


def is_registered(connection: sqlite3.Connection, process: ProcessIdentity) -> bool:
    """Whether a process was registered."""
    return connection.execute(f"SELECT 1 FROM process WHERE {_OF_PROCESS}", process).fetchone() is not None


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
