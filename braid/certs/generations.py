"""Directories that are replaced atomically: readers find all old files or all new ones.

A directory is a symbolic link to its generation, a hidden directory beside it. A change writes a new generation, syncs
it to the disk and swaps the link by `rename`, which is atomic (POSIX.1-2017, rename). The generation before stays until
the next change: the kernel may have followed the link for a reader, and have yet to look for the file. A reader that
opens two files one after the other can still open them on both sides of a swap; `authority` says why that does no harm.
"""

import os
import re
import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_TOKEN_BYTES: Final = 4


def make_private_directory(path: Path) -> None:
    """Creates a directory that nobody else may open, and its parents. An existing one is accepted."""
    path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    path.chmod(_DIRECTORY_MODE)


def replace_directory(link: Path, files: Mapping[str, bytes]) -> None:
    """Replaces the contents of a directory by these files, then removes all older contents but the last.

    Args:
        link: The directory as readers name it; created if missing.
        files: Contents by file name.
    """
    generation = link.with_name(f".{link.name}.{secrets.token_hex(_TOKEN_BYTES)}")
    generation.mkdir(mode=_DIRECTORY_MODE)
    for name, content in files.items():
        _write(generation / name, content)
    _sync(generation)
    before = link.readlink().name if link.is_symlink() else ""
    _swap(link, generation.name)
    _sync(link.parent)
    _remove_others(link, (generation.name, before))


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _swap(link: Path, target: str) -> None:
    fresh = link.with_name(f"{target}.link")
    fresh.symlink_to(target, target_is_directory=True)
    fresh.replace(link)


def _remove_others(link: Path, kept: Collection[str]) -> None:
    """Removes earlier generations, including those of a run that ended before its swap."""
    ours = re.compile(rf"\.{re.escape(link.name)}\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}(\.link)?")
    for each in link.parent.iterdir():
        if each.name in kept or not ours.fullmatch(each.name):
            continue
        if each.is_symlink():
            each.unlink()
        else:
            shutil.rmtree(each, ignore_errors=True)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some file systems sync no directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
