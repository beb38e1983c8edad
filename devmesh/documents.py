"""The documents a mesh gives out, as values: the ready file and the status. Their JSON has exactly these fields."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from braid.host.tls.paths import Tls


@dataclass(frozen=True)
class ServiceAddress:
    """One service replica; without a pid while it does not run."""

    pid: int | None
    address: str
    metrics: str


@dataclass(frozen=True)
class BrokerAddress:
    """One broker of a Kafka cluster; without a pid while it does not run."""

    pid: int | None
    address: str
    rack: str


@dataclass(frozen=True)
class ClusterAddress:
    """One Kafka cluster of a mesh.

    Attributes:
        pid: Of the first of its brokers that runs; None while none does.
        bootstrap: What clients connect to: the addresses of all brokers.
        zone: Where it is.
        brokers: By the names that fault verbs know: `east` for a single one, else `east/1`, `east/2`, ….
    """

    pid: int | None
    bootstrap: str
    zone: str
    brokers: Mapping[str, BrokerAddress] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """A mesh in which everything answers.

    Attributes:
        endpoint: `host:port` of a replica; what `braid.connect` takes.
        console: Address of the web console; empty while there is none.
        store: `sqlite` or `etcd`.
        dir: All state of the mesh.
        services: By instance.
        clusters: By name.
        tls: Paths of `ca`, `certificate` and `key` for its user; None where services speak plain text.
    """

    endpoint: str
    console: str
    store: str
    dir: str
    services: Mapping[str, ServiceAddress] = field(default_factory=dict)
    clusters: Mapping[str, ClusterAddress] = field(default_factory=dict)
    tls: Mapping[str, str] | None = None

    @property
    def user_tls(self) -> Tls | None:
        """The files of `tls` as `braid.connect` takes them."""
        return Tls(Path(self.tls["certificate"]), Path(self.tls["key"]), Path(self.tls["ca"])) if self.tls else None

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which a process anywhere on this machine finds the mesh."""
        return {"BRAID_ENDPOINT": self.endpoint, **self.tls_environment}

    @property
    def tls_environment(self) -> Mapping[str, str]:
        """Variables that name the files of `tls`; none where there are none."""
        return {f"BRAID_TLS_{role.upper()}": path for role, path in (self.tls or {}).items()}

    def to_json(self) -> str:
        """The ready file's text."""
        return _text(asdict(self))


def ready_from_json(text: str) -> Ready:
    """Reads what `to_json` wrote. Raises `ValueError`, `KeyError` or `TypeError` when it is something else."""
    document = json.loads(text)
    services = {name: ServiceAddress(**fields) for name, fields in document.pop("services").items()}
    clusters = {name: _cluster(fields) for name, fields in document.pop("clusters").items()}
    return Ready(**document, services=services, clusters=clusters)


def _cluster(fields: dict[str, Any]) -> ClusterAddress:
    brokers = {name: BrokerAddress(**each) for name, each in fields.pop("brokers").items()}
    return ClusterAddress(**fields, brokers=brokers)


@dataclass(frozen=True)
class ProcessStatus:
    """One process of a mesh.

    Attributes:
        name: What fault verbs call it.
        kind: `cluster` (a broker of one), `service`, `store` or `console`.
        state: `starting`, `running`, `paused`, `down` (a verb's doing) or `crashed`.
        pid: None while it does not run.
        address: `host:port` for clients.
        zone: Rack of a broker.
        restarts: How often it was started again after a crash.
        memory_bytes: Resident.
        age_seconds: Since it was last started.
        log: Path of its output.
    """

    name: str
    kind: str
    state: str
    pid: int | None
    address: str
    zone: str
    restarts: int
    memory_bytes: int
    age_seconds: float
    log: str


@dataclass(frozen=True)
class MeshStatus:
    """A mesh and its processes.

    Attributes:
        dir: All state of the mesh.
        pid: Of its supervisor.
        ready: Whether everything answered once.
        memory_bytes: Resident, of all processes and the supervisor.
        processes: In the order in which they were named.
        endpoint: `host:port` of a replica; what `braid.connect` takes. Empty until ports are chosen.
        tls: As in `Ready`.
    """

    dir: str
    pid: int
    ready: bool
    memory_bytes: int
    processes: Sequence[ProcessStatus]
    endpoint: str = ""
    tls: Mapping[str, str] | None = None

    def to_json(self) -> str:
        """Returns the document that `braid dev status -o json` prints."""
        return _text(asdict(self))


def status_from_json(text: str) -> MeshStatus:
    """Reads what `to_json` wrote. Raises `ValueError`, `KeyError` or `TypeError` when it is something else."""
    document = json.loads(text)
    processes = tuple(ProcessStatus(**fields) for fields in document.pop("processes"))
    return MeshStatus(**document, processes=processes)


def _text(document: dict[str, Any]) -> str:
    """A document's JSON. Without TLS it has no such field: releases before TLS read it, too."""
    if document["tls"] is None:
        del document["tls"]
    return json.dumps(document, indent=1) + "\n"
