"""Archived objects as files in a directory that only one replica uses.

An object is written to a temporary file, synced, then renamed: a crash leaves a whole object or none. Temporary files
of a crash are removed when the directory is used again.

The directory carries its mesh's id. Histories of two meshes have the same names: one mesh would expire the other's.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

from braid.archive.blocking import BlockingArchive, T, parts_of
from braid.host import private_files
from braid.kernel.errors import BraidError, NotFound, Unavailable
from braid.kernel.limits.archive import ARCHIVE_OBJECT_BYTES_MAX
from braid.kernel.ports import ArchivedObject, Tasks

_PART: Final = ".part"
_MESH: Final = ".mesh"  # the file that tells whose archive it is
_ID_BYTES_MAX: Final = 64


class DirectoryArchive(BlockingArchive):
    """A `kernel.ports.ArchiveStore` over a directory of one replica. Threads access the files."""

    shared = False

    def __init__(self, directory: Path, mesh: Callable[[], Awaitable[str]], tasks: Tasks) -> None:
        """Prepares access; touches nothing before the first call. `mesh` returns the mesh's id."""
        super().__init__(tasks)
        self._directory = directory
        self._mesh = mesh
        self._id = ""
        self._parts = count()
        self._tidied = False

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Runs a call in a thread. Raises `Unavailable` for another mesh's directory."""
        self._id = self._id or await self._mesh()

        def checked() -> T:
            self._require_own()
            return work()

        return await super()._in_thread(checked)

    def _require_own(self) -> None:
        """Raises `Unavailable` for another mesh's directory. A directory without a mark may be used."""
        try:
            with (self._directory / _MESH).open("rb") as file:
                owner = file.read(_ID_BYTES_MAX).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return
        if owner != self._id:
            raise Unavailable(
                f"the archive {self._directory} is that of mesh {owner!r}, and this is mesh {self._id}",
                remedy="set BRAID_ARCHIVE to a directory of this replica's own; move the other's objects nowhere",
            )

    def _failed(self, error: OSError) -> BraidError:
        return Unavailable(
            f"the archive {self._directory} cannot be used: {error.strerror or error}",
            remedy="check the directory, its owner and the space on its disk",
        )

    def _path(self, name: str) -> Path:
        return self._directory.joinpath(*parts_of(name))

    def _found(self, prefix: str) -> Iterator[ArchivedObject]:
        self._tidy()
        start = self._path(prefix.rstrip("/")) if prefix else self._directory
        for place, _, files in os.walk(start):
            inside = Path(place).relative_to(self._directory)
            for file in files:
                if file != _MESH and not file.endswith(_PART):
                    with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                        size = (Path(place) / file).stat().st_size
                        yield ArchivedObject((inside / file).as_posix(), size)

    def _read(self, name: str) -> bytes:
        path = self._path(name)
        try:
            with path.open("rb") as file:
                return file.read(ARCHIVE_OBJECT_BYTES_MAX)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFound(f"the archive has no object {name}") from error

    def _write(self, name: str, data: bytes) -> None:
        self._tidy()
        if not (self._directory / _MESH).exists():
            self._replace(self._directory / _MESH, self._id.encode())
        self._replace(self._path(name), data)

    def _replace(self, path: Path, data: bytes) -> None:
        self._make(path.parent)
        part = path.with_name(f".{path.name[:200]}.{next(self._parts)}{_PART}")
        try:
            with private_files.write_file(part) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        _sync(path.parent)

    def _remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _make(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._make(directory.parent)
        private_files.make_directory(directory)
        _sync(directory.parent)

    def _tidy(self) -> None:
        """Removes the temporary files that a crash left, once."""
        if not self._tidied:
            for left in self._directory.rglob(f".*{_PART}"):
                left.unlink(missing_ok=True)
            self._tidied = True


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
