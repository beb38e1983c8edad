"""Requests to a fork server: what is asked for, and how it travels over a socket of one machine."""

import array
import marshal
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from devmesh.limits import FORK_REQUEST_BYTES_MAX

_HEAD_BYTES: Final = 8
_FILES: Final = 2


class ForkRequest(NamedTuple):
    """A process that a server is asked to fork.

    Attributes:
        requester: Process id of the asking process, which becomes the parent.
        command: What the process would be started with: the interpreter and its arguments.
        module: Runs as `__main__`.
        arguments: What it finds in `sys.argv[1:]`.
        directory: Where it runs.
        environment: All variables it gets.
    """

    requester: int
    command: Sequence[str]
    module: str
    arguments: Sequence[str]
    directory: str
    environment: Mapping[str, str]


def send_request(wire: socket.socket, request: ForkRequest, output: int, leave: int) -> None:
    """Sends a request, and two open files: its output, and the pipe from which it reads that it may begin.

    Raises:
        ValueError: it has more bytes than a server reads.
        OSError: the other side has closed.
    """
    requester, command, module, arguments, directory, environment = request
    parts = (requester, list(command), module, list(arguments), directory, dict(environment))
    data = marshal.dumps(parts)
    if len(data) > FORK_REQUEST_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes of arguments and variables")
    socket.send_fds(wire, [len(data).to_bytes(_HEAD_BYTES, "big")], [output, leave])
    wire.sendall(data)


def receive_request(wire: socket.socket) -> tuple[ForkRequest, int, int] | None:
    """Waits for a request; returns it with its open files, or None when the other side has closed.

    Raises:
        ConnectionError: the other side broke off within a request.
    """
    space = socket.CMSG_SPACE(_FILES * array.array("i").itemsize)
    head, ancillary, _, _ = wire.recvmsg(_HEAD_BYTES, space)
    if not head:
        return None
    passed = array.array("i")
    passed.frombytes(ancillary[0][2])
    output, leave = passed
    head += receive_exactly(wire, _HEAD_BYTES - len(head))
    data = receive_exactly(wire, int.from_bytes(head, "big"))
    return ForkRequest(*marshal.loads(data)), output, leave


def send_pid(wire: socket.socket, pid: int) -> None:
    """Answers a request; 0 says that there is no process."""
    wire.sendall(pid.to_bytes(_HEAD_BYTES, "big"))


def receive_pid(wire: socket.socket) -> int:
    """Waits for the answer. Raises `OSError` when there will be none."""
    return int.from_bytes(receive_exactly(wire, _HEAD_BYTES), "big")


def receive_exactly(wire: socket.socket, size: int) -> bytes:
    """Reads a number of bytes. Raises `ConnectionError` when the other side closes first."""
    data = b""
    while len(data) < size:
        part = wire.recv(size - len(data))
        if not part:
            raise ConnectionError("the other side has closed")
        data += part
    return data


def close_all(*files: int) -> None:
    """Closes open files by their numbers."""
    for each in files:
        os.close(each)
