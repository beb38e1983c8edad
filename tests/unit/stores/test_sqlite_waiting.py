"""How a SQLite store waits: what wakes its watches and candidates, what does not, and what waits for the disk."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from braid.host.system import system_host
from braid.kernel.errors import StoreUnavailable
from braid.kernel.limits.store import SQLITE_POLL_SECONDS
from braid.kernel.ports import Endpoint, HistoryId, Leader
from braid.stores import sqlite_histories as tables
from braid.stores.sqlite import SqliteStore

LOGS = HistoryId("registry", "stream", "logs")
REPLICA = Endpoint("registry", "a", "a:1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db", system_host())
    yield opened
    await opened.close()


async def _lead(store: SqliteStore) -> Leader:
    return await store.campaign(REPLICA, await store.open_session(30.0))


class Counted(sqlite3.Connection):
    """Notes what is read of histories and of leaderships."""

    reads: list[str]

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """See `sqlite3`."""
        if "compacted FROM store" in sql or "FROM leader" in sql:
            self.reads.append(sql)
        return super().execute(sql, *parameters)


def _counting(reads: list[str]) -> Callable[[Path], sqlite3.Connection]:
    def connect(path: Path) -> sqlite3.Connection:
        made = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, factory=Counted)
        made.reads = reads
        return made

    return connect


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches and candidates read only when a commit is announced."""
    for module in ("sqlite", "sqlite_news"):
        monkeypatch.setattr(f"braid.stores.{module}.SQLITE_LOOK_SECONDS", 3600.0)


@pytest.mark.usefixtures("unasked")
async def test_renewals_of_sessions_let_all_who_wait_sleep(tmp_path: Path) -> None:
    reads: list[str] = []
    path = tmp_path / "s.db"
    waiter, writer = SqliteStore(path, system_host(), _counting(reads)), SqliteStore(path, system_host())
    leader = await _lead(writer)
    session = await writer.open_session(30.0)
    waiting = asyncio.ensure_future(waiter.campaign(Endpoint("registry", "b", "b:1"), await waiter.open_session(30.0)))
    watching = waiter.watch("registry", 0)
    first = asyncio.ensure_future(anext(watching))
    await writer.append(LOGS, [b"one"], 0, leader.fence)
    assert (await first).first == 1
    second = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(10 * SQLITE_POLL_SECONDS)  # they read once more, and find nothing
    reads.clear()
    for _ in range(5):
        assert await writer.renew(session.id)
        await asyncio.sleep(2 * SQLITE_POLL_SECONDS)
    assert reads == []
    await writer.append(LOGS, [b"two"], 1, leader.fence)
    assert (await asyncio.wait_for(second, 20.0)).first == 2, "an append wakes it"
    await writer.resign(leader)
    assert (await asyncio.wait_for(waiting, 20.0)).endpoint.instance == "b", "so does a free leadership"
    await waiter.close()
    await writer.close()


@pytest.mark.usefixtures("unasked")
async def test_a_candidate_leads_once_the_leaders_time_is_over(tmp_path: Path) -> None:
    reads: list[str] = []
    path, clock = tmp_path / "s.db", system_host().clock
    candidate, holder = SqliteStore(path, system_host(), _counting(reads)), SqliteStore(path, system_host())
    begun = clock.elapsed()
    session = await holder.open_session(0.5)
    await holder.campaign(REPLICA, session)
    vars(holder)["renew"] = _unanswered
    won = await candidate.campaign(Endpoint("registry", "b", "b:1"), await candidate.open_session(30.0))
    assert won.endpoint.instance == "b"
    assert clock.elapsed() - begun >= 0.5
    assert len(reads) < 12, "it waits for the very moment"
    await candidate.close()
    await holder.close()


async def _unanswered(session: str) -> bool:
    raise StoreUnavailable("no answer")


async def test_signs_of_life_wait_for_no_disk_and_appends_do(tmp_path: Path) -> None:
    commits: list[tuple[str, int]] = []

    class Watched(sqlite3.Connection):
        wrote = ""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                commits.append((self.wrote, super().execute("PRAGMA synchronous").fetchone()[0]))
            self.wrote = next((each for each in ("UPDATE session", "INSERT INTO batch") if each in sql), self.wrote)
            return super().execute(sql, *parameters)

    def connect(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, factory=Watched)

    store = SqliteStore(tmp_path / "s.db", system_host(), connect)
    session = await store.open_session(30.0)
    leader = await store.campaign(REPLICA, session)
    for sequence in range(2):
        commits.clear()
        assert await store.renew(session.id)
        await store.append(LOGS, [b"one"], sequence, leader.fence)
        normal, full = 1, 2  # sqlite.org/pragma.html#pragma_synchronous
        assert commits == [("UPDATE session", normal), ("INSERT INTO batch", full)]
    await store.close()


async def test_a_commit_that_is_not_told_of_is_seen_by_a_look(store: SqliteStore, tmp_path: Path) -> None:
    leader = await _lead(store)
    watching = store.watch("registry", 0)
    news = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(10 * SQLITE_POLL_SECONDS)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        tables.append(connection, LOGS, [b"quiet"], 0, leader.fence, system_host().clock.elapsed())
        connection.execute("COMMIT")
    begun = time.monotonic()
    assert (await asyncio.wait_for(news, 20.0)).events == (b"quiet",)
    print(f"seen {time.monotonic() - begun:.3f} s after an untold commit")


@pytest.mark.usefixtures("unasked")
async def test_a_closed_store_lets_its_watch_go_on_waiting(store: SqliteStore) -> None:
    leader = await _lead(store)
    await store.append(LOGS, [b"one"], 0, leader.fence)
    watching = store.watch("registry", 0)
    await anext(watching)
    idle = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(3 * SQLITE_POLL_SECONDS)
    async with asyncio.timeout(20.0):
        await store.close()
    assert not idle.done()
    idle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await idle
