"""Identities of processes and holders of locks, against real ones."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from braid.stores.sqlite_process import (
    ProcessIdentity,
    boot_id,
    end_process,
    is_dead,
    pid_namespace,
    start_of_stopped,
    this_process,
    write_lock_holder,
)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0  # ends a hang
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def _identity(pid: int) -> ProcessIdentity:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return ProcessIdentity(boot_id(), pid_namespace(), pid, int(fields[19]))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_this_process_lives() -> None:
    assert this_process().pid == os.getpid()
    assert not is_dead(this_process())


def test_another_boot_and_another_start_are_dead() -> None:
    mine = this_process()
    assert is_dead(mine._replace(boot="an earlier one"))
    assert is_dead(mine._replace(started=mine.started - 1))


def test_a_process_of_another_namespace_cannot_be_judged() -> None:
    assert not is_dead(this_process()._replace(namespace="pid:[1]", pid=1, started=-1))


def test_a_killed_process_is_dead_before_its_parent_looks(child: subprocess.Popen[bytes]) -> None:
    identity = _identity(child.pid)
    assert not is_dead(identity)
    child.kill()
    _wait(lambda: is_dead(identity))
    child.wait()
    assert is_dead(identity)


def test_a_stopped_process_is_seen_and_ended(child: subprocess.Popen[bytes]) -> None:
    identity = _identity(child.pid)
    assert start_of_stopped(child.pid) is None
    child.send_signal(signal.SIGSTOP)
    _wait(lambda: start_of_stopped(child.pid) == identity.started)
    assert not end_process(identity._replace(started=identity.started + 1)), "another process of that pid was ended"
    assert end_process(identity)
    assert child.wait() == -signal.SIGKILL
    assert not end_process(identity)


def test_the_holder_of_the_write_lock_is_known(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    assert write_lock_holder(path) is None
    connection.execute("BEGIN IMMEDIATE")
    assert write_lock_holder(path) == os.getpid()
    connection.execute("COMMIT")
    assert write_lock_holder(path) is None
    connection.close()
    assert write_lock_holder(tmp_path / "other.db") is None
