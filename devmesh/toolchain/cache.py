"""The user's cache of tools the local mesh runs: where it is, one resolver at a time, results whole or absent."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/braid`, made when missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "braid"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def resolving(name: str) -> Iterator[Path]:
    """Holds the resolver's lock for one entry of the cache; a second process waits here for the first.

    Args:
        name: The entry, for example `kafka-4.3.1`.

    Yields:
        An empty working directory beside the entry, on the same file system, so that a rename publishes it at once.
        It is removed at the end, whatever happened; that of a process which was killed, by the next resolver.
    """
    root = cache_directory()
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for abandoned in root.glob(f".{name}.work-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}.work-", dir=root, ignore_cleanup_errors=True) as work:
            yield Path(work)
