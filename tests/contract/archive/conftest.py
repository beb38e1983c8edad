"""Which adapters of the archive's port the contract tier holds to the contract."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from braid.archive.directory import DirectoryArchive
from braid.archive.memory import MemoryArchive
from braid.host.system import system_host
from braid.kernel.ports import ArchiveStore

Make = Callable[[Path], ArchiveStore]


def _directory(path: Path) -> ArchiveStore:
    host = system_host(lambda task, error: None)
    return DirectoryArchive(path / "archive", host.tasks)


ADAPTERS: Final[dict[str, Make]] = {"memory": lambda path: MemoryArchive(), "directory": _directory}


@pytest.fixture(params=list(ADAPTERS))
async def archive(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ArchiveStore]:
    """A fresh archive of one kind."""
    made = ADAPTERS[request.param](tmp_path)
    yield made
    await made.close()
