"""Children of `devmesh.processes.guard` live exactly as long as their parent wants, and never longer than it."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded

_PARENT = """
import sys, time
from pathlib import Path
from devmesh.processes.guard import spawn_guarded
print(spawn_guarded(["sleep", "60"], Path(sys.argv[1])).pid, flush=True)
time.sleep(60)
"""
_ROOT = Path(__file__).parents[4]


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 60.0  # ends a hang
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.01)


def _wait_exec(child: psutil.Process) -> None:
    deadline = time.monotonic() + 60.0  # ends a hang
    while child.name() != "sleep":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.send_signal(signal.SIGKILL)
        _wait_gone(child)


def test_a_frozen_child_dies_with_its_parent_too(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        _wait_exec(child)
        child.suspend()
        parent.send_signal(signal.SIGKILL)
        _wait_gone(child.pid)


def test_a_child_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    children: list[Child] = []
    asking = threading.Thread(
        target=lambda: children.append(spawn_guarded(["sh", "-c", "echo begun; exec sleep 60"], tmp_path / "log"))
    )
    asking.start()
    asking.join()
    (child,) = children
    try:
        deadline = time.monotonic() + 60.0  # ends a hang
        while (tmp_path / "log").read_text() != "begun\n":
            assert child.poll() is None, "the child died with the thread"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_output_goes_to_the_log_and_the_environment_is_given(tmp_path: Path) -> None:
    child = spawn_guarded(["/bin/sh", "-c", "echo $WORD; echo $WORD >&2"], tmp_path / "log", {"WORD": "here"})
    assert child.wait(10.0) == 0
    assert (tmp_path / "log").read_text() == "here\nhere\n"
