"""The processors that this process may use, and the CPU time that it has used."""

import os
import time
from pathlib import Path
from typing import Final

_V2: Final = Path("sys/fs/cgroup")
_V1: Final = Path("sys/fs/cgroup/cpu")


class SystemCpu:
    """CPU clocks of the kernel; the number of processors is read once."""

    def __init__(self) -> None:
        self._cores = usable_cores()

    def process_seconds(self) -> float:
        """CPU seconds of all threads, in user and kernel mode."""
        return time.process_time()

    def thread_seconds(self) -> float:
        """CPU seconds of the calling thread."""
        return time.thread_time()

    def cores(self) -> float:
        """Processors by affinity, or less where a control group has a quota."""
        return self._cores


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
