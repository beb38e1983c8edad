"""A fork that becomes a process of its own: its session, directory, variables, output, name and parent.

It is born as a grandchild of the fork server. When its own parent has ended, the kernel hands it to the process that
asked for it (PR_SET_CHILD_SUBREAPER), which from then on waits for it and ends it as for any child.
"""

import ctypes
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from devmesh.processes.forks.requests import ForkRequest, close_all

LEAVE: Final = b"g"
_ENDED_EARLY: Final = 1
_SUBREAPER: Final = 36  # prctl(2)
_DEATH_SIGNAL: Final = 1


def adopt_orphans(yes: bool) -> None:
    """Lets the kernel give this process the orphans of its children, or not any longer."""
    _prctl(_SUBREAPER, int(yes))


def die_with(parent: int) -> None:
    """Ends with this process's parent, by SIGKILL; at once when that is another than named."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(_ENDED_EARLY)


def become(request: ForkRequest, output: int, leave: int) -> None:
    """Waits until it may begin, and makes this process what was asked for; `run` then runs its module."""
    os.setsid()
    if os.read(leave, 1) != LEAVE:
        os._exit(_ENDED_EARLY)  # its parent has gone without a word
    die_with(request.requester)
    for number in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(output, number)
    close_all(output, leave)
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    show(request.command, request.environment)


def run(request: ForkRequest) -> NoReturn:
    """Runs the module as `python -m` does. Raises `SystemExit` at its end, or whatever it raised."""
    sys.argv = [sys.argv[0], *request.arguments]
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    sys.exit()


def show(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Has tools such as `ps` show a command and variables, as far as there is room where the kernel keeps them.

    What they show is the beginning of this process's own memory of arguments and variables (`proc_pid_cmdline(5)`). A
    last byte that is no zero says that arguments are one text, which ends at the first zero.
    """
    try:
        first, last, variables, end = _bounds()
    except (OSError, ValueError):
        return
    title = " ".join(command).encode(errors="surrogateescape")[: last - first - 2]
    ctypes.memmove(first, title.ljust(last - first - 1, b"\0") + b".", last - first)
    named = b"".join(f"{name}={value}\0".encode(errors="surrogateescape") for name, value in _own_first(environment))
    ctypes.memmove(variables, named[: end - variables - 1].ljust(end - variables, b"\0"), end - variables)


def _own_first(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(environment.items(), key=lambda item: not item[0].startswith("BRAID_"))


def _bounds() -> tuple[int, int, int, int]:
    """Where arguments begin and end, and variables (`arg_start` to `env_end` of `proc_pid_stat(5)`)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    first, last, variables, end = (int(field) for field in fields[45:49])
    if not 0 < first < last <= variables < end:
        raise ValueError(fields)
    return first, last, variables, end


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
