"""Reads files that hold secrets only if no other user may read or change them, as ssh does with keys."""

import os
import stat
from pathlib import Path
from typing import Final

# Of a file that this process's user owns: nobody else may do anything.
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# Of a file that somebody else owns (a mounted secret of root's): the group is how this process comes to read it.
_OTHERS_OF_ANOTHER: Final = stat.S_IWGRP | stat.S_IRWXO


def read_bytes(path: Path) -> tuple[bytes, str]:
    """Reads a file that holds a secret; returns its content and what is wrong with its permissions ('' if nothing).

    Both are of the same open file, so it cannot be replaced between them. Raises `OSError`.
    """
    with path.open("rb") as file:
        return file.read(), _exposure(os.fstat(file.fileno()))


def exposure(path: Path) -> str:
    """Returns what is wrong with a file's permissions, for a file that another library reads. Raises `OSError`."""
    return _exposure(path.stat())


def _exposure(found: os.stat_result) -> str:
    if os.name != "posix":  # permissions are no bits there
        return ""
    forbidden = _OTHERS if found.st_uid == os.geteuid() else _OTHERS_OF_ANOTHER
    mode = stat.S_IMODE(found.st_mode)
    return f"is open to other users (its mode is {mode:04o})" if mode & forbidden else ""
