"""Which adapters of the archive's port the contract tier holds to the contract."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from braid.archive.bucket import BucketArchive, BucketPlace
from braid.archive.directory import DirectoryArchive
from braid.archive.memory import MemoryArchive
from braid.host.system import system_host
from braid.kernel.ports import ArchiveStore
from tests.support.s3_server import PASSWORD, REGION, USER, S3Server

Make = Callable[[Path], ArchiveStore]
MESH: Final = "01KDVDNA3GE8B4JC8ZK0MT3NS0"
_BUCKETS: Final = count()


def directory_archive(path: Path, mesh: str = MESH) -> DirectoryArchive:
    """The archive of a mesh in a directory."""

    async def its_id() -> str:
        return mesh

    return DirectoryArchive(path, its_id, system_host(lambda task, error: None).tasks)


def _directory(path: Path) -> ArchiveStore:
    return directory_archive(path / "archive")


ADAPTERS: Final[dict[str, Make]] = {"memory": lambda path: MemoryArchive(), "directory": _directory}


@pytest.fixture(scope="package")
def s3_server() -> Iterator[S3Server]:
    """One server for all tests; each makes a bucket of its own."""
    server = S3Server().start()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, with credentials for it in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
    s3_server.requests.clear()
    yield s3_server
    s3_server.refuses = s3_server.hangs = lambda request: False


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The URL of a new bucket."""
    name = f"past-{next(_BUCKETS)}"
    s3.make_bucket(name)
    return f"s3://{name}/archive?endpoint={s3.endpoint}&region={REGION}"


def bucket_archive(url: str, mesh: str = MESH) -> BucketArchive:
    """The archive of a mesh in a bucket."""

    async def its_id() -> str:
        return mesh

    return BucketArchive(BucketPlace.parse(url), its_id, system_host(lambda task, error: None).tasks)


@pytest.fixture(params=[*ADAPTERS, "bucket"])
async def archive(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ArchiveStore]:
    """A fresh archive of one kind."""
    if request.param == "bucket":
        made: ArchiveStore = bucket_archive(request.getfixturevalue("bucket"))
    else:
        made = ADAPTERS[request.param](tmp_path)
    yield made
    await made.close()
