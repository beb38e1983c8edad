"""Transactions on one SQLite file: one thread and connection that writes, and one that reads and never waits for it.

A transaction is one function that runs from begin to commit within its thread; nothing is awaited inside. A stopped
process that holds the write lock too long is ended (see `SQLITE_LOCK_BREAK_SECONDS`).
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from braid.host import private_files
from braid.kernel.errors import OutcomeUnknown, StoreUnavailable
from braid.kernel.limits.store import (
    SESSION_TTL_SECONDS,
    SQLITE_BUSY_POLL_SECONDS,
    SQLITE_LOCK_BREAK_SECONDS,
    STORE_CALL_SECONDS,
)
from braid.kernel.ports import Clock
from braid.stores.sqlite_news import touch
from braid.stores.sqlite_process import (
    Activity,
    ProcessIdentity,
    activity,
    boot_id,
    end_process,
    is_stalled,
    pid_namespace,
    waits_for_disk,
    write_lock_holder,
)
from braid.stores.sqlite_schema import (
    check_soundness,
    create,
    explained,
    is_busy,
    is_registered,
    prepare,
    recognise,
    register,
    set_lasting,
)

T = TypeVar("T")
Transaction = Callable[[sqlite3.Connection], T]
Connect = Callable[[Path], sqlite3.Connection]


_LOOK_EVERY_SECONDS = 0.1  # at who holds the lock, while it is waited for


def connect_file(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode that never waits for locks by itself."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


class LockBreaker:
    """Watches the holder of the write lock, and ends a registered process that holds it without progress.

    Args:
        path: The database.
        is_registered: Whether a process ever opened this store; others are never touched.
    """

    def __init__(self, path: Path, is_registered: Callable[[ProcessIdentity], bool]) -> None:
        self._path = path
        self._is_registered = is_registered
        self._suspect: ProcessIdentity | None = None
        self._before: Activity | None = None  # of the suspect, at the first look
        self._since = 0.0

    def clear(self) -> None:
        """Notes that the lock was free: no process is suspected any more."""
        self._suspect = None

    def look(self, now: float) -> None:
        """Checks the holder; ends it if it was stalled at every check for `SQLITE_LOCK_BREAK_SECONDS`.

        One that waits for a disk may only be slow: it has as long as a session lasts.
        """
        holder = write_lock_holder(self._path)
        seen = None if holder is None else activity(holder, self._path)
        if holder is None or seen is None:
            self._suspect = None
            return
        suspect = ProcessIdentity(boot_id(), pid_namespace(), holder, seen.started)
        if suspect != self._suspect or self._before is None or not is_stalled(self._before, seen):
            self._suspect, self._before, self._since = suspect, seen, now
            return
        allowed = SESSION_TTL_SECONDS if waits_for_disk(seen) else SQLITE_LOCK_BREAK_SECONDS
        if now - self._since >= allowed and self._is_registered(suspect):
            end_process(suspect)
            self._suspect = None


class SqliteDatabase:
    """One file and its two connections.

    Args:
        path: The file; made at the first use when it does not exist, never again later.
        clock: Bounds how long locks are waited for; read from both threads.
        connect: Opens a connection.
        process: Who writes: made known in the file before the first transaction, so that others may end it when it
            stops within one.
    """

    def __init__(self, path: Path, clock: Clock, connect: Connect, process: ProcessIdentity) -> None:
        self._file = _File(path, clock, connect)
        self._reader = _Lane(self._file, process, "reader")
        self._writer = _Lane(self._file, process, "writer")

    async def read(self, transaction: Transaction[T]) -> T:
        """Runs a transaction that only reads, at one revision. Raises `StoreUnavailable`, `CorruptHistory`."""
        return await self._reader.run(lambda lane: lane.read(transaction))

    async def write(self, transaction: Transaction[T], *, lasting: bool = True) -> T:
        """Runs a transaction that writes, once, commits it to the disk and announces it to other processes.

        A write that is not `lasting` does not wait for the disk and is not announced. A power cut may undo it.

        Raises:
            StoreUnavailable: it did not take effect and never will.
            OutcomeUnknown: its commit failed midway; it may show after a crash.
            CorruptHistory: the file is damaged.
        """
        return await self._writer.run(lambda lane: lane.write(transaction, lasting))

    async def close(self) -> None:
        """Closes all connections; calls that wait for a lock get `StoreUnavailable`."""
        if not self._file.closing.is_set():
            self._file.closing.set()
            for lane in (self._writer, self._reader):
                await lane.close()


class _File:
    """The state of the file that its lanes share. `existed`: it was opened before. `sound`: it was checked since."""

    def __init__(self, path: Path, clock: Clock, connect: Connect) -> None:
        self.path = path
        self.clock = clock
        self.connect = connect
        self.closing = threading.Event()
        self.existed = False
        self.sound = False

    def identity(self) -> tuple[int, int] | None:
        """Device and inode; None before it exists. Raises `StoreUnavailable` when it has vanished."""
        try:
            stat = self.path.stat()
        except FileNotFoundError as error:
            if self.existed:
                raise StoreUnavailable(f"the store {self.path} is gone", remedy="restore it from a backup") from error
            return None
        except OSError as error:
            raise StoreUnavailable(f"the store {self.path} cannot be reached: {error}") from error
        return stat.st_dev, stat.st_ino

    def open(self) -> sqlite3.Connection:
        """A connection to the store, which is made when the file is empty. May raise that a lock is in the way."""
        try:
            private_files.make_directory(self.path.parent)
            private_files.make_file(self.path)
        except OSError as error:
            raise StoreUnavailable(f"the store {self.path} cannot be made: {error}") from error
        connection = self.connect(self.path)
        try:
            self._make_store(connection)
        except BaseException:
            connection.close()
            raise
        self.existed = True
        return connection

    def _make_store(self, connection: sqlite3.Connection) -> None:
        """Makes the store, after checking that the file is empty or a store already."""
        known = recognise(connection, self.path)
        prepare(connection)
        if not known:
            connection.execute("BEGIN IMMEDIATE")
            create(connection, self.path)
            connection.execute("COMMIT")
        if not self.sound:
            check_soundness(connection, self.path)
            self.sound = True

    def is_registered(self, process: ProcessIdentity) -> bool:
        """Whether the process ever wrote to this store."""
        connection = connect_file(self.path)
        try:
            return is_registered(connection, process)
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()


class _Lane:
    """One thread with one connection. Everything but `run` and `close` happens in the thread."""

    def __init__(self, file: _File, process: ProcessIdentity, name: str) -> None:
        self._file = file
        self._process = process
        self._introduced = False
        self._breaker = LockBreaker(file.path, file.is_registered)
        self._identity: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"braid-store-{name}")

    async def run(self, job: Callable[["_Lane"], T]) -> T:
        """Runs a job in the thread."""
        if self._file.closing.is_set():
            raise StoreUnavailable(f"the store {self._file.path} was closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, self)

    async def close(self) -> None:
        """Closes the connection and ends the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown(wait=False)

    def read(self, transaction: Transaction[T]) -> T:
        """Runs a transaction that is begun again when a lock is in its way."""
        return self._patiently(lambda connection: _reading(connection, transaction))

    def write(self, transaction: Transaction[T], lasting: bool) -> T:
        """Runs a transaction under the write lock, once."""
        self._patiently(_nothing)
        if not self._introduced:
            self._write_once(lambda connection: register(connection, self._process), lasting=False)
            self._introduced = True
        return self._write_once(transaction, lasting)

    def _write_once(self, transaction: Transaction[T], lasting: bool) -> T:
        connection = self._patiently(partial(_begin_writing, lasting=lasting))
        try:
            result = transaction(connection)
        except sqlite3.Error as error:
            self._drop()
            raise explained(error, self._file.path) from error
        except BaseException:
            self._drop_unless_rolled_back(connection)
            raise
        try:
            self._commit(connection)
        finally:
            if lasting:
                touch(self._file.path)
        return result

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._drop()
            cause = explained(error, self._file.path)
            raise OutcomeUnknown(f"a commit failed midway: {cause.message}", remedy=cause.remedy) from error

    def _patiently(self, attempt: Transaction[T]) -> T:
        """Repeats an attempt that changes nothing while locks are in its way.

        Raises:
            StoreUnavailable: they were for `STORE_CALL_SECONDS`.
        """
        begun = looked = self._file.clock.elapsed()
        while True:
            try:
                result = attempt(self._opened())
            except sqlite3.Error as error:
                if not is_busy(error):
                    self._drop()
                    raise explained(error, self._file.path) from error
            else:
                self._breaker.clear()
                return result
            now = self._file.clock.elapsed()
            if now - looked >= _LOOK_EVERY_SECONDS:
                self._breaker.look(now)
                looked = now
            if self._file.closing.wait(SQLITE_BUSY_POLL_SECONDS) or now - begun >= STORE_CALL_SECONDS:
                holder = write_lock_holder(self._file.path)
                raise StoreUnavailable(f"the store {self._file.path} is locked by process {holder}", remedy="try again")

    def _opened(self) -> sqlite3.Connection:
        """The connection, opened anew when the file was replaced."""
        identity = self._file.identity()
        if identity != self._identity:
            self._drop()
        if self._connection is None:
            self._connection = self._file.open()
            self._identity = self._file.identity()
            self._introduced = False
        return self._connection

    def _drop_unless_rolled_back(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _nothing(connection: sqlite3.Connection) -> None:
    """Does nothing more than opening the connection."""


def _begin_writing(connection: sqlite3.Connection, lasting: bool) -> sqlite3.Connection:
    set_lasting(connection, lasting)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def _reading(connection: sqlite3.Connection, transaction: Transaction[T]) -> T:
    connection.execute("BEGIN")
    try:
        return transaction(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
