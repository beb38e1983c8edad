"""Writes what it finds around itself into the file that its first argument names, then ends as the second one says."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from braid._mesh import mesh_command
from devmesh.processes.guard import preloaded, spawn_guarded
from tests.support import planted
from tests.support.forkable import LOADED_IN


def main() -> int:
    """Tells, and ends: with an exit code, by an error, or when it is told to."""
    target, how = sys.argv[1:]
    print("to standard output")
    print("to standard error", file=sys.stderr)
    told = {
        "name": __name__,
        "arguments": sys.argv[1:],
        "directory": str(Path.cwd()),
        "environment": {name: value for name, value in os.environ.items() if name != planted.ENVIRONMENT},
        "loaded in": LOADED_IN,
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "files": sorted(Path(f"/proc/self/fd/{each}").readlink().as_posix() for each in open_files()),
    }
    whole = Path(f"{target}.part")
    whole.write_text(json.dumps(told))
    whole.rename(target)
    if how == "raise":
        raise ValueError("as asked")
    if how == "fork":
        return fork(f"{target}-of-fork")
    while how == "wait":
        time.sleep(1.0)
    return int(how)


def fork(target: str) -> int:
    """Has a fork of its own do the same; returns that one's exit code."""
    with preloaded([__package__]):
        child = spawn_guarded(mesh_command(__package__, target, "7"), Path(f"{target}.log"))
        return child.wait()


def open_files() -> list[int]:
    """Numbers of files that are open."""
    return [int(each.name) for each in Path("/proc/self/fd").iterdir() if each.is_symlink() and each.exists()]


if __name__ == "__main__":
    sys.exit(main())
