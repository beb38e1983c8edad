"""The `braid` command, as a person runs it against a mesh of real processes."""

import asyncio
import os
import subprocess
import sys
from typing import Final

from devmesh.mesh import DevMesh
from tests.support.planted import checked

CALL_SECONDS: Final = 60.0
_BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")


async def printed(mesh: DevMesh, line: str, *, quietly: bool = False) -> str:
    """The output of a command that must succeed; `quietly` if it may not warn either."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    command = [*_BRAID, *line.split(), "--endpoint", mesh.ready.endpoint]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=environment, timeout=CALL_SECONDS
    )
    checked(done, f"the output of braid {line}")
    assert done.returncode == 0 and not (quietly and done.stderr), f"braid {line}: {done}"
    return done.stdout
