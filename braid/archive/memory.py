"""Archived objects in memory, for tests and simulation. Several stores may share one dictionary, like a bucket."""

from collections.abc import Sequence

from braid.kernel.errors import NotFound, Unavailable
from braid.kernel.ports import ArchivedObject


class MemoryArchive:
    """A `kernel.ports.ArchiveStore` over a dictionary in memory.

    Attributes:
        objects: Stored objects by name; tests change and remove objects here.
        full: Whether it rejects writes, as a full disk does.
        away: Whether it answers nothing.
    """

    def __init__(self, objects: dict[str, bytes] | None = None, *, shared: bool = False) -> None:
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.full = False
        self.away = False
        self._shared = shared

    @property
    def shared(self) -> bool:
        """See `ArchiveStore`."""
        return self._shared

    async def list(self, prefix: str) -> Sequence[ArchivedObject]:
        """See `ArchiveStore`."""
        self._reach()
        return [
            ArchivedObject(name, len(self.objects[name])) for name in sorted(self.objects) if name.startswith(prefix)
        ]

    async def get(self, name: str) -> bytes:
        """See `ArchiveStore`."""
        self._reach()
        if name not in self.objects:
            raise NotFound(f"the archive has no object {name}")
        return self.objects[name]

    async def put(self, name: str, data: bytes) -> None:
        """See `ArchiveStore`."""
        self._reach()
        if self.full:
            raise Unavailable("the archive in memory takes nothing", remedy="free some space")
        self.objects[name] = data

    async def delete(self, name: str) -> None:
        """See `ArchiveStore`."""
        self._reach()
        self.objects.pop(name, None)

    async def close(self) -> None:
        """See `ArchiveStore`."""

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("the archive in memory cannot be reached")
