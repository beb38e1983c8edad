"""Chooses free ports for a mesh. Meshes that start side by side agree by lock files, because a port stays unbound while
a JVM starts.

The locks live in the machine's temporary directory and end with the process, however it ends.
"""

import errno
import fcntl
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Self

from braid.kernel.errors import Exhausted, Refused
from devmesh.limits import DEV_POLL_SECONDS, DEV_PORT_WAIT_SECONDS, DEV_PORTS_TRIED_MAX


class PortClaims:
    """The ports this process has claimed, until it is closed.

    Args:
        directory: Of the lock files; by default one of this user, the same for every mesh of the machine.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or Path(tempfile.gettempdir()) / f"braid-ports-{os.getuid()}"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim_above(self, first: int) -> int:
        """The first free port from `first` on.

        Raises:
            Exhausted: there is none within reach.
        """
        for port in range(first, min(first + DEV_PORTS_TRIED_MAX, 1 << 16)):
            if self._try(port):
                return port
        raise Exhausted(f"no port from {first} on is free", remedy="choose another --port")

    def claim_exactly(self, port: int) -> int:
        """This port.

        Raises:
            Refused: it is in use.
        """
        if not self._try(port):
            raise Refused(f"port {port} is in use", remedy="choose another --port, or end its user")
        return port

    def claim_again(self, port: int, first: int) -> int:
        """The port of the last run, waiting a moment for a mesh that was killed just now; else one from `first` on."""
        deadline = time.monotonic() + DEV_PORT_WAIT_SECONDS
        while not self._try(port):
            if time.monotonic() > deadline:
                return self.claim_above(first)
            time.sleep(DEV_POLL_SECONDS)
        return port

    def close(self) -> None:
        """Lets go of all."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _try(self, port: int) -> bool:
        if port in self._held:
            return False
        descriptor = os.open(self._directory / str(port), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        if not is_free(port):
            os.close(descriptor)
            return False
        self._held[port] = descriptor
        return True


def is_free(port: int) -> bool:
    """Whether nobody listens on the port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
