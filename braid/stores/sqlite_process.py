"""Which process holds what: identities that survive the reuse of pids, and who holds a file's write lock.

Linux only: read from `/proc`. A process of another pid namespace cannot be judged and counts as alive.
"""

import os
import signal
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_STARTED_FIELD: Final = 19  # of /proc/<pid>/stat, counted after the command's name (proc_pid_stat(5): field 22)
_DEAD_STATES: Final = ("Z", "X", "x")
_STOPPED_STATES: Final = ("T", "t")
_WAL_WRITE_LOCK: Final = 120  # byte of the -shm file (sqlite.org/walformat.html, "WAL locks")


class ProcessIdentity(NamedTuple):
    """One process, ever.

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


class _Stat(NamedTuple):
    state: str
    started: int


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


def start_of_stopped(pid: int) -> int | None:
    """The start time of a process that is stopped (SIGSTOP, or a debugger) now; None when it is not."""
    stat = _stat(pid)
    return stat.started if stat and stat.state in _STOPPED_STATES else None


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


def write_lock_holder(database: Path) -> int | None:
    """The pid that holds the write lock of a SQLite database in WAL mode, as the kernel's table of locks shows it."""
    wanted: dict[int, bool] = {}
    for path, whole in ((database, True), (database.with_name(database.name + "-shm"), False)):
        if path.exists():
            wanted[path.stat().st_ino] = whole
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        holder = _holder(line.split(), wanted)
        if holder is not None:
            return holder
    return None


def _holder(fields: list[str], wanted: dict[int, bool]) -> int | None:
    """Reads one line: `1: POSIX ADVISORY WRITE <pid> <major>:<minor>:<inode> <first> <last>` (proc_locks(5))."""
    if len(fields) < 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
        return None
    inode = int(fields[5].rpartition(":")[2])
    if inode not in wanted:
        return None
    last = float("inf") if fields[7] == "EOF" else int(fields[7])
    return int(fields[4]) if wanted[inode] or int(fields[6]) <= _WAL_WRITE_LOCK <= last else None


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[_STARTED_FIELD]))
