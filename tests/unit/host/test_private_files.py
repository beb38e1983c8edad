"""Stores, backups, the index of dead letters and archives are for their owner alone, whatever the umask."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.archive.directory import DirectoryArchive
from braid.host import private_files
from braid.host.system import system_host
from braid.stores.etcd import backup as etcd_backup
from braid.stores.sqlite import SqliteStore
from braid.stores.sqlite_backup import back_up, restore
from services.dlq.index.letter_index import LetterIndex


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """An environment in which new files are readable by everybody, unless created otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> set[str]:
    """Modes of a directory and of all that is below it."""
    found = [directory, *directory.rglob("*")]
    return {f"{'d' if each.is_dir() else 'f'}{each.stat().st_mode & 0o777:o}" for each in found}


async def test_a_store_and_its_backups_are_private(tmp_path: Path) -> None:
    path, host = tmp_path / "store" / "braid.db", system_host()
    store = SqliteStore(path, host)
    await store.mesh()
    assert {each.name for each in path.parent.iterdir()} == {"braid.db", "braid.db-wal", "braid.db-shm"}
    assert modes(path.parent) == {"d700", "f600"}
    file = tmp_path / "store.backup"
    back_up(path, file)
    await store.close()
    assert file.stat().st_mode & 0o777 == 0o600
    restore(tmp_path / "again" / "braid.db", file, host.clock.now_ms(), host.clock.elapsed())
    assert modes(tmp_path / "again") == {"d700", "f600"}


def test_a_backup_of_etcd_is_private(tmp_path: Path) -> None:
    etcd_backup._write(tmp_path / "etcd.backup", [(b"key", b"value")])
    assert (tmp_path / "etcd.backup").stat().st_mode & 0o777 == 0o600


def test_an_index_of_dead_letters_is_private(tmp_path: Path) -> None:
    index = LetterIndex(tmp_path / "dlq" / "index", "mesh")
    assert modes(tmp_path / "dlq") == {"d700", "f600"}
    index.close()


def test_an_index_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    LetterIndex(Path(":memory:"), "mesh").close()
    assert list(tmp_path.iterdir()) == []


async def test_an_archive_is_private(tmp_path: Path) -> None:
    async def mesh() -> str:
        return "m1"

    archive = DirectoryArchive(tmp_path / "archive", mesh, system_host().tasks)
    await archive.put("stream/logs/1", b"events")
    assert modes(tmp_path / "archive") == {"d700", "f600"}


def test_what_is_there_keeps_its_mode_and_content(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "file"
    path.write_text("mine")
    path.chmod(0o640)
    private_files.make_directory(tmp_path)
    private_files.make_file(path)
    assert (path.read_text(), path.stat().st_mode & 0o777, tmp_path.stat().st_mode & 0o777) == ("mine", 0o640, 0o755)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_a_crash_left_open_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_text("left by a crash, longer than what follows")
    path.chmod(0o666)
    with private_files.write_file(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)


def test_making_a_file_again_drops_no_lock_of_sqlite(tmp_path: Path) -> None:
    """A close of any descriptor of a file drops the process's locks on it."""
    path = tmp_path / "db"
    private_files.make_file(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN IMMEDIATE")
    private_files.make_file(path)
    before = _locks(path)
    assert before, "the lock is held"
    holder.execute("COMMIT")
    assert before != _locks(path)
    holder.close()


def _locks(path: Path) -> list[str]:
    """Locks on a file as the kernel lists them."""
    inode = f":{path.stat().st_ino} "
    return [line for line in Path("/proc/locks").read_text().splitlines() if inode in f"{line} "]
