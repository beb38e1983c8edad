"""A disk that is full under the broker that carries the stream.

Each broker has a small disk of its own, a tmpfs. Filling it takes a file of ballast, healing it takes its removal.
Mounting needs a privilege; where it is missing the faults are not played, and say so.
"""

import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from braid.kernel.errors import BraidError
from devmesh.files import MeshFiles
from tests.e2e.chaos.faults import arrived, left_behind
from tests.e2e.chaos.field import Field, NotPlayedError
from tests.e2e.chaos.load import CLUSTERS

BALLAST: Final = "ballast"
_MEBI: Final = 1 << 20
_SIZE_MEBI: Final = 384


@contextmanager
def small_disks(directory: Path) -> Iterator[str]:
    """Mounts a small disk for each broker; gives the reason why not, or nothing where it could."""
    files = MeshFiles(directory)
    with ExitStack() as stack:
        try:
            for name in CLUSTERS:
                stack.enter_context(_mounted(files.cluster(name), _SIZE_MEBI))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            yield f"no small disk can be mounted here: {said.strip()}"
            return
        yield ""


async def of_broker(field: Field, chance: random.Random) -> None:
    """Fills the disk of the cluster that carries the stream: the broker ends, the stream leaves, and it comes back."""
    await field.healthy()
    name = field.carrier()
    disk = _disk(field, MeshFiles(Path(field.mesh.ready.dir)).cluster(name))
    with field.marked(name, "disk full") as mark:
        with full(disk):
            await left_behind(field, name)
            await arrived(field, name, mark.begin_ms)
            await field.progress()
        with suppress(BraidError):  # it ended by itself, as Kafka does without a disk
            await field.mesh.kill(name)
        field.kills += 1
        await field.mesh.start(name)
    await field.healthy()
    await field.progress()


def _disk(field: Field, path: Path) -> Path:
    if field.no_small_disks:
        raise NotPlayedError(field.no_small_disks)
    return path


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fills a disk to the last byte while the block runs."""
    ballast = disk / BALLAST
    try:
        with ballast.open("wb", buffering=0) as file:
            for size in (_MEBI, 4_096, 1):
                with suppress(OSError):  # no space left
                    while file.write(b"\1" * size):
                        pass
        yield
    finally:
        ballast.unlink()


@contextmanager
def _mounted(path: Path, mebi: int) -> Iterator[None]:
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebi}m,mode=755", "braid-chaos", str(path)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)
