"""Archives over blocking storage: each call runs in a thread of the archive's own.

The process's other threads resolve addresses and read indices. A disk or bucket that hangs must not block them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from braid.kernel.errors import BraidError, Invalid
from braid.kernel.limits.archive import ARCHIVE_THREADS
from braid.kernel.ports import ArchivedObject, Tasks

T = TypeVar("T")


class BlockingArchive(ABC):
    """A `kernel.ports.ArchiveStore` over the blocking calls of a subclass, which handle one object at a time."""

    def __init__(self, tasks: Tasks) -> None:
        self._threads = tasks.threads(ARCHIVE_THREADS, "braid-archive")

    async def list(self, prefix: str) -> Sequence[ArchivedObject]:
        """See `ArchiveStore`."""
        return await self._in_thread(lambda: sorted(self._found(prefix)))

    async def get(self, name: str) -> bytes:
        """See `ArchiveStore`."""
        return await self._in_thread(lambda: self._read(name))

    async def put(self, name: str, data: bytes) -> None:
        """See `ArchiveStore`."""
        await self._in_thread(lambda: self._write(name, data))

    async def delete(self, name: str) -> None:
        """See `ArchiveStore`."""
        await self._in_thread(lambda: self._remove(name))

    async def close(self) -> None:
        """See `ArchiveStore`."""
        self._threads.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await self._threads.run(work)
        except OSError as error:
            raise self._failed(error) from error

    @abstractmethod
    def _found(self, prefix: str) -> Iterator[ArchivedObject]:
        """Objects below a prefix, in any order."""

    @abstractmethod
    def _read(self, name: str) -> bytes:
        """An object's bytes. Raises `NotFound`."""

    @abstractmethod
    def _write(self, name: str, data: bytes) -> None:
        """Stores an object: all of it, or none."""

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Removes an object if it is there."""

    @abstractmethod
    def _failed(self, error: OSError) -> BraidError:
        """The error that callers get for a failure of the storage."""


def parts_of(name: str) -> Sequence[str]:
    """Splits an object's name into path parts. Raises `Invalid` for a name that would lead elsewhere."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Invalid(f"{name!r} cannot name an archived object", field="name")
    return parts
