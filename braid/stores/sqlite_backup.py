"""Backup and restore of a store in a SQLite file. Every step that changes a file replaces it whole, or not at all."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from braid.host import private_files
from braid.kernel.errors import Invalid, StoreUnavailable
from braid.kernel.limits.registry.resources import RESTORE_REVISION_GAP
from braid.kernel.limits.store import STORE_CALL_SECONDS
from braid.stores import sqlite_histories as histories
from braid.stores.backups import StoreFacts, check_mesh, check_stopped, next_incarnation
from braid.stores.sqlite_database import connect_file
from braid.stores.sqlite_leadership import read_directory
from braid.stores.sqlite_news import touch
from braid.stores.sqlite_schema import check_soundness, explained, recognise


def back_up(path: Path, file: Path) -> StoreFacts:
    """Copies a store into a new file, whole and at one moment; services may go on meanwhile.

    Raises:
        Invalid: the file exists already.
        StoreUnavailable, CorruptHistory: there is no store, or it cannot be read.
    """
    if file.exists():
        raise Invalid(f"{file} exists already", field="FILE", remedy="name a new file")
    part = file.with_name(f".{file.name}.part")
    with _removed(part):
        private_files.make_file(part)
        _copy(path, part)
        facts = read_facts(part)
        _sync(part)
        part.replace(file)
        _sync(file.parent)
    return facts


def restore(
    path: Path, file: Path, now_ms: int, elapsed: float, *, dry_run: bool = False
) -> tuple[StoreFacts, Path | None]:
    """Puts a backup in the place of a store, under a new incarnation. May be repeated.

    Args:
        path: The store; it may be lost, then the backup becomes it.
        file: The backup; it is left as it is.
        now_ms: Wall time.
        elapsed: On the clock that sessions are measured on.
        dry_run: Check everything, change nothing.

    Returns:
        What the store tells of itself now, and where what was there before lies.

    Raises:
        Invalid: the file is no backup, is damaged, or is another mesh's.
        Refused: services use the store.
        StoreUnavailable: the store's file belongs to something else, or cannot be written.
    """
    backup = _read_backup(file)
    before = _read_store(path, elapsed)
    check_mesh(backup, before, str(file))
    found = StoreFacts(backup.mesh, next_incarnation(backup, before, now_ms), backup.histories)
    if dry_run:
        return found, None
    private_files.make_directory(path.parent)
    part = path.with_name(f".{path.name}.restored")
    with _removed(part):
        private_files.make_file(part)
        _copy(file, part)
        _begin_incarnation(part, found.incarnation, _revision(path) if before else 0)
        _sync(part)
        kept = _set_aside(path, before.incarnation) if before else None
        part.replace(path)
        _sync(path.parent)
    return found, kept


def begin_incarnation(path: Path, now_ms: int, elapsed: float) -> StoreFacts:
    """Begins a new incarnation of a store whose file was put back by other means. Raises as `restore`."""
    before = _read_store(path, elapsed)
    if before is None:
        raise StoreUnavailable(f"there is no store {path}")
    _begin_incarnation(path, next_incarnation(before, None, now_ms), _revision(path))
    touch(path)
    return read_facts(path)


def read_facts(path: Path) -> StoreFacts:
    """Reads the identity of a store's file. Raises `StoreUnavailable`, `CorruptHistory`."""
    with _opened(path) as connection:
        if not recognise(connection, path):
            raise StoreUnavailable(f"{path} is empty")
        check_soundness(connection, path)
        (count,) = connection.execute("SELECT count(*) FROM head").fetchone()
        return StoreFacts(histories.read_mesh(connection), histories.read_incarnation(connection), int(count))


def _read_backup(file: Path) -> StoreFacts:
    if not file.exists():
        raise Invalid(f"there is no file {file}", field="FILE")
    try:
        return read_facts(file)
    except StoreUnavailable as error:
        raise Invalid(f"{file} is no backup of a store: {error.message}", field="FILE") from error


def _read_store(path: Path, elapsed: float) -> StoreFacts | None:
    """Identity of the present store; None if it is lost. Raises `Refused` while services use it."""
    if not path.exists() or not path.stat().st_size:
        return None
    with _opened(path) as connection:
        if not recognise(connection, path):
            return None
        running = [each.instance for each in read_directory(connection, elapsed)]
    check_stopped(running)
    with _opened(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM head").fetchone()
        return StoreFacts(histories.read_mesh(connection), histories.read_incarnation(connection), int(count))


def _revision(path: Path) -> int:
    with _opened(path) as connection:
        (revision,) = connection.execute("SELECT revision FROM store").fetchone()
        return int(revision)


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise StoreUnavailable(f"there is no store {source}")
    with _opened(source) as reading, _opened(target) as writing:
        if not recognise(reading, source):
            raise StoreUnavailable(f"the store {source} is empty")
        reading.backup(writing)
        writing.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def _begin_incarnation(path: Path, incarnation: int, revision: int) -> None:
    """Begins an incarnation. Revisions continue beyond all that the backup and the replaced store gave out."""
    with _opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE store SET incarnation = ?, revision = max(revision, ?) + ?, compacted = max(revision, ?) + ?",
            (incarnation, revision, RESTORE_REVISION_GAP, revision, RESTORE_REVISION_GAP),
        )
        connection.execute("DELETE FROM endpoint")
        connection.execute("DELETE FROM leader")
        connection.execute("DELETE FROM session")
        connection.execute("COMMIT")


def _set_aside(path: Path, incarnation: int) -> Path:
    """Keeps the present store under another name as well, so that the store's own name is never without a store."""
    with _opened(path) as connection:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailable(f"another process has the store {path} open", remedy="stop all services, try again")
    kept = path.with_name(f"{path.name}.before-{incarnation + 1}")
    with suppress(FileNotFoundError):
        kept.unlink()
    os.link(path, kept)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
    return kept


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        connection = connect_file(path)
    except sqlite3.Error as error:
        raise explained(error, path) from error
    try:
        connection.execute(f"PRAGMA busy_timeout = {STORE_CALL_SECONDS * 1000:.0f}")
        yield connection
    except sqlite3.Error as error:
        raise explained(error, path) from error
    finally:
        connection.close()


@contextmanager
def _removed(part: Path) -> Iterator[None]:
    """Removes a half-written file before it is written, and its rest afterwards."""
    with suppress(FileNotFoundError):
        part.unlink()
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
