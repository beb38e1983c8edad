"""Local meshes for tests: started in a temporary directory, ended afterwards, their logs shown when a test fails.

Also: which processes of a mesh are left, whatever happened to it.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from devmesh.mesh import DevMesh

GONE_SECONDS = 10.0


@contextmanager
def running_mesh(
    directory: Path,
    *,
    clusters: Sequence[str] = ("east", "west"),
    store: str = "sqlite",
    registries: int = 2,
    assigners: int = 2,
    lagmons: int = 0,
    dlqs: int = 0,
) -> Iterator[DevMesh]:
    """A mesh in which everything answers. For fixtures of any scope: it belongs to no event loop."""
    mesh = DevMesh(
        directory,
        clusters=clusters,
        store=store,
        registries=registries,
        assigners=assigners,
        lagmons=lagmons,
        dlqs=dlqs,
    )
    try:
        asyncio.run(mesh.up(print))
        yield mesh
    finally:
        if processes_of(directory):
            asyncio.run(mesh.down())
        show_logs(directory)


def processes_of(directory: Path) -> list[psutil.Process]:
    """Live processes of a mesh: those that name its directory in their arguments or environment."""
    needle = str(directory)
    return [process for process in psutil.process_iter() if _names(process, needle)]


def wait_gone(directory: Path) -> None:
    """Waits until no process of a mesh is left; fails naming those that are."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := processes_of(directory):
        assert time.monotonic() < deadline, f"left running: {[process.cmdline() for process in left]}"
        time.sleep(0.05)


def show_logs(directory: Path, lines: int = 15) -> None:
    """Prints the end of every log; pytest shows it when the test fails."""
    for path in sorted(directory.rglob("*.log")):
        tail = path.read_text(errors="replace").splitlines()[-lines:]
        print(f"--- {path.relative_to(directory)}", *tail, sep="\n")


def _names(process: psutil.Process, needle: str) -> bool:
    try:
        if process.pid == psutil.Process().pid or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if any(needle in argument for argument in process.cmdline()):
            return True
        return any(name.startswith("BRAID_") and needle in value for name, value in process.environ().items())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
