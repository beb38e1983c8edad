"""Local meshes for tests: started in a temporary directory, ended afterwards, with logs shown if a test fails.

Also finds the remaining processes of a mesh, whatever happened to it.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from devmesh.blueprint import python_modules
from devmesh.mesh import DevMesh
from devmesh.processes.guard import preloaded
from testbed.patience import wait

GONE_SECONDS = 20.0
LOG_TAIL_BYTES = 16_384  # read of one log
LOG_LINE_CHARACTERS = 400  # shown of one line
LOG_LINES_MAX = 200  # shown of all logs together
_DATA = "data"  # directories of this name hold Kafka's and etcd's own files, of which some are called `.log`


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
    kafka_settings: Mapping[str, str] | None = None,
    kafka_version: str = "",
    secure: bool = False,
    console: bool = False,
) -> Iterator[DevMesh]:
    """A mesh in which everything answers. For fixtures of any scope: it belongs to no event loop.

    A cluster may be `east:3`, of three brokers; `kafka_settings` and `kafka_version` are for all brokers. It speaks
    plain text unless it is to be `secure`: many tests address one by its endpoint alone. A `console` is at a free port.
    """
    mesh = DevMesh(
        directory,
        clusters=clusters,
        store=store,
        registries=registries,
        assigners=assigners,
        lagmons=lagmons,
        dlqs=dlqs,
        kafka_settings=kafka_settings,
        kafka_version=kafka_version,
        secure=secure,
        console=0 if console else None,
    )
    try:
        asyncio.run(mesh.up(print))
        yield mesh
    finally:
        if processes_of(directory):
            asyncio.run(mesh.kill_supervisor())  # nobody looks at what is left; an orderly end takes seconds
        show_logs(directory)


def preloaded_meshes() -> AbstractContextManager[None]:
    """Has the supervisors and services of all meshes that this process starts forked from one that has loaded them."""
    return preloaded(["devmesh", *python_modules(console=True)])


def processes_of(directory: Path) -> list[psutil.Process]:
    """Live processes of a mesh: those that name its directory in their arguments or environment."""
    needle = str(directory)
    return [process for process in psutil.process_iter() if _names(process, needle)]


def wait_gone(directory: Path) -> None:
    """Waits until no process of a mesh is left; fails with the names of those that are."""
    try:
        wait(lambda: not processes_of(directory), f"no process of {directory} is left", GONE_SECONDS, poll=0.2)
    except AssertionError as error:
        raise AssertionError(f"left running: {[_command(process) for process in processes_of(directory)]}") from error


def show_logs(directory: Path, lines: int = 15) -> None:
    """Prints the end of every text log, within limits; pytest shows it if the test fails."""
    logs = list(text_logs(directory))
    each = max(1, min(lines, LOG_LINES_MAX // max(1, len(logs)) - 1))
    shown = [line for path in logs for line in (f"--- {path.relative_to(directory)}", *log_tail(path, each))]
    print(*shown[:LOG_LINES_MAX], sep="\n")


def text_logs(directory: Path) -> Iterator[Path]:
    """Logs below a directory, in order of their names; not the data of stores and brokers."""
    for found, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if name != _DATA)
        yield from (Path(found) / name for name in sorted(names) if name.endswith(".log"))


def log_tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log, shortened, without terminal control characters."""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        text = log.read().decode("utf-8", "replace")
    return [_printable(line)[:LOG_LINE_CHARACTERS] for line in text.splitlines()[-lines:]]


def _printable(line: str) -> str:
    return "".join(character for character in line if character.isprintable() or character == "\t")


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def _names(process: psutil.Process, needle: str) -> bool:
    try:
        if process.pid == psutil.Process().pid or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if any(needle in argument for argument in process.cmdline()):
            return True
        return any(name.startswith("BRAID_") and needle in value for name, value in process.environ().items())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
