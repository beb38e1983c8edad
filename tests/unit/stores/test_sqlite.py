"""Faults that only a store in a file can have: damage, disappearance, replacement, locks, other boots."""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Compacted, CorruptHistory, OutcomeUnknown, StoreUnavailable
from braid.kernel.limits.store import SQLITE_POLL_SECONDS
from braid.kernel.ports import Endpoint, HistoryId, Leader, Snapshot
from braid.stores import sqlite_histories as tables
from braid.stores.sqlite import SqliteStore
from braid.stores.sqlite_backup import begin_incarnation

LOGS = HistoryId("registry", "stream", "logs")
REPLICA = Endpoint("registry", "a", "a:1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db", system_host())
    yield opened
    await opened.close()


async def _lead(store: SqliteStore) -> Leader:
    return await store.campaign(REPLICA, await store.open_session(30.0))


async def _fill(path: Path, count: int = 60) -> None:
    """A store with some pages of events, closed."""
    store = SqliteStore(path, system_host())
    leader = await _lead(store)
    for sequence in range(count):
        await store.append(LOGS, [bytes(1000)], sequence, leader.fence)
    await store.close()


async def _load_error(path: Path) -> Exception:
    store = SqliteStore(path, system_host())
    try:
        await store.load(LOGS)
    except (CorruptHistory, StoreUnavailable) as error:
        return error
    finally:
        await store.close()
    raise AssertionError("it loaded")


@contextmanager
def _sql(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


# --- damage


@pytest.mark.parametrize("part", [0.02, 0.3, 0.9])
async def test_a_half_written_file_is_named_with_a_remedy(tmp_path: Path, part: float) -> None:
    path = tmp_path / "s.db"
    await _fill(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    error = await _load_error(path)
    assert isinstance(error, CorruptHistory)
    assert str(path) in error.message
    assert "backup" in error.remedy


async def test_a_file_of_something_else_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"Dear diary, " * 100)
    error = await _load_error(path)
    assert isinstance(error, CorruptHistory)
    assert "file is not a database" in str(error)
    assert path.read_bytes() == b"Dear diary, " * 100


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with _sql(path) as connection:
        connection.execute("CREATE TABLE diary (entry)")
    before = path.read_bytes()
    error = await _load_error(path)
    assert "not a Braid store" in str(error)
    assert path.read_bytes() == before


async def test_a_newer_releases_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _fill(path, 1)
    with _sql(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    error = await _load_error(path)
    assert "newer release" in str(error)


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.touch()
    await _fill(path, 1)


@pytest.mark.parametrize("change", ["UPDATE batch SET events = zeroblob(length(events))", "UPDATE batch SET crc = 1"])
async def test_flipped_bytes_of_a_batch_are_seen(tmp_path: Path, change: str) -> None:
    path = tmp_path / "s.db"
    await _fill(path, 3)
    with _sql(path) as connection:
        connection.execute(change + " WHERE first = 2")
    error = await _load_error(path)
    assert "begins with event 2 of history registry/stream/logs is damaged" in str(error)


async def test_flipped_bytes_of_a_snapshot_are_seen(store: SqliteStore, tmp_path: Path) -> None:
    leader = await _lead(store)
    await store.append(LOGS, [b"one"], 0, leader.fence)
    await store.save_snapshot(LOGS, Snapshot(1, b"state"), leader.fence)
    with _sql(tmp_path / "s.db") as connection:
        connection.execute("UPDATE snapshot SET data = x'00'")
    with pytest.raises(CorruptHistory, match="snapshot 1"):
        await store.load(LOGS)


async def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file" / "s.db") in str(await _load_error(tmp_path / "file" / "s.db"))
    assert str(tmp_path) in str(await _load_error(tmp_path))


# --- disappearance and replacement


async def test_a_file_that_vanished_is_not_made_anew(store: SqliteStore, tmp_path: Path) -> None:
    leader = await _lead(store)
    (tmp_path / "s.db").unlink()
    with pytest.raises(StoreUnavailable, match="is gone"):
        await store.append(LOGS, [b"one"], 0, leader.fence)
    with pytest.raises(StoreUnavailable, match="is gone"):
        await store.load(LOGS)
    assert not (tmp_path / "s.db").exists()


async def test_a_file_put_in_its_place_is_read_and_written(store: SqliteStore, tmp_path: Path) -> None:
    leader = await _lead(store)
    await store.append(LOGS, [b"old"], 0, leader.fence)
    revision = (await store.load(LOGS)).revision
    await _fill(tmp_path / "backup.db", 3)
    begin_incarnation(tmp_path / "backup.db", 0, system_host().clock.elapsed())
    (tmp_path / "s.db-wal").unlink()
    (tmp_path / "s.db-shm").unlink()
    (tmp_path / "backup.db").replace(tmp_path / "s.db")
    assert (await store.incarnation(), (await store.load(LOGS)).sequence) == (2, 3)
    with pytest.raises(Compacted):
        await anext(store.watch("registry", revision))
    assert (await _lead(store)).fence.revision > revision
    with _sql(tmp_path / "s.db") as connection:
        assert connection.execute("SELECT count(*) FROM leader").fetchone() == (1,)


class FullDisk(sqlite3.Connection):
    """No commit finds room while the disk is full."""

    full = False

    def execute(self, sql: str, *arguments: object) -> sqlite3.Cursor:
        """See `sqlite3`."""
        if sql == "COMMIT" and FullDisk.full:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(sql, *arguments)  # type: ignore[arg-type]


def _on_full_disk(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, factory=FullDisk)


async def test_a_commit_that_found_no_room_names_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "s.db", system_host(), _on_full_disk)
    try:
        leader = await _lead(store)
        monkeypatch.setattr(FullDisk, "full", True)
        with pytest.raises(OutcomeUnknown, match=r"the disk of the store .*s\.db is full"):
            await store.append(LOGS, [b"e"], 0, leader.fence)
        monkeypatch.setattr(FullDisk, "full", False)
        assert (await store.append(LOGS, [b"e"], 0, leader.fence)).sequence == 1
    finally:
        await store.close()


async def test_a_watch_from_beyond_the_store_is_refused(store: SqliteStore) -> None:
    with pytest.raises(Compacted):
        await anext(store.watch("registry", 1_000))


async def test_a_copy_of_the_file_is_a_backup(tmp_path: Path) -> None:
    await _fill(tmp_path / "s.db", 3)
    shutil.copy(tmp_path / "s.db", tmp_path / "copy.db")
    store = SqliteStore(tmp_path / "copy.db", system_host())
    assert (await store.load(LOGS)).sequence == 3
    await store.close()


# --- locks


async def test_a_write_waits_for_the_lock_and_reads_do_not(store: SqliteStore, tmp_path: Path) -> None:
    leader = await _lead(store)
    with _sql(tmp_path / "s.db") as connection:
        connection.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(store.append(LOGS, [b"one"], 0, leader.fence))
        for _ in range(20):
            assert (await store.load(LOGS)).sequence == 0
        assert not writing.done()
        connection.execute("ROLLBACK")
        assert (await writing).sequence == 1


async def test_a_lock_held_too_long_is_named_by_its_holder(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.stores.sqlite_database.STORE_CALL_SECONDS", 0.15)
    leader = await _lead(store)
    with _sql(tmp_path / "s.db") as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"is locked by process \d+"):
            await store.append(LOGS, [b"one"], 0, leader.fence)
    assert (await store.append(LOGS, [b"one"], 0, leader.fence)).sequence == 1


async def test_closing_does_not_wait_for_a_lock(store: SqliteStore, tmp_path: Path) -> None:
    leader = await _lead(store)
    with _sql(tmp_path / "s.db") as connection:
        connection.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(store.append(LOGS, [b"one"], 0, leader.fence))
        await asyncio.sleep(0.05)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await writing
    await store.close()
    with pytest.raises(StoreUnavailable, match="was closed"):
        await store.load(LOGS)


# --- sessions of others


@pytest.mark.parametrize(
    "change", ["boot = 'an earlier one'", "started = started + 1", "expires = 0.0", "pid = 4194305, started = 1"]
)
async def test_a_session_that_cannot_live_is_over_at_once(store: SqliteStore, tmp_path: Path, change: str) -> None:
    old = await _lead(store)
    session = await store.open_session(30.0)
    await store.publish(REPLICA, session)
    with _sql(tmp_path / "s.db") as connection:
        connection.execute(f"UPDATE session SET {change}")
    assert await store.leader("registry") is None
    assert list(await store.directory()) == []
    assert (await _lead(store)).fence.revision > old.fence.revision


async def test_batches_a_snapshot_replaced_stay_a_while_for_watchers(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.stores.sqlite_histories.WATCH_KEEP_REVISIONS", 4)
    leader = await _lead(store)
    revisions = [(await store.append(LOGS, [b"x"], sequence, leader.fence)).revision for sequence in range(8)]
    await store.save_snapshot(LOGS, Snapshot(8, b"s"), leader.fence)
    with pytest.raises(Compacted):
        await anext(store.watch("registry", revisions[3]))
    assert (await anext(store.watch("registry", revisions[4]))).revision == revisions[5]
    with _sql(tmp_path / "s.db") as connection:
        assert connection.execute("SELECT count(*) FROM batch").fetchone() == (3,)


async def test_a_watch_pages_through_a_long_tail(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.stores.sqlite_histories.WATCH_PAGE_BATCHES", 4)
    leader = await _lead(store)
    for sequence in range(12):
        await store.append(LOGS, [b"x"], sequence, leader.fence)
    watching = store.watch("registry", 0)
    assert [(await anext(watching)).first for _ in range(12)] == list(range(1, 13))


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
    """Watches and candidates read only when they are told of a commit."""
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
    with _sql(tmp_path / "s.db") as connection:
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
