"""The side that asks a fork server: one socket, one question at a time, and an end to all of it when that fails."""

import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from braid._mesh import mesh_command
from devmesh.limits import FORK_SECONDS
from devmesh.processes.forks.child import Child, ForkedChild
from devmesh.processes.forks.forked import LEAVE, adopt_orphans
from devmesh.processes.forks.requests import ForkRequest, close_all, receive_pid, send_request
from devmesh.processes.forks.server import fork_here, server_command


class ForkClient:
    """Asks a server for processes of its modules. One thread uses it.

    Args:
        modules: What the server has loaded, or is about to load.
        start: Starts a command with one more open file, which is passed on; asked where this process cannot be forked.
    """

    def __init__(self, modules: Sequence[str], start: Callable[[Sequence[str], int], Child]) -> None:
        self._modules = frozenset(modules)
        self._server: Child
        here = fork_here(modules)
        if here is not None:
            self._wire, self._server = here[0], ForkedChild(here[1], server_command(modules))
        else:
            self._wire, theirs = socket.socketpair()
            with theirs:
                self._server = start(server_command(modules, str(theirs.fileno())), theirs.fileno())
        self._wire.settimeout(FORK_SECONDS)
        self._open = True

    def serves(self, modules: Sequence[str]) -> bool:
        """Whether its server has loaded all of these modules, or is about to."""
        return self._modules.issuperset(modules)

    def fork(self, command: Sequence[str], output: int, environment: Mapping[str, str]) -> ForkedChild | None:
        """A child of this process that runs a command of a loaded module; None where it must start as a program."""
        prefix = mesh_command("")[:-1]
        module, *arguments = [*command[len(prefix) :], ""][: max(1, len(command) - len(prefix))]
        if not self._open or list(command[: len(prefix)]) != prefix or module not in self._modules:
            return None
        try:
            here = str(Path.cwd())  # raises where it was deleted
            return self._ask(ForkRequest(os.getpid(), command, module, arguments, here, environment), output)
        except (OSError, ValueError):
            self.close()
            return None

    def close(self) -> None:
        """Ends the server, and waits for its end. What it forked stays."""
        if self._open:
            self._open = False
            self._wire.close()
            self._server.send_signal(signal.SIGKILL)
            self._server.wait()

    def _ask(self, request: ForkRequest, output: int) -> ForkedChild | None:
        leave, leaving = os.pipe()
        adopt_orphans(True)
        try:
            send_request(self._wire, request, output, leave)
            pid = receive_pid(self._wire)
            if pid == 0:
                return None
            # Raises where the kernel gave it to another process: then it must not begin.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.write(leaving, LEAVE)
            return ForkedChild(pid, request.command)
        finally:
            adopt_orphans(False)
            close_all(leave, leaving)
