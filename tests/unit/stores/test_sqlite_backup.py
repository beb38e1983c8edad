"""Backup and restore of a store in a SQLite file."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from braid.host.system import system_host
from braid.kernel.errors import CorruptHistory, Invalid, Refused, StoreUnavailable
from braid.kernel.ports import Endpoint, HistoryId, Leader
from braid.stores.backups import TEN_MINUTES_MS
from braid.stores.sqlite import SqliteStore
from braid.stores.sqlite_backup import back_up, begin_incarnation, read_facts, restore

LOGS = HistoryId("registry", "stream", "logs")
NOW_MS = 1_800_000_000_000


async def append(path: Path, *events: bytes) -> str:
    """Appends to a history by a leader that then ends; returns the mesh's id."""
    store = SqliteStore(path, system_host())
    session = await store.open_session(5.0)
    await store.publish(Endpoint("registry", "registry-0", "here:1"), session)
    leader: Leader = await store.campaign(Endpoint("registry", "registry-0", "here:1"), session)
    loaded = await store.load(LOGS)
    await store.append(LOGS, events, loaded.sequence, leader.fence)
    mesh = await store.mesh()
    await session.close()
    await store.close()
    return mesh


async def events(path: Path) -> list[bytes]:
    store = SqliteStore(path, system_host())
    found = list((await store.load(LOGS)).events)
    await store.close()
    return found


def put_back(path: Path, file: Path, **how: bool) -> int:
    facts, _ = restore(path, file, NOW_MS, system_host().clock.elapsed(), **how)
    return facts.incarnation


async def test_a_restore_keeps_the_mesh_and_begins_an_incarnation(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "backup"
    mesh = await append(path, b"1")
    assert back_up(path, file).mesh == mesh
    await append(path, b"2")
    assert put_back(path, file, dry_run=True) == 2
    assert await events(path) == [b"1", b"2"]
    assert put_back(path, file) == 2
    assert await events(path) == [b"1"]
    assert await append(path, b"other") == mesh
    assert put_back(path, file) == 3
    assert read_facts(path).mesh == mesh
    assert await events(tmp_path / "store.db.before-2") == [b"1", b"2"]


async def test_revisions_go_on_beyond_those_of_the_replaced_store(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "backup"
    await append(path, b"1")
    back_up(path, file)
    put_back(path, file)
    store = SqliteStore(path, system_host())
    before = (await store.load(LOGS)).revision
    await store.close()
    put_back(path, file)
    store = SqliteStore(path, system_host())
    assert (await store.load(LOGS)).revision > before
    await store.close()


async def test_a_store_that_is_lost_becomes_the_backup(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "backup"
    mesh = await append(path, b"1")
    back_up(path, file)
    path.unlink()
    assert put_back(path, file) == NOW_MS // TEN_MINUTES_MS
    assert (await events(path), read_facts(path).mesh) == ([b"1"], mesh)


async def test_a_backup_of_another_mesh_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path, other, file = tmp_path / "store.db", tmp_path / "other.db", tmp_path / "backup"
    mesh, stranger = await append(path, b"1"), await append(other, b"2")
    back_up(other, file)
    with pytest.raises(Invalid) as refused:
        put_back(path, file)
    assert refused.value.message == f"{file} is a backup of mesh {stranger}, this store belongs to mesh {mesh}"
    assert (await events(path), read_facts(path).incarnation) == ([b"1"], 1)


async def test_nothing_is_restored_while_services_run(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "backup"
    await append(path, b"1")
    back_up(path, file)
    store = SqliteStore(path, system_host())
    session = await store.open_session(5.0)
    await store.publish(Endpoint("dlq", "dlq-0", "here:2"), session)
    with pytest.raises(Refused, match="services use the store: dlq-0"):
        put_back(path, file)
    with pytest.raises(Refused):
        begin_incarnation(path, NOW_MS, system_host().clock.elapsed())
    await session.close()
    await store.close()
    assert begin_incarnation(path, NOW_MS, system_host().clock.elapsed()).incarnation == NOW_MS // TEN_MINUTES_MS


def test_no_incarnation_begins_where_there_is_no_store(tmp_path: Path) -> None:
    elapsed = system_host().clock.elapsed()
    (tmp_path / "empty.db").touch()
    for name in ("missing.db", "empty.db"):
        with pytest.raises(StoreUnavailable, match="there is no store"):
            begin_incarnation(tmp_path / name, NOW_MS, elapsed)
    assert not (tmp_path / "missing.db").exists()
    (tmp_path / "diary.db").write_bytes(b"Dear diary, " * 100)
    with pytest.raises(CorruptHistory, match=r"diary\.db"):
        begin_incarnation(tmp_path / "diary.db", NOW_MS, elapsed)


async def test_a_file_put_back_twice_gets_a_new_incarnation_each_time(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy"
    mesh = await append(path, b"1")
    back_up(path, copy)
    found = []
    for day in range(2):
        path.unlink()
        shutil.copy(copy, path)
        facts = begin_incarnation(path, NOW_MS + day * 86_400_000, system_host().clock.elapsed())
        found.append(facts.incarnation)
        assert (facts.mesh, await events(path)) == (mesh, [b"1"])
    assert 1 < found[0] < found[1]


async def test_files_that_are_no_backups_are_refused(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "backup"
    await append(path, b"1")
    back_up(path, file)
    with pytest.raises(Invalid, match="exists already"):
        back_up(path, file)
    with pytest.raises(Invalid, match="there is no file"):
        put_back(path, tmp_path / "none")
    with pytest.raises(StoreUnavailable, match="there is no store"):
        back_up(tmp_path / "none", tmp_path / "new")
    text = tmp_path / "text"
    text.write_text("no backup at all" * 100)
    with pytest.raises((Invalid, CorruptHistory)):
        put_back(path, text)
    strange = tmp_path / "strange.db"
    with sqlite3.connect(strange) as connection:
        connection.execute("CREATE TABLE x (y)")
    with pytest.raises(Invalid, match="not a Braid store"):
        put_back(path, strange)
    data = bytearray(file.read_bytes())
    data[4096:8192] = bytes(4096)
    file.write_bytes(data)
    with pytest.raises((Invalid, CorruptHistory)):
        put_back(path, file)
    assert await events(path) == [b"1"]
