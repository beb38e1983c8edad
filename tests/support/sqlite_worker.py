"""A process that uses one SQLite store, for tests that kill and stop real ones (`python -m` this module).

It says what it did on its standard output, one line each.
"""

import argparse
import asyncio
import signal
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from braid.host.system import system_host
from braid.kernel.errors import Conflict
from braid.kernel.ports import Endpoint, Fence, HistoryId
from braid.stores.sqlite import SqliteStore
from braid.stores.sqlite_database import connect_file

WAIT_SECONDS = 600.0  # longer than any test


class StoppingConnection(sqlite3.Connection):
    """Stops its process just before a commit that has a batch in it."""

    _appended = False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Runs SQL, or stops."""
        if sql == "COMMIT" and self._appended:
            _stop_inside()
        self._appended = sql.startswith("INSERT INTO batch") or (self._appended and sql != "COMMIT")
        return super().execute(sql, *parameters)


def _connect_stopping(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, factory=StoppingConnection)


class WaitingConnection(StoppingConnection):
    """Waits there instead, until somebody freezes it."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Runs SQL, or waits."""
        if sql == "COMMIT" and self._appended:
            _say("waiting inside")
            time.sleep(WAIT_SECONDS)
            self._appended = False
        return super().execute(sql, *parameters)


def _connect_waiting(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, factory=WaitingConnection)


def _stop_inside() -> None:
    """Sent to this very thread: sent to the process, another thread might take it and this one go on a little."""
    _say("stopping inside")
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _say(line: str) -> None:
    print(line, flush=True)


async def append(store: SqliteStore, options: argparse.Namespace) -> None:
    """Appends `count` numbered events under somebody's fence, loading again on each conflict."""
    history, fence = HistoryId(options.service, "stream", "logs"), Fence(options.service, options.fence)
    conflicts = 0
    for number in range(options.count):
        while True:
            sequence = (await store.load(history)).sequence
            try:
                await store.append(history, [f"{options.name}-{number}".encode()], sequence, fence)
            except Conflict:
                conflicts += 1
                continue
            break
    _say(f"done {conflicts}")


async def lead(store: SqliteStore, options: argparse.Namespace) -> None:
    """Leads, appends once, and goes on until it is killed."""
    session = await store.open_session(options.ttl)
    _say("campaigning")
    endpoint = Endpoint(options.service, options.name, f"{options.name}:1")
    await store.publish(endpoint, session)
    leader = await store.campaign(endpoint, session)
    history = HistoryId(options.service, "stream", "logs")
    _say(f"leading {leader.fence.revision}")
    sequence = (await store.load(history)).sequence
    await store.append(history, [options.name.encode()], sequence, leader.fence)
    _say("appended")
    await session.lost()
    _say("lost")


async def hold(store: SqliteStore, options: argparse.Namespace) -> None:
    """Holds the write lock without being known to the store, and stops."""
    connection = connect_file(Path(options.path))
    connection.execute("BEGIN IMMEDIATE")
    _stop_inside()
    connection.execute("ROLLBACK")
    connection.close()
    _say("released")


async def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["append", "lead", "stop-inside", "wait-inside", "hold"])
    parser.add_argument("path")
    parser.add_argument("--name", default="worker")
    parser.add_argument("--service", default="registry")
    parser.add_argument("--fence", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--ttl", type=float, default=3.0)
    options = parser.parse_args()
    connect = {"stop-inside": _connect_stopping, "wait-inside": _connect_waiting}.get(options.what, connect_file)
    store = SqliteStore(Path(options.path), system_host(), connect)
    await {"append": append, "hold": hold}.get(options.what, lead)(store, options)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
