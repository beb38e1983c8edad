"""The files in a mesh's directory; the lock that keeps a second mesh out; files written whole.

The formats of `mesh.json` and of the ready file live here too.
"""

import fcntl
import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from braid.kernel.errors import Refused, Unavailable
from devmesh.config import STORE_NAME, Remembered, store_names

_SOCKET_BYTES_MAX: Final = 100  # the kernel takes 107
_ONE_BROKER: Final = 1  # format of `mesh.json` where every cluster has one broker
_SEVERAL_BROKERS: Final = 2
_LOCK_SECONDS: Final = 0.2  # how long a lock may look taken because somebody only looks whether it is


class MeshFiles:
    """The files of one mesh.

    Args:
        directory: Of the mesh; made absolute here.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    @property
    def log(self) -> Path:
        """Output of a detached supervisor."""
        return self.directory / "dev.log"

    @property
    def ready(self) -> Path:
        """The ready file of a running mesh; there only while it runs (or after it was killed)."""
        return self.directory / "ready.json"

    @property
    def database(self) -> Path:
        """The SQLite store."""
        return self.directory / "store" / "braid.db"

    @property
    def etcd(self) -> Path:
        """The etcd store."""
        return self.directory / "store" / "etcd"

    def etcd_member(self, name: str) -> Path:
        """One member of the etcd store; a single one has the store's directory for itself."""
        return self.etcd if name == STORE_NAME else self.etcd / name

    @property
    def socket(self) -> Path:
        """The control socket: in the directory, or, where its path is too long for the kernel, a name made from it."""
        path = self.directory / "control"
        if len(os.fsencode(path)) <= _SOCKET_BYTES_MAX:
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"braid-{os.getuid()}-{digest}"

    def cluster(self, name: str) -> Path:
        """A Kafka cluster's own directory."""
        return self.directory / "clusters" / name

    def service(self, instance: str) -> Path:
        """A service replica's own directory."""
        return self.directory / "services" / instance

    @property
    def console(self) -> Path:
        """The console's own directory."""
        return self.directory / "console"

    @property
    def tls(self) -> Path:
        """The CA and the certificates of a secure mesh."""
        return self.directory / "tls"

    def prepare(self) -> None:
        """Makes the directory.

        Raises:
            Refused: it cannot be made or written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.directory):
                pass
        except OSError as error:
            raise Refused(
                f"cannot write in {self.directory}: {error.strerror}", remedy="choose another --dir"
            ) from error

    def remember(self, remembered: Remembered) -> None:
        """Keeps what the next run must find.

        A mesh with several brokers of a cluster, or several members of etcd, has another format, which releases that
        know only single ones refuse.
        """
        several = any(count > 1 for count in remembered.brokers.values()) or store_names(3)[0] in remembered.ports
        document = {
            "format": _SEVERAL_BROKERS if several else _ONE_BROKER,
            "store": remembered.store,
            "zones": dict(remembered.zones),
            "ports": dict(remembered.ports),
            **({"brokers": dict(remembered.brokers)} if several else {}),
            **({"secure": True} if remembered.secure else {}),
        }
        write_whole(self.directory / "mesh.json", json.dumps(document, indent=1) + "\n")

    def recall(self) -> Remembered:
        """Reads the facts that the last run kept; none where there was none.

        Raises:
            Refused: the file is damaged or of another release.
        """
        path = self.directory / "mesh.json"
        if not path.exists():
            return Remembered()
        try:
            document = _of_format(json.loads(path.read_text()))
            zones = {str(name): str(zone) for name, zone in document["zones"].items()}
            ports = {str(name): int(port) for name, port in document["ports"].items()}
            brokers = {str(name): int(count) for name, count in document.get("brokers", {}).items()}
            return Remembered(str(document["store"]), zones, ports, brokers, bool(document.get("secure", False)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(
                f"{path} cannot be understood ({type(error).__name__}: {error})",
                remedy=f"restore it, or remove {self.directory} and its data",
            ) from error


class DirectoryLock:
    """Held by the one supervisor of a directory; the kernel lets go of it when that process ends, however."""

    def __init__(self, files: MeshFiles) -> None:
        self._directory = files.directory
        self._path = files.directory / "lock"
        self._descriptor: int | None = None

    def take(self) -> None:
        """Takes it and writes this process's id into it.

        Raises:
            Refused: another mesh runs here; says which process.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(descriptor):
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise Refused(
                f"a mesh runs in {self._directory} already (process {holder})",
                remedy=f"`braid dev down --dir {self._directory}` ends it, another --dir runs beside it",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Lets go. Fine when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> int | None:
        """The process that holds it, None when nobody does.

        Raises:
            Unavailable: it is held, but its holder has not said who it is yet.
        """
        if not self._path.exists():
            return None
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            written = os.pread(descriptor, 32, 0).strip()
            if not written.isdigit():
                raise Unavailable(f"a mesh is just starting in {self._directory}", remedy="try again") from None
            return int(written)
        else:
            return None
        finally:
            os.close(descriptor)


def _of_format(document: dict[str, Any]) -> dict[str, Any]:
    if document["format"] not in (_ONE_BROKER, _SEVERAL_BROKERS):
        known = f"{_ONE_BROKER} and {_SEVERAL_BROKERS}"
        raise ValueError(f"it has format {document['format']}, this release knows {known}")
    return document


def _locked(descriptor: int) -> bool:
    """Takes the lock; tries for a moment, because `holder` holds it for an instant."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_SECONDS / 20)
        else:
            return True


def write_whole(path: Path, text: str) -> None:
    """Writes a file that readers see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text)
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def remove(path: Path) -> None:
    """Removes a file if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()
