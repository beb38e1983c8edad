"""Small disks of their own for parts of a mesh: a tmpfs of a fixed size, which fills up and harms nothing else."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(path: Path, mebi: int) -> Iterator[Path]:
    """Mounts an empty disk of so many MiB at a new directory, and removes it at the end.

    Raises:
        OSError, CalledProcessError: it cannot be mounted here, which needs a privilege.
    """
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebi}m,mode=755", "braid-small", str(path)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)
