"""The process that forks: it loads modules, has one thread and no channel, and then obeys one socket until that closes.

Two ways lead here. `python -m braid._mesh devmesh.processes.forks SOCKET MODULE …` loads them; a process that has
them loaded, because it is a fork itself, forks its server. gRPC allows it as long as nothing of it was opened.
"""

import gc
import importlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from braid._mesh import mesh_command
from devmesh.limits import FORK_NAME_BYTES
from devmesh.processes.forks.forked import become, die_with, run, show
from devmesh.processes.forks.requests import (
    close_all,
    receive_request,
    send_pid,
)

PACKAGE: Final = "devmesh.processes.forks"
_PID_BYTES: Final = 8
_loaded: set[str] = set()


def load(modules: Sequence[str]) -> None:
    """Loads what modules need; each fork then runs its own as `__main__`."""
    for module in modules:
        name = f"{module}.__main__"
        importlib.import_module(name)
        del sys.modules[name]
        _loaded.add(module)
    gc.collect()
    gc.freeze()  # forks share memory that no collection touches


def serve(wire: socket.socket) -> NoReturn:
    """Forks at each request. A fork, too, ends here: with its module's `SystemExit`."""
    if _threads() > 1:
        sys.exit("a fork would lose the other threads of this process")  # whoever asks starts a program instead
    while (received := receive_request(wire)) is not None:
        request, output, leave = received
        if _fork(wire, output, leave):
            wire.close()
            become(request, output, leave)
            run(request)
    sys.exit()


def _fork(wire: socket.socket, output: int, leave: int) -> bool:
    """Forks a grandchild that its grandparent's parent inherits; tells its process id. Returns True in that process."""
    heard, told = os.pipe()
    try:
        between = os.fork()
    except OSError:
        close_all(heard, told, output, leave)
        send_pid(wire, 0)
        return False
    if between == 0:
        os.close(heard)
        _become_orphan(told)
        os.close(told)
        return True
    close_all(told, output, leave)
    data = os.read(heard, _PID_BYTES)
    os.close(heard)
    os.waitpid(between, 0)  # from here on the orphan has its new parent
    send_pid(wire, int.from_bytes(data, "big"))
    return False


def _become_orphan(told: int) -> None:
    """Forks once more, and returns in that fork."""
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(told, pid.to_bytes(_PID_BYTES, "big"))
        os._exit(0)


def fork_here(modules: Sequence[str]) -> tuple[socket.socket, int] | None:
    """Forks a server from this process, which must own nothing that a fork could not: no loop, no channel, no thread.

    Returns:
        The socket to ask it by, and its process id; None where this process has not loaded the modules. In the fork
        this never returns.
    """
    if not _loaded.issuperset(modules) or _threads() > 1:
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        theirs.close()
        return ours, pid
    ours.close()
    os.setsid()
    die_with(parent)
    show(server_command(modules), os.environ)
    serve(theirs)


def _threads() -> int:
    """How many threads this process has, Python's and others."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def server_command(modules: Sequence[str], *arguments: str) -> list[str]:
    """The command that `main` runs for. It ends with blanks: forks of it show their own names in that room."""
    return mesh_command(PACKAGE, *arguments, *modules, " " * FORK_NAME_BYTES)


def main(arguments: Sequence[str]) -> NoReturn:
    """Loads modules, then forks for the process at the other end of the socket."""
    file, *modules, _ = arguments
    wire = socket.socket(fileno=int(file))
    load(modules)
    serve(wire)
