"""Files and directories that nobody but their owner may open. What exists already keeps its mode."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def make_directory(path: Path) -> None:
    """Makes a directory for its owner alone, and parents with the usual mode. Fine when it is there.

    Raises:
        OSError: it cannot be made.
    """
    path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Makes an empty file for its owner alone. Fine when it is there.

    The file comes by a link, and no descriptor of it is ever closed: a close would drop the locks that SQLite holds on
    it elsewhere in this process (POSIX.1-2017, fcntl). File systems without links know no modes either.

    Raises:
        OSError: its directory cannot be written.
    """
    if path.exists():
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    try:
        with suppress(OSError):
            Path(path).hardlink_to(name)
    finally:
        Path(name).unlink()


def write_file(path: Path) -> BinaryIO:
    """Opens a file for writing, emptied, for its owner alone. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    file = os.fdopen(descriptor, "wb")
    with suppress(OSError):
        os.fchmod(descriptor, _FILE_MODE)  # what a crash left there may have another
    return file
