"""Processors that a process may use: by affinity, and by the quotas of its control groups."""

import os
from pathlib import Path

import pytest

from braid.host.processors import SystemCpu, usable_cores


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
