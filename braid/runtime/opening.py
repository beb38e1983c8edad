"""Which event store a URL names. Adapters are imported when asked for: a process needs one driver alone."""

from pathlib import Path

from braid.kernel.errors import Invalid
from braid.kernel.ports import EventStore, Host


def open_store(url: str, host: Host) -> EventStore:
    """The event store at `sqlite:///path/of/file` or `etcd://host:port,host:port`; it connects when used.

    Raises:
        Invalid: the URL names neither.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from braid.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest), host)
    if scheme == "etcd" and rest:
        from braid.stores.etcd import EtcdStore

        return EtcdStore(rest.rstrip("/").split(","), host)
    raise Invalid(
        f"{url!r} names no event store",
        field="store",
        remedy="write sqlite:///path/of/file or etcd://host:port,host:port",
    )
