"""The `braid` command, as a person runs it against a mesh of real processes; loaded once for all tests of a process."""

import asyncio
import atexit
import os
import subprocess
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from devmesh.mesh import DevMesh
from tests.support.planted import checked
from tests.support.preloaded import preloaded

CALL_SECONDS: Final = 60.0


@cache
def loaded_command() -> Path:
    """The command, which ends with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    directory = stack.enter_context(TemporaryDirectory())
    return stack.enter_context(preloaded(Path(directory))) / "braid"


async def printed(mesh: DevMesh, line: str, *, quietly: bool = False) -> str:
    """The output of a command that must succeed; `quietly` if it may not warn either."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    command = [str(loaded_command()), *line.split(), "--endpoint", mesh.ready.endpoint]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=environment, timeout=CALL_SECONDS
    )
    checked(done, f"the output of braid {line}")
    assert done.returncode == 0 and not (quietly and done.stderr), f"braid {line}: {done}"
    return done.stdout
