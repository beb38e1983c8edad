"""Runs `braid` in forks of one process that has loaded it: a new interpreter takes most of a command's processor time.

For pages with dozens of commands, whose point is what the commands say. The tutorial and the README run the command as
it is installed. A fork has the caller's directory, variables, arguments and open files; signals reach it; its exit
status is the caller's. The process that is forked has no thread and no channel, as gRPC wants it.

`python -m tests.support.preloaded SOCKET` is that process.
"""

import array
import atexit
import importlib
import io
import marshal
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

import braid.cli
from testbed.patience import wait

ROOT: Final = Path(__file__).resolve().parents[2]
LOADED: Final = ("braid.client.mesh", "braid.client.consuming.consumer", "braid.client.producing.producer", "grpc.aio")
FILES: Final = (0, 1, 2)
PARTS_MAX: Final = 1 << 20  # bytes of a caller's arguments and variables
HEAD_BYTES: Final = 8
_BACKLOG: Final = 64
_LOOK_SECONDS: Final = 5.0
_KILLED: Final = 137  # as a shell says that a command was killed

# What callers start: it loads nothing, passes its own open files on, and then waits.
_CALLER: Final = """#!{python} -IS
import _socket, marshal, os, signal, sys
runs, told = 0, []
def forward(number, frame):
    told.append(number)
    pass_on(number)
def pass_on(number):
    try:
        runs and os.kill(runs, number)
    except ProcessLookupError:
        pass
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, forward)
wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
wire.connect({address!r})
said = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
files = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
wire.sendmsg([len(said).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
view = memoryview(said)
while view:
    view = view[wire.send(view):]
runs = int.from_bytes(wire.recv(8), "big")
for each in tuple(told):
    pass_on(each)
ended = wire.recv(1)
if ended:
    os._exit(ended[0])
if told:
    signal.signal(told[-1], signal.SIG_DFL)
    os.kill(os.getpid(), told[-1])
os._exit({killed})
"""


@contextmanager
def preloaded(directory: Path) -> Iterator[Path]:
    """Loads the command; gives a directory for `PATH` that has it. Ends everything that still runs of it."""
    address = directory / "calls"
    command = [sys.executable, "-m", "tests.support.preloaded", str(address)]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        wait(lambda: address.exists() or server.poll() is not None, "the command is loaded")
        assert server.poll() is None, f"it ended with {server.returncode}"
        caller = directory / "bin" / "braid"
        caller.parent.mkdir()
        caller.write_text(_CALLER.format(python=sys.executable, address=str(address), killed=_KILLED))
        caller.chmod(0o755)
        yield caller.parent
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def serve(address: str) -> NoReturn:
    """Loads all of the command, then forks for each caller."""
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: they tell their callers
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{address}.part")
        door.listen(_BACKLOG)
        door.settimeout(_LOOK_SECONDS)
        parent = os.getppid()
        Path(f"{address}.part").rename(address)
        while os.getppid() == parent:  # else nobody ends this
            try:
                wire, _ = door.accept()
            except TimeoutError:
                continue
            wire.setblocking(True)
            if os.fork() == 0:
                door.close()
                _play(wire)
            wire.close()
    sys.exit()


def load() -> None:
    """Imports every module that a verb may import later."""
    for each in pkgutil.walk_packages(braid.cli.__path__, "braid.cli."):
        importlib.import_module(each.name)
    for name in LOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork would lose the other threads"


def _play(wire: socket.socket) -> NoReturn:
    """Becomes a caller's command. The last byte it sends is its exit status."""
    status = [1]
    atexit.register(_tell, wire, status)
    arguments, directory, variables = _heard(wire)
    wire.sendall(os.getpid().to_bytes(HEAD_BYTES, "big"))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["braid", *arguments]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    said = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(said, "utf-8", "backslashreplace", line_buffering=True)
    try:
        braid.cli.main()
    except SystemExit as end:
        status[0] = end.code & 0xFF if isinstance(end.code, int) else int(end.code is not None)
        raise
    sys.exit()


def _tell(wire: socket.socket, status: Sequence[int]) -> None:
    """Ends a fork, when its threads have ended: what it printed is on its way before its caller goes on."""
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    with suppress(OSError):
        wire.sendall(bytes(status))


def _heard(wire: socket.socket) -> tuple[list[str], str, dict[str, str]]:
    """The caller's arguments, directory and variables; its files are this process's from here on."""
    head, ancillary, _, _ = wire.recvmsg(HEAD_BYTES, socket.CMSG_SPACE(len(FILES) * array.array("i").itemsize))
    passed = array.array("i")
    passed.frombytes(ancillary[0][2])
    for own, given in zip(FILES, passed, strict=True):
        os.dup2(given, own)
        os.close(given)
    size = int.from_bytes(head, "big")
    assert size <= PARTS_MAX, f"{size} bytes of arguments and variables"
    said = b""
    while len(said) < size:
        part = wire.recv(size - len(said))
        assert part, "the caller is gone"
        said += part
    arguments, directory, variables = marshal.loads(said)
    return arguments, directory, variables


if __name__ == "__main__":
    serve(sys.argv[1])
