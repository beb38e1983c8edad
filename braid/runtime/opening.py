"""Opens the event store and the archive that a URL names. Adapters are imported on demand."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from braid.host.store_credentials import ETCD_SCHEMES, StoreCredentials, etcd_credentials
from braid.kernel.errors import Invalid
from braid.kernel.ports import EventStore, Host
from braid.runtime.archive.serving import Archive


def open_store(url: str, host: Host, credentials: StoreCredentials | None = None) -> EventStore:
    """The event store that a URL names; it connects when used.

    Args:
        url: `sqlite:///path/of/file`, `etcd+tls://host:port,host:port`, or `etcd://…` in plain text.
        host: The process's host.
        credentials: What to show an etcd; None where it asks for nothing.

    Raises:
        Invalid: the URL names no store, the files of TLS are missing or cannot be used, or a password would travel
            unencrypted.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from braid.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest), host)
    if scheme in ETCD_SCHEMES and rest:
        from braid.stores.etcd import EtcdStore

        endpoints = rest.rstrip("/").split(",")
        return EtcdStore(endpoints, host, etcd_credentials(scheme, endpoints, credentials))
    raise Invalid(
        f"{url!r} names no event store",
        field="store",
        remedy="write sqlite:///path/of/file or etcd+tls://host:port,host:port",
    )


def open_archive(url: str, retention_days: float, host: Host, mesh: Callable[[], Awaitable[str]]) -> Archive | None:
    """Opens the archive at `file:///path/of/directory` or `s3://bucket/prefix`; None for an empty URL.

    Args:
        url: The archive's URL.
        retention_days: How long objects are kept there.
        host: The process's host.
        mesh: Returns the mesh's id; called when it is first needed.

    Raises:
        Invalid: the URL is neither.
    """
    scheme, _, rest = url.partition("://")
    if not url:
        return None
    if scheme == "file" and rest.startswith("/") and len(rest) > 1:
        from braid.archive.directory import DirectoryArchive

        return Archive(DirectoryArchive(Path(rest), mesh, host.tasks), url, retention_days)
    if scheme == "s3":
        from braid.archive.bucket import BucketArchive, BucketPlace

        return Archive(BucketArchive(BucketPlace.parse(url), mesh, host.tasks), url, retention_days)
    raise Invalid(
        f"{url!r} names no archive", field="archive", remedy="write file:///path/of/directory or s3://bucket/prefix"
    )
