"""Identities of processes and holders of locks, against real ones."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from braid.host.file_stamps import FileStamp
from braid.stores.sqlite_process import (
    Activity,
    ProcessIdentity,
    ThreadActivity,
    _holder,
    activity,
    boot_id,
    end_process,
    is_dead,
    is_stalled,
    pid_namespace,
    this_process,
    told_of_end,
    write_lock_holder,
)
from tests.support.freezer import Freezer


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


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _end_told(process: ProcessIdentity, end: Callable[[], None]) -> bool:
    """Whether the end of a process, which this brings about, is told of soon."""
    told = asyncio.Event()
    with told_of_end(process, told.set):
        end()
        try:
            await asyncio.wait_for(told.wait(), 20.0 if is_dead(process) else 0.1)
        except TimeoutError:
            return False
    return True


async def test_the_end_of_a_process_is_told_of_at_once(child: subprocess.Popen[bytes]) -> None:
    identity = _identity(child.pid)
    assert not await _end_told(identity, lambda: None), "it runs"
    assert await _end_told(identity, child.kill)
    assert await _end_told(identity, lambda: None), "it is a zombie"
    child.wait()
    assert await _end_told(identity, lambda: None), "it is gone"


async def test_the_end_of_another_under_its_number_is_not_told_of(child: subprocess.Popen[bytes]) -> None:
    identity = _identity(child.pid)
    assert await _end_told(identity._replace(started=identity.started - 1), lambda: None), "it has ended long ago"
    assert not await _end_told(identity._replace(namespace="pid:[1]"), child.kill), "it cannot be judged"


async def test_who_listens_no_more_keeps_no_descriptor(child: subprocess.Popen[bytes]) -> None:
    with told_of_end(_identity(child.pid), child.kill):
        during = _descriptors()
    assert _descriptors() == during - 1


def test_a_process_is_ended_if_it_is_that_very_process(child: subprocess.Popen[bytes]) -> None:
    identity = _identity(child.pid)
    assert not end_process(identity._replace(started=identity.started + 1)), "another process of that pid was ended"
    assert end_process(identity)
    assert child.wait() == -signal.SIGKILL
    assert not end_process(identity)


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A process that wakes up again and again, and hardly uses a CPU."""
    process = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.02)"])
    yield process
    process.kill()
    process.wait()


def _stalls(pid: int, database: Path, seconds: float = 0.5) -> bool:
    before = activity(pid, database)
    assert before is not None
    time.sleep(seconds)
    now = activity(pid, database)
    return now is not None and is_stalled(before, now)


def test_a_stopped_process_is_stalled_and_a_waking_one_is_not(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    database = tmp_path / "s.db"
    _wait(lambda: not _stalls(busy.pid, database))
    busy.send_signal(signal.SIGSTOP)
    _wait(lambda: _stalls(busy.pid, database))
    busy.send_signal(signal.SIGCONT)
    _wait(lambda: not _stalls(busy.pid, database))
    assert activity(1 << 22, database) is None


def test_a_process_that_a_cgroup_froze_is_stalled(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """By the real freezer where this machine lets us make a group; what the kernel tells of it is below, too."""
    database, freezer = tmp_path / "s.db", Freezer.made(f"braid-test-{os.getpid()}")
    if freezer is None:
        return
    try:
        freezer.take(busy.pid)
        freezer.freeze()
        _wait(lambda: _stalls(busy.pid, database))
    finally:
        freezer.thaw()
        busy.kill()
        busy.wait()
        freezer.remove()


SLEEPING, HUNG = ThreadActivity("S", 5, 100), ThreadActivity("D", 7, 200)
RAN = Activity(9, {1: SLEEPING, 2: HUNG}, None)


@pytest.mark.parametrize(
    ("now", "stalled"),
    [
        (RAN, True),
        (RAN._replace(started=10), False),  # another process of that number
        (RAN._replace(threads={1: ThreadActivity("T", 5, 100), 2: ThreadActivity("T", 7, 200)}), True),
        (
            RAN._replace(threads={1: ThreadActivity("R", 5, 100), 2: HUNG}, log=FileStamp(1, 1, 1, 1)),
            False,
        ),  # it waits for a CPU
        (RAN._replace(threads={1: ThreadActivity("S", 5, 190), 2: HUNG}), True),  # its loop goes on, the disk hangs
        (
            RAN._replace(threads={1: ThreadActivity("S", 5, 190), 2: HUNG}, log=FileStamp(9, 9, 9, 9)),
            False,
        ),  # and it commits
        (RAN._replace(threads={1: SLEEPING, 2: ThreadActivity("D", 7, 201)}), False),  # a slow disk
        (RAN._replace(threads={1: SLEEPING, 2: ThreadActivity("D", 8, 200)}), False),
        (RAN._replace(threads={1: ThreadActivity("S", 5, 101), 2: ThreadActivity("S", 7, 200)}), False),
        (
            RAN._replace(threads={1: SLEEPING, 2: HUNG, 3: SLEEPING}, log=FileStamp(9, 9, 9, 9)),
            False,
        ),  # it made another thread
    ],
)
def test_who_makes_no_progress_is_told_from_who_is_slow(now: Activity, stalled: bool) -> None:
    assert is_stalled(RAN, now) is stalled


def test_what_the_kernel_tells_of_a_frozen_process_is_read(tmp_path: Path) -> None:
    """The input was recorded of a process in a frozen group of cgroup v1 (threads in state D), and of v2 (state S)."""
    for pid, state in ((11, "D"), (12, "S")):
        for number in (pid, pid + 100):
            task = tmp_path / str(pid) / "task" / str(number)
            task.mkdir(parents=True)
            fields = " ".join([state, *["0"] * 10, "3", "4", *["0"] * 6, "777", *["0"] * 20])
            for place in (task, tmp_path / str(pid)):
                (place / "stat").write_text(f"{number} (a (b) c) {fields}\n", encoding="ascii")
            switches = "voluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n"
            (task / "status").write_text(f"Name:\tpython\n{switches}", encoding="ascii")
        found = activity(pid, tmp_path / "s.db", tmp_path)
        assert found == Activity(777, dict.fromkeys((pid, pid + 100), ThreadActivity(state, 7, 42)), None)
        assert is_stalled(found, found)


def test_a_lock_on_another_device_is_of_another_file() -> None:
    line = ["1:", "POSIX", "ADVISORY", "WRITE", "4711", "fe:01:99", "120", "120"]
    assert _holder(line, {99: False}, {(254, 1)}) == 4711
    assert _holder(line, {99: False}, {(254, 2), (1, 254)}) is None
    assert _holder(line, {98: False}, {(254, 1)}) is None


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
