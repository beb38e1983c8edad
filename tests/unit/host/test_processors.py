"""Processors that a process may use: by affinity, and by the quotas of its control groups."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from braid.host.processors import SystemCpu, system_cpu, usable_cores
from braid.kernel.limits.client import CPU_FILES_KEPT_MAX

_MEBIBYTE = bytes(1 << 20)


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        pytest.param({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5, id="a container's own group"),
        pytest.param(
            {"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/cpu.max": "25000 100000\n"},
            0.25,
            id="the group above its own",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "3:memory:/m\n2:cpu,cpuacct:/web\n",
                "sys/fs/cgroup/cpu/web/cpu.cfs_quota_us": "75000\n",
                "sys/fs/cgroup/cpu/web/cpu.cfs_period_us": "100000\n",
            },
            0.75,
            id="a group of the first version",
        ),
    ],
)
def test_a_quota_of_a_control_group_counts(tmp_path: Path, files: dict[str, str], cores: float) -> None:
    assert usable_cores(machine(tmp_path, files)) == cores


@pytest.mark.parametrize(
    "text", ["max 100000\n", "", "many of them\n", "50000\n", "0 100000\n", "-1 100000\n", "1 0\n"]
)
def test_without_a_readable_quota_the_affinity_counts(tmp_path: Path, text: str) -> None:
    files = {"sys/fs/cgroup/cpu.max": text, "proc/self/cgroup": "odd\n0::/../../etc\n"}
    assert usable_cores(machine(tmp_path, files)) == len(os.sched_getaffinity(0))


def test_cpu_clocks_of_this_process_grow_with_work() -> None:
    cpu = SystemCpu()
    process, thread = cpu.process_seconds(), cpu.thread_seconds()
    while cpu.thread_seconds() - thread < 0.005:
        sum(range(1000))
    assert cpu.process_seconds() - process >= 0.004
    assert 0 < cpu.cores() <= (os.cpu_count() or 1)


def test_threads_that_wait_for_a_processor_are_seen() -> None:
    """Two threads that compute outside of Python's lock share one processor: each waits for the other."""
    cpu, allowed = SystemCpu(), os.sched_getaffinity(0)
    found: list[tuple[float, float]] = []

    def compute() -> None:
        os.sched_setaffinity(0, {min(allowed)})  # of this thread alone
        used, delay = cpu.thread_seconds(), cpu.thread_delay_seconds()
        while cpu.thread_seconds() - used < 0.1:
            hashlib.sha256(_MEBIBYTE)
        found.append((cpu.thread_seconds() - used, cpu.thread_delay_seconds() - delay))

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(delay for _, delay in found) > 0.05


@pytest.mark.parametrize("text", [None, "", "0 0 0\n", "12 7\n", "a b c\n"])
def test_a_kernel_that_tells_no_delays_measures_no_cpu_time(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    assert system_cpu(tmp_path / "schedstat") is None


def test_a_kernel_that_tells_delays_measures_cpu_time(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("0 2247323 1\n")
    cpu = system_cpu(tmp_path / "schedstat")
    assert cpu is not None and cpu.thread_delay_seconds() == 0.002247323


def test_a_bounded_number_of_files_stays_open(tmp_path: Path) -> None:
    """A pool of many threads must not take the files that the process needs for its connections."""
    schedstat, told = tmp_path / "schedstat", list[float]()
    schedstat.write_text("0 5000000000 1\n")
    cpu, read, done = SystemCpu(schedstat), threading.Barrier(31), threading.Event()

    def look() -> None:
        told.append(cpu.thread_delay_seconds())
        read.wait(20)
        done.wait(20)

    threads = [threading.Thread(target=look) for _ in range(30)]
    for thread in threads:
        thread.start()
    read.wait(20)
    links = [Path(each.path) for each in os.scandir("/proc/self/fd")]
    kept = sum(os.path.realpath(each) == str(schedstat) for each in links)
    done.set()
    for thread in threads:
        thread.join()
    assert told == [5.0] * 30
    assert 0 < kept <= CPU_FILES_KEPT_MAX


def test_a_thread_that_can_open_no_file_has_no_delay(tmp_path: Path) -> None:
    """A process with too many open files goes on handling records."""
    assert SystemCpu(tmp_path / "absent").thread_delay_seconds() == 0.0
