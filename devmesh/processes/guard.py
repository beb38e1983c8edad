"""Starts child processes that cannot outlive this one: the kernel kills them when we die, even by kill -9.

Linux only remembers the *thread* that created a child (PR_SET_PDEATHSIG), so every child is created by one thread that
lives as long as the process. On other systems children are plain.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devmesh.processes.forks.child import Child
from devmesh.processes.forks.client import ForkClient

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

_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1"}  # else numpy starts more with its first import

_lock = threading.Lock()
_spawners: dict[int, ThreadPoolExecutor] = {}
_forks: dict[int, ForkClient] = {}  # by the process that asks, as above


def _spawner() -> ThreadPoolExecutor:
    """The one thread of this process (by pid: a fork has its own) that creates children."""
    with _lock:
        if os.getpid() not in _spawners:
            _spawners[os.getpid()] = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawn")
        return _spawners[os.getpid()]


@contextmanager
def preloaded(modules: Sequence[str]) -> Iterator[None]:
    """Has a process load modules of the mesh, of which `spawn_guarded` then forks: it starts them in no time.

    Where a fork cannot be had, they start as programs do. A process that was forked so itself forks its own server at
    once; so it must have opened nothing yet, no loop and no channel. What was forked stays when this ends. Within
    another one that loads the same modules it does nothing.
    """
    outer = _forks.get(os.getpid())
    if sys.platform != "linux" or (outer is not None and outer.serves(modules)):
        yield
        return
    if outer is not None:
        raise RuntimeError("another process that forks has loaded other modules")
    _forks[os.getpid()] = ForkClient(modules, _start_server)
    try:
        yield
    finally:
        forks = _forks.pop(os.getpid(), None)
        if forks is not None:
            _spawner().submit(forks.close).result()


def _start_server(command: Sequence[str], file: int) -> Child:
    def create() -> Child:
        return subprocess.Popen(
            _guarded(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            pass_fds=(file,),
            start_new_session=True,
        )

    return _spawner().submit(create).result()


def spawn_guarded(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Child:
    """Starts a command in its own session, output appended to `log`; SIGKILL reaches it when this process dies.

    The own session keeps a terminal's Ctrl-C from it: its owner stops it in order.

    Args:
        command: Program (looked up on PATH) and arguments. It must not be a script that forks and waits.
        log: File that gets standard output and error.
        environment: The whole environment; this process's own when None.
    """

    def create() -> Child:
        variables = dict(os.environ if environment is None else environment)
        forks = _forks.get(os.getpid())
        with log.open("ab") as output:
            forked = forks.fork(command, output.fileno(), variables) if forks is not None else None
            return forked or subprocess.Popen(
                _guarded(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )

    return _spawner().submit(create).result()


def end_guarded(process: Child, seconds: float) -> None:
    """Ends a child in order (SIGTERM), and by force where it takes longer than `seconds`."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _guarded(command: Sequence[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), *command]
