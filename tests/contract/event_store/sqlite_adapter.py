"""The store in a SQLite file under the contract: real files, threads and time."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from braid.host.system import system_host
from braid.kernel.errors import StoreUnavailable
from braid.kernel.ports import Clock, EventStore, HistoryId
from braid.stores.sqlite import SqliteStore
from braid.stores.sqlite_backup import begin_incarnation
from tests.contract.event_store.harness import Body


class Faults:
    """A fault of one client's connections."""

    def __init__(self) -> None:
        self.interrupted = False
        self.lose_commit: bool | None = None  # whether the next commit with a batch in it happens

    def connect(self, path: Path) -> sqlite3.Connection:
        """Opens a connection that these faults befall."""
        connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False, factory=_FaultyConnection
        )
        connection.faults = self
        return connection


class _FaultyConnection(sqlite3.Connection):
    faults: Faults | None = None
    appended = False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        faults = self.faults
        if faults is None:
            return super().execute(sql, *parameters)
        if faults.interrupted:
            raise _input_output_error()
        if sql == "COMMIT" and self.appended and faults.lose_commit is not None:
            if faults.lose_commit:
                super().execute(sql)
            faults.lose_commit = None
            raise _input_output_error()
        self.appended = (self.appended or sql.startswith("INSERT INTO batch")) and sql != "COMMIT"
        return super().execute(sql, *parameters)


def _input_output_error() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


def _compact(path: Path) -> None:
    """Forgets what snapshots hold, at once; a replica does it when it writes one."""
    with closing(sqlite3.connect(path, timeout=5.0)) as connection, connection:
        connection.execute(
            "DELETE FROM batch WHERE EXISTS (SELECT 1 FROM snapshot WHERE snapshot.service = batch.service"
            " AND snapshot.kind = batch.kind AND snapshot.id = batch.id AND first + count - 1 <= snapshot.sequence)"
        )
        connection.execute("UPDATE store SET compacted = revision")


class SqliteHarness:
    """The `EventStoreHarness` of the SQLite store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._host = system_host()
        self.ttl_seconds = 1.5
        self._opened: dict[SqliteStore, Faults] = {}

    @property
    def clock(self) -> Clock:
        return self._host.clock

    async def open(self) -> SqliteStore:
        faults = Faults()
        store = SqliteStore(self._path, self._host, faults.connect)
        self._opened[store] = faults
        return store

    async def compact(self) -> None:
        await asyncio.to_thread(_compact, self._path)

    async def restore(self) -> None:
        await asyncio.to_thread(begin_incarnation, self._path, 0, self.clock.elapsed())

    async def silence(self, store: EventStore) -> None:
        async def unanswered(session: str) -> bool:
            raise StoreUnavailable("no answer")

        replaced: Callable[..., object] = unanswered
        vars(store)["renew"] = replaced

    async def interrupt(self, store: EventStore) -> None:
        self._faults(store).interrupted = True

    async def mend(self, store: EventStore) -> None:
        self._faults(store).interrupted = False

    async def lose_answer(self, store: EventStore, *, happens: bool) -> None:
        self._faults(store).lose_commit = happens

    async def lose_batch(self, history: HistoryId, sequence: int) -> None:
        connection = sqlite3.connect(self._path)
        with connection:
            found = connection.execute(
                "DELETE FROM batch WHERE service = ? AND kind = ? AND id = ? AND ? BETWEEN first AND first + count - 1",
                (*history, sequence),
            )
            assert found.rowcount == 1
        connection.close()

    async def close(self) -> None:
        """Closes every client."""
        for store in self._opened:
            await store.close()

    def _faults(self, store: EventStore) -> Faults:
        assert isinstance(store, SqliteStore)
        return self._opened[store]


def run_on_sqlite(body: Body, directory: Path) -> None:
    """Runs a body over a fresh file."""

    async def run() -> None:
        harness = SqliteHarness(directory / "state" / "store.db")
        try:
            await body(harness)
        finally:
            await harness.close()

    asyncio.run(run())
