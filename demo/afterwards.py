"""Prints how to use a mesh that the demo leaves running."""

from collections.abc import Iterator
from pathlib import Path

from braid.host.console_links import sign_in_url
from braid.kernel.errors import BraidError
from demo.traffic.shipper import STREAM
from devmesh.documents import Ready


def ways_to_go_on(ready: Ready, braid_command: str, now_ms: int) -> Iterator[str]:
    """How to see the stream in a browser and in a terminal, and how to end the mesh.

    Args:
        ready: The mesh that stays.
        braid_command: The command as people would type it here.
        now_ms: The present moment: a link to the console is over five minutes later.
    """
    directory = Path(ready.dir)
    shown = directory.relative_to(Path.cwd()) if directory.is_relative_to(Path.cwd()) else directory
    if ready.console:
        try:
            link = sign_in_url(ready.console, directory / "console", f"/streams/{STREAM}", now_ms)
        except BraidError:  # the console is ending, or its key is not readable: the next line says how to try again
            link = ready.console
        yield f"see it:       {link}"
        yield f"later:        {braid_command} open stream/{STREAM} --dir {shown}"
    variables = " ".join(f"{name}={value}" for name, value in ready.environment.items())
    yield f"look around:  {variables} {braid_command} describe stream {STREAM}"
    yield f"end it:       {braid_command} dev down --dir {shown}"
