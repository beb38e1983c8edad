"""Starts child processes that cannot outlive this one: the kernel kills them when we die, even by kill -9.

Linux only remembers the *thread* that created a child (PR_SET_PDEATHSIG), so every child is created by one thread that
lives as long as the process. On other systems children are plain.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

# Runs in a fresh interpreter before the program: asks for the signal, then makes sure the parent was not gone before.
_WRAPPER: Final = (
    "import ctypes, os, signal, sys\n"
    "parent = int(sys.argv[1])\n"
    "if sys.platform == 'linux':\n"
    "    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)\n"
    "if os.getppid() != parent:\n"
    "    os._exit(1)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)

_lock = threading.Lock()
_spawners: dict[int, ThreadPoolExecutor] = {}


def _spawner() -> ThreadPoolExecutor:
    """The one thread of this process (by pid: a fork has its own) that creates children."""
    with _lock:
        if os.getpid() not in _spawners:
            _spawners[os.getpid()] = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawn")
        return _spawners[os.getpid()]


def spawn_guarded(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a command in its own session, output appended to `log`; SIGKILL reaches it when this process dies.

    The own session keeps a terminal's Ctrl-C from it: its owner stops it in order.

    Args:
        command: Program (looked up on PATH) and arguments. It must not be a script that forks and waits.
        log: File that gets standard output and error.
        environment: The whole environment; this process's own when None.
    """
    argv = [sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), *command]

    def create() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )

    return _spawner().submit(create).result()
