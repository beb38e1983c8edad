"""Faults that only a store in a file can have: damage, disappearance, replacement, locks, other boots."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Compacted, CorruptHistory, OutcomeUnknown, StoreUnavailable
from braid.kernel.ports import Endpoint, HistoryId, Leader, Snapshot
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
