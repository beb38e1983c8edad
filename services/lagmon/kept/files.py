"""Files of kept lag in one directory of one replica, and their twin in memory. Every method blocks.

A chunk is written to a temporary file, synced and renamed: a crash leaves all of it or nothing. A journal is appended
to and synced; what a crash or a full disk left at its end is cut when it is next used.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from braid.host import private_files

_PART: Final = ".part"


class Files(Protocol):
    """Where a replica keeps its files. Every method may raise `OSError`, and blocks."""

    bounded_by_memory: bool

    def names(self) -> dict[str, int]:
        """Lists the files with their bytes."""
        ...

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Reads at most so many bytes of a file. Raises `FileNotFoundError`."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file; after a crash it is there as a whole or not at all."""
        ...

    def append(self, name: str, offset: int, data: bytes) -> None:
        """Writes at an offset of a file and cuts what was behind it."""
        ...

    def remove(self, name: str) -> None:
        """Removes a file; fine when it is gone."""
        ...


class MemoryFiles:
    """Files in memory; they end with the process."""

    bounded_by_memory = True

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def names(self) -> dict[str, int]:
        """Lists the files with their bytes."""
        return {name: len(data) for name, data in self._files.items()}

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Reads at most so many bytes of a file."""
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name][offset : offset + size]

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file."""
        self._files[name] = data

    def append(self, name: str, offset: int, data: bytes) -> None:
        """Writes at an offset of a file and cuts what was behind it."""
        self._files[name] = self._files.get(name, b"")[:offset] + data

    def remove(self, name: str) -> None:
        """Removes a file."""
        self._files.pop(name, None)


class DirectoryFiles:
    """Files in a directory that belongs to one replica; both are for their owner alone."""

    bounded_by_memory = False

    def __init__(self, directory: Path) -> None:
        """Prepares access; touches nothing before the first call."""
        self._directory = directory

    def names(self) -> dict[str, int]:
        """Lists the files with their bytes; removes what a crash left half written."""
        self._make()
        found: dict[str, int] = {}
        for path in self._directory.iterdir():
            if path.name.endswith(_PART):
                path.unlink(missing_ok=True)
            else:
                with suppress(FileNotFoundError):
                    found[path.name] = path.stat().st_size
        return found

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Reads at most so many bytes of a file."""
        with (self._directory / name).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file."""
        self._make()
        part = self._directory / f".{name}{_PART}"
        try:
            with private_files.write_file(part) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._directory / name)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        self._sync()

    def append(self, name: str, offset: int, data: bytes) -> None:
        """Writes at an offset of a file and cuts what was behind it."""
        path = self._directory / name
        if not offset:
            self._make()
            with private_files.write_file(path):
                pass
        with path.open("r+b") as file:
            file.truncate(offset)
            file.seek(offset)
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())

    def remove(self, name: str) -> None:
        """Removes a file; fine when it is gone."""
        (self._directory / name).unlink(missing_ok=True)

    def _make(self) -> None:
        private_files.make_directory(self._directory)

    def _sync(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
