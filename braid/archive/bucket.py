"""Archived objects in an S3-compatible bucket, which all replicas of a mesh share.

Credentials, region and endpoint are those of the usual environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`,
`AWS_ENDPOINT_URL`, `AWS_CA_BUNDLE`, a profile, a role). An object shows once all of its bytes arrived, or not at all.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from braid.archive.blocking import BlockingArchive, T, parts_of
from braid.host.addresses import is_loopback
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
_FORM: Final = "write s3://bucket/prefix, or s3://bucket/prefix?endpoint=https://host:port&region=NAME&ca=FILE"
# What the client library says of a connection, and what to do about it.
_TLS_REMEDIES: Final = {
    "curlCode: 60": "the server's certificate is not trusted: name its CA with ca=FILE in the URL, or in AWS_CA_BUNDLE",
    "curlCode: 77": "the CA's file cannot be used: it holds PEM certificates",
    "curlCode: 35": "no TLS connection can be made: does the endpoint speak TLS?",
}


class BucketPlace(NamedTuple):
    """The location of a bucket, and the archive's part of it.

    Attributes:
        prefix: Without slashes around it; '' for the whole bucket.
        endpoint: `https://host:port` of a server that is not Amazon's; '' for what the environment says.
        region: '' for what the environment says.
        ca: PEM file of the authorities that sign the server's certificate; '' for what the environment says.
        plaintext: Whether events may leave this machine unencrypted, over `http://`.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    ca: str = ""
    plaintext: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """Reads `s3://bucket/prefix?endpoint=…&region=…&ca=…&plaintext=true`. Raises `Invalid`."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        prefix = parts.path.strip("/")
        endpoint = options.pop("endpoint", "")
        wrong = parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc or parts.fragment
        if wrong or any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
            raise Invalid(f"{url!r} names no bucket", field="archive", remedy=_FORM)
        region, ca, plaintext = (options.pop(name, "") for name in ("region", "ca", "plaintext"))
        if plaintext not in ("", "true", "false"):
            raise Invalid(f"plaintext={plaintext} is neither true nor false", field="archive", remedy=_FORM)
        if options:
            raise Invalid(f"a bucket has no setting {next(iter(options))!r}", field="archive", remedy=_FORM)
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise Invalid(f"{endpoint!r} is no endpoint of a bucket", field="archive", remedy=_FORM)
        return cls(parts.netloc, prefix, endpoint, region, ca, plaintext == "true")


class BucketArchive(BlockingArchive):
    """A `kernel.ports.ArchiveStore` over a bucket. Requests run in threads; each has a time limit."""

    shared = True

    def __init__(self, place: BucketPlace, mesh: Callable[[], Awaitable[str]], tasks: Tasks) -> None:
        """`mesh` tells the mesh's id, under which its objects lie: meshes may share a bucket.

        Raises:
            Invalid: events would leave this machine unencrypted, or the CA's file is not there.
        """
        super().__init__(tasks)
        self._place = place
        self._endpoint = place.endpoint or _endpoint_of_environment()
        self._ca = place.ca or os.environ.get("AWS_CA_BUNDLE", "")
        _check_connection(self._endpoint, self._ca, place.plaintext)
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
        reason = str(error.strerror or error)
        remedy = next((each for sign, each in _TLS_REMEDIES.items() if sign in reason), _REMEDY)
        what = f"the archive in bucket {self._place.bucket} cannot be used: {reason[:_REASON_MAX]}"
        return Unavailable(what, remedy=remedy)

    def _system(self) -> fs.S3FileSystem:
        if self._files is None:
            place = self._place
            scheme, _, host = self._endpoint.rpartition("://")
            self._files = fs.S3FileSystem(
                endpoint_override=host or None,
                scheme=scheme or "https",
                region=place.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
                tls_ca_file_path=self._ca or None,
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


def _check_connection(endpoint: str, ca: str, plaintext: bool) -> None:
    """Raises `Invalid` where events, and a session's token, would travel for others to read, or no CA would be read."""
    parts = urlsplit(endpoint)
    if parts.scheme == "http" and not plaintext and not is_loopback(parts.hostname or ""):
        remedy = "use an endpoint of https://, or add plaintext=true to the URL"
        raise Invalid(f"events would travel to {endpoint} in plain text", field="archive", remedy=remedy)
    if ca and not Path(ca).is_file():
        raise Invalid(f"the CA's file {ca} is not there", field="archive", remedy="check ca=… or AWS_CA_BUNDLE")
