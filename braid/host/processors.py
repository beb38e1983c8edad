"""The processors that this process may use, the CPU time that it has used, and how long it waited for a processor."""

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Final

from braid.kernel.limits.client import CPU_FILES_KEPT_MAX

_V2: Final = Path("sys/fs/cgroup")
_V1: Final = Path("sys/fs/cgroup/cpu")
_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")  # nanoseconds on a processor, and ready to run without one
_SCHEDSTAT_BYTES: Final = 96  # three numbers of 64 bits


class SystemCpu:
    """CPU clocks of the kernel; the number of processors is read once."""

    def __init__(self, schedstat: Path = _SCHEDSTAT) -> None:
        """`schedstat` is where the kernel tells how long the calling thread waited for a processor."""
        self._cores = usable_cores()
        self._schedstat = schedstat
        self._threads = threading.local()
        self._kept = 0

    def process_seconds(self) -> float:
        """CPU seconds of all threads, in user and kernel mode."""
        return time.process_time()

    def thread_seconds(self) -> float:
        """CPU seconds of the calling thread."""
        return time.thread_time()

    def thread_delay_seconds(self) -> float:
        """Seconds in the run queue, by the kernel; time that a quota of the control group takes counts, too."""
        reader = getattr(self._threads, "reader", None)
        if reader is None and self._kept < CPU_FILES_KEPT_MAX:
            self._kept += 1
            reader = self._threads.reader = _RunDelay(self._schedstat)
        return (reader or _RunDelay(self._schedstat)).seconds()

    def cores(self) -> float:
        """Processors by affinity, or less where a control group has a quota."""
        return self._cores


class _RunDelay:
    """Reads how long one thread waited in the run queue, from a file that is open as long as this lives.

    A thread whose file cannot be opened, because the process has too many, has no delay: its handler goes on.
    """

    def __init__(self, schedstat: Path = _SCHEDSTAT) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(schedstat, os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        """Returns the seconds since the thread began."""
        if self._file < 0:
            return 0.0
        return int(os.pread(self._file, _SCHEDSTAT_BYTES, 0).split()[1]) / 1e9

    def __del__(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):  # the process ends
                os.close(self._file)


def system_cpu(schedstat: Path = _SCHEDSTAT) -> SystemCpu | None:
    """Returns the CPU clocks of this process; None where the kernel does not tell how long threads wait for one.

    Without that, a processor that others take would look like a handler that waits. Wall time is the better measure
    then.

    Args:
        schedstat: Where the kernel tells it of the calling thread.
    """
    words = _read(schedstat).split()
    on = len(words) >= 3 and all(word.isdecimal() for word in words) and int(words[2]) > 0  # turns on a processor
    return SystemCpu(schedstat) if on else None


def usable_cores(root: Path = Path("/")) -> float:
    """Returns how many processors this process may use.

    Args:
        root: Where the control groups are mounted.
    """
    quotas = [quota for group in _control_groups(root) if (quota := _quota(group)) is not None]
    return min([float(len(os.sched_getaffinity(0))), *quotas])


def _control_groups(root: Path) -> list[Path]:
    """Returns the directories of the process's control groups, from its own up to the mount."""
    found = [root / _V2, root / _V1]  # in a container the mount is its own group
    text = _read(root / "proc/self/cgroup")
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / (_V1 if controllers else _V2)
        own = mount / path.lstrip("/")
        found += [each for each in (own, *own.parents) if each.is_relative_to(mount)]
    return found


def _quota(group: Path) -> float | None:
    """Returns a control group's quota in processors; None where it has none, or none that can be read."""
    words = _read(group / "cpu.max").split() or [
        *_read(group / "cpu.cfs_quota_us").split(),
        *_read(group / "cpu.cfs_period_us").split(),
    ]
    try:
        quota, period = (float(word) for word in words)
    except ValueError:
        return None  # `max`, which is no quota
    return quota / period if quota > 0 and period > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
