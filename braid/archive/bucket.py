"""Archived objects in an S3-compatible bucket, which all replicas of a mesh share.

Credentials, region and endpoint come from the usual environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`,
a profile, a role). An object becomes visible once all of its bytes arrived, or not at all.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from braid.archive.blocking import BlockingArchive, T, parts_of
from braid.kernel.errors import BraidError, Invalid, NotFound, Unavailable
from braid.kernel.limits.archive import (
    ARCHIVE_BUCKET_ATTEMPTS,
    ARCHIVE_BUCKET_CONNECT_SECONDS,
    ARCHIVE_BUCKET_REQUEST_SECONDS,
    ARCHIVE_OBJECT_BYTES_MAX,
)
from braid.kernel.ports import ArchivedObject, Tasks

_REMEDY: Final = "check the bucket's name, its credentials (AWS_… in the environment), and that its endpoint answers"
_REASON_MAX: Final = 300
_FORM: Final = "write s3://bucket/prefix, or s3://bucket/prefix?endpoint=http://host:port&region=NAME"


class BucketPlace(NamedTuple):
    """The location of a bucket, and the archive's part of it.

    Attributes:
        prefix: Without slashes around it; '' for the whole bucket.
        endpoint: `http://host:port` of a server other than Amazon's; '' for the environment's.
        region: '' for the environment's.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses `s3://bucket/prefix?endpoint=…&region=…`. Raises `Invalid`."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        prefix = parts.path.strip("/")
        endpoint = options.pop("endpoint", "")
        wrong = parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc or parts.fragment
        if wrong or any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
            raise Invalid(f"{url!r} names no bucket", field="archive", remedy=_FORM)
        region = options.pop("region", "")
        if options:
            raise Invalid(f"a bucket has no setting {next(iter(options))!r}", field="archive", remedy=_FORM)
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise Invalid(f"{endpoint!r} is no endpoint of a bucket", field="archive", remedy=_FORM)
        return cls(parts.netloc, prefix, endpoint, region)


class BucketArchive(BlockingArchive):
    """A `kernel.ports.ArchiveStore` over a bucket. Requests run in threads; each has a time limit."""

    shared = True

    def __init__(self, place: BucketPlace, mesh: Callable[[], Awaitable[str]], tasks: Tasks) -> None:
        """Prepares access. `mesh` returns the mesh's id, the prefix of its objects: meshes may share a bucket."""
        super().__init__(tasks)
        self._place = place
        self._mesh = mesh
        self._root = ""
        self._files: fs.S3FileSystem | None = None

    async def close(self) -> None:
        """See `ArchiveStore`."""
        self._files = None
        await super().close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if not self._root:
            self._root = "/".join(part for part in (self._place.bucket, self._place.prefix, await self._mesh()) if part)
        return await super()._in_thread(work)

    def _failed(self, error: OSError) -> BraidError:
        reason = str(error.strerror or error)[:_REASON_MAX]
        return Unavailable(f"the archive in bucket {self._place.bucket} cannot be used: {reason}", remedy=_REMEDY)

    def _system(self) -> fs.S3FileSystem:
        if self._files is None:
            place = self._place
            scheme, _, host = (place.endpoint or _endpoint_of_environment()).rpartition("://")
            self._files = fs.S3FileSystem(
                endpoint_override=host or None,
                scheme=scheme or "https",
                region=place.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
                connect_timeout=ARCHIVE_BUCKET_CONNECT_SECONDS,
                request_timeout=ARCHIVE_BUCKET_REQUEST_SECONDS,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ARCHIVE_BUCKET_ATTEMPTS),
                background_writes=True,  # a part that fails ends the upload; in the foreground the rest is completed
                allow_delayed_open=True,  # one request for what fits in one
            )
        return self._files

    def _path(self, name: str) -> str:
        return "/".join((self._root, *parts_of(name)))

    def _found(self, prefix: str) -> Iterator[ArchivedObject]:
        start = self._path(prefix.rstrip("/")) if prefix else self._root
        selector = fs.FileSelector(start, allow_not_found=True, recursive=True)
        for each in self._system().get_file_info(selector):
            if each.type == fs.FileType.File:
                yield ArchivedObject(each.path.removeprefix(f"{self._root}/"), each.size)

    def _read(self, name: str) -> bytes:
        try:
            with self._system().open_input_stream(self._path(name)) as stream:
                return bytes(stream.read(ARCHIVE_OBJECT_BYTES_MAX))
        except FileNotFoundError as error:
            raise NotFound(f"the archive has no object {name}") from error

    def _write(self, name: str, data: bytes) -> None:
        with self._system().open_output_stream(self._path(name), buffer_size=0) as stream:
            stream.write(data)

    def _remove(self, name: str) -> None:
        path = self._path(name)
        if self._system().get_file_info(path).type == fs.FileType.File:
            self._system().delete_file(path)


def _endpoint_of_environment() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
