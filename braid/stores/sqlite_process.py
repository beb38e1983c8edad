"""Identities of processes that survive the reuse of pids, and the holder of a file's write lock.

Linux only: read from `/proc`. A process of another pid namespace cannot be judged and counts as alive.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from braid.host.file_stamps import FileStamp, file_stamp

_PROC: Final = Path("/proc")
_STARTED_FIELD: Final = 19  # of /proc/<pid>/stat, counted after the command's name (proc_pid_stat(5): field 22)
_DEAD_STATES: Final = ("Z", "X", "x")
_TICKS_FIELDS: Final = slice(11, 13)  # of the same file: CPU time in user and in kernel mode
_RUNNABLE: Final = "R"
_UNINTERRUPTIBLE: Final = "D"
_WAL_WRITE_LOCK: Final = 120  # byte of the -shm file (sqlite.org/walformat.html, "WAL locks")


class ProcessIdentity(NamedTuple):
    """The identity of one process, for all time.

    Attributes:
        boot: The kernel's boot id.
        namespace: The pid namespace the pid counts in.
        pid: Its number.
        started: When it started, clock ticks after boot.
    """

    boot: str
    namespace: str
    pid: int
    started: int


class ThreadActivity(NamedTuple):
    """The activity of a thread so far: CPU ticks, how often it left a CPU, and its state, a letter of `/proc`."""

    state: str
    ticks: int
    switches: int

    @property
    def done(self) -> tuple[int, int]:
        """Grows whenever the thread runs."""
        return self.ticks, self.switches


class Activity(NamedTuple):
    """The activity of a process so far by thread, and its database's write-ahead log, which every commit changes."""

    started: int
    threads: Mapping[int, ThreadActivity]
    log: FileStamp | None


class _Stat(NamedTuple):
    state: str
    started: int
    ticks: int


@cache
def boot_id() -> str:
    """Identifies the running kernel's boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@cache
def pid_namespace() -> str:
    """Identifies the pid namespace of this process."""
    return str(Path("/proc/self/ns/pid").readlink())


def this_process() -> ProcessIdentity:
    """The identity of the running process."""
    pid = os.getpid()
    stat = _stat(pid)
    return ProcessIdentity(boot_id(), pid_namespace(), pid, stat.started if stat else 0)


def is_dead(process: ProcessIdentity) -> bool:
    """Whether the process has certainly ended."""
    if process.boot != boot_id():
        return True
    if process.namespace != pid_namespace():
        return False
    stat = _stat(process.pid)
    return stat is None or stat.started != process.started or stat.state in _DEAD_STATES


def activity(pid: int, database: Path, proc: Path = _PROC) -> Activity | None:
    """Reads the activity of a process so far; None when it is gone. `proc` is the kernel's process directory."""
    stat = _stat(pid, proc)
    if stat is None:
        return None
    threads: dict[int, ThreadActivity] = {}
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for each in (proc / str(pid) / "task").iterdir():
            if (found := _thread(each)) is not None:
                threads[int(each.name)] = found
    log = file_stamp(database.with_name(database.name + "-wal"))
    return Activity(stat.started, threads, log) if threads else None


def waits_for_disk(now: Activity) -> bool:
    """Whether a thread is in uninterruptible sleep, as in a write that a disk takes long for."""
    return any(each.state == _UNINTERRUPTIBLE for each in now.threads.values())


def is_stalled(before: Activity, now: Activity) -> bool:
    """Whether a process that holds a lock has made no progress between two looks, whatever keeps it from that.

    Either nothing of it ran at all, though it was not waiting for a CPU: it is stopped, traced, or frozen in a cgroup.
    Or one of its threads stayed in uninterruptible sleep and nothing was committed: a disk or a file server hangs under
    the transaction. A slow writer is neither: it runs, between its waits for the disk too.
    """
    if before.started != now.started:
        return False
    then = {number: each.done for number, each in before.threads.items()}
    runnable = any(each.state == _RUNNABLE for each in now.threads.values())
    if not runnable and then == {number: each.done for number, each in now.threads.items()}:
        return True
    stuck = [number for number, each in now.threads.items() if each.state == _UNINTERRUPTIBLE]
    unmoved = [number for number in stuck if then.get(number) == now.threads[number].done]
    return before.log == now.log and any(before.threads[number].state == _UNINTERRUPTIBLE for number in unmoved)


def end_process(process: ProcessIdentity) -> bool:
    """Kills exactly this process; False when it is gone already."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if is_dead(process):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextlib.contextmanager
def told_of_end(process: ProcessIdentity, ended: Callable[[], None]) -> Iterator[None]:
    """Calls back on the running loop when the process ends within the context, or has ended already.

    It cannot see a process in another pid namespace, and none while this process has no file descriptor left.
    """
    loop, descriptor = asyncio.get_running_loop(), _descriptor_of(process)

    def tell() -> None:
        loop.remove_reader(descriptor)
        ended()

    if descriptor >= 0:
        loop.add_reader(descriptor, tell)
    try:
        if is_dead(process):  # its number may be another's by now
            ended()
        yield
    finally:
        if descriptor >= 0:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _descriptor_of(process: ProcessIdentity) -> int:
    """A descriptor that is readable once the process has ended; -1 where there is none."""
    if process.boot != boot_id() or process.namespace != pid_namespace():
        return -1
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        return -1


def write_lock_holder(database: Path) -> int | None:
    """Returns the pid that holds the write lock of a SQLite database in WAL mode, from the kernel's table of locks."""
    wanted: dict[int, bool] = {}
    devices = _devices(database)
    for path, whole in ((database, True), (database.with_name(database.name + "-shm"), False)):
        if path.exists():
            wanted[path.stat().st_ino] = whole
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        holder = _holder(line.split(), wanted, devices)
        if holder is not None:
            return holder
    return None


def _devices(database: Path) -> frozenset[tuple[int, int]]:
    """Device numbers by which the kernel may name the database's file system: of its files, and of its mount.

    They differ on file systems of several volumes. The directory is opened, not the file: closing that would give up
    the locks of this process.
    """
    status = database.parent.stat()
    found = {(os.major(status.st_dev), os.minor(status.st_dev))}
    descriptor = os.open(database.parent, os.O_PATH)
    try:
        told = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").split()
        mount = told[told.index("mnt_id:") + 1]
    finally:
        os.close(descriptor)
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        number, _, device, *_ = line.split()
        if number == mount:
            major, _, minor = device.partition(":")
            found.add((int(major), int(minor)))
    return frozenset(found)


def _holder(fields: list[str], wanted: dict[int, bool], devices: Collection[tuple[int, int]]) -> int | None:
    """Reads one line: `1: POSIX ADVISORY WRITE <pid> <major>:<minor>:<inode> <first> <last>` (proc_locks(5))."""
    if len(fields) < 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
        return None
    major, minor, number = fields[5].split(":")
    inode = int(number)
    if inode not in wanted or (int(major, 16), int(minor, 16)) not in devices:
        return None
    last = float("inf") if fields[7] == "EOF" else int(fields[7])
    return int(fields[4]) if wanted[inode] or int(fields[6]) <= _WAL_WRITE_LOCK <= last else None


def _thread(directory: Path) -> ThreadActivity | None:
    stat = _read_stat(directory / "stat")
    try:
        lines = (directory / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if stat is None:
        return None
    switches = sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)
    return ThreadActivity(stat.state, stat.ticks, switches)


def _stat(pid: int, proc: Path = _PROC) -> _Stat | None:
    return _read_stat(proc / str(pid) / "stat")


def _read_stat(path: Path) -> _Stat | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[_STARTED_FIELD]), sum(map(int, fields[_TICKS_FIELDS])))
