"""The processes of one mesh and what is wanted of each: built from a layout, ports, and this machine's tools."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from braid.kernel.errors import NotFound
from devmesh.archives.making import ensure_archive
from devmesh.blueprint import CONSOLE, CONSOLE_PORT, ENDPOINT_PORT, StorePlace, store_url, wanted_ports
from devmesh.config import MeshConfig, MeshLayout
from devmesh.credentials import MeshCredentials
from devmesh.files import MeshFiles
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.console import ConsoleProcess
from devmesh.processes.kafka_cluster import make_cluster, stop_together
from devmesh.processes.ports import PortClaims
from devmesh.processes.process import EtcdProcess, Process, ServiceProcess
from devmesh.processes.wall_clock import set_off
from devmesh.supervision import DesiredState, ProcessKind, ProcessState
from devmesh.toolchain.etcd_binary import etcd_binary
from devmesh.toolchain.jars import KAFKA_VERSION, is_cached, kafka_classpath
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.jvm import KafkaJvm

Say = Callable[[str], None]


@dataclass
class Supervised:
    """One process and its supervision.

    Attributes:
        kind: What it is.
        process: Itself.
        address: `host:port` for clients.
        zone: Rack of a broker.
        cluster: The cluster a broker is of; empty for others.
        desired: What people want of it.
        crashes: How often it ended by itself in a row.
        restarts: How often it was started again since the mesh started.
        ended_at: When its end was noted; None while none is.
        started_at: When it was last started; monotonic seconds, like `ended_at`.
        lock: Held by a verb at work.
    """

    kind: ProcessKind
    process: Process
    address: str
    zone: str = ""
    cluster: str = ""
    desired: DesiredState = DesiredState.REST
    crashes: int = 0
    restarts: int = 0
    ended_at: float | None = None
    started_at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def state(self) -> ProcessState:
        """How it looks now."""
        return ProcessState(
            name=self.process.name,
            kind=self.kind,
            desired=self.desired,
            alive=self.process.pid is not None,
            busy=self.lock.locked(),
            crashes=self.crashes,
            ended_at=self.ended_at,
            started_at=self.started_at,
        )

    def begun(self) -> None:
        """Notes that it was started."""
        self.started_at = time.monotonic()
        self.ended_at = None


@dataclass(frozen=True)
class Tools:
    """The tools with which this machine runs a mesh."""

    java: Path
    classpath: str
    etcd: Path | None


def find_tools(store: str, say: Say, kafka_version: str = "") -> Tools:
    """Looks the tools up, and resolves what the cache lacks; the first time takes minutes.

    Classes are archived for our own release of Kafka alone.

    Raises:
        Unavailable: one is missing and cannot be had; says how to install it.
    """
    java = java_binary()
    version = kafka_version or KAFKA_VERSION
    if not is_cached(version):
        say("resolving Kafka's jars; only the first start on a machine does")
    classpath = kafka_classpath(version)
    if version == KAFKA_VERSION:
        ensure_archive(KafkaJvm(str(java), classpath), say)
    return Tools(java, classpath, etcd_binary() if store == "etcd" else None)


def claim_ports(
    layout: MeshLayout, config: MeshConfig, remembered: Mapping[str, int], claims: PortClaims
) -> dict[str, int]:
    """Chooses a port for everything that listens: that of the last run where it is free.

    Raises:
        Refused: `--port` was given and is in use.
    """
    ports: dict[str, int] = {}

    def claim(name: str, first: int) -> None:
        again = remembered.get(name)
        ports[name] = claims.claim_above(first) if again is None else claims.claim_again(again, first)

    brokers = [broker for cluster in layout.zones for broker in layout.broker_names(cluster)]
    wanted = wanted_ports(layout.instances, brokers, layout.members, config.port or ENDPOINT_PORT)
    if config.port:
        endpoint = layout.instances[0]
        ports[endpoint] = claims.claim_exactly(wanted.pop(endpoint))
    if config.console:
        ports[CONSOLE] = claims.claim_exactly(config.console)
    elif config.console is not None:
        wanted[CONSOLE] = CONSOLE_PORT
    for name, first in wanted.items():
        owner, _, beside = name.rpartition("/")
        claim(name, ports[owner] + 1 if beside in ("controller", "peer") else first)
    return ports


def build(
    layout: MeshLayout,
    ports: Mapping[str, int],
    files: MeshFiles,
    tools: Tools,
    kafka_settings: Mapping[str, str] | None = None,
    credentials: MeshCredentials | None = None,
) -> dict[str, Supervised]:
    """The mesh's processes by name, none started."""
    held: dict[str, Supervised] = {}
    store = f"sqlite://{files.database}"
    if tools.etcd is not None:
        members = [
            StorePlace(name, ports[name], ports[f"{name}/peer"], str(files.etcd_member(name) / "data"))
            for name in layout.members
        ]
        for place in members:
            process = EtcdProcess(tools.etcd, files.etcd_member(place.name), place, members)
            held[place.name] = Supervised(ProcessKind.STORE, process, _local(place.port))
        store = store_url(members)
    for name, zone in layout.zones.items():
        places = [(ports[broker], ports[f"{broker}/controller"]) for broker in layout.broker_names(name)]
        java = str(tools.java)
        brokers = make_cluster(
            name, files.cluster(name), places, tools.classpath, zone, java=java, settings=kafka_settings
        )
        for broker in brokers:
            held[broker.name] = Supervised(ProcessKind.CLUSTER, broker, broker.bootstrap, broker.zone, name)
    admins = credentials.admins if credentials else ()
    for instance in layout.instances:
        address = _local(ports[instance])
        set_off(files.service(instance), 0)
        service = ServiceProcess(
            instance,
            files.service(instance),
            address,
            store,
            tls=credentials.service(instance) if credentials else None,
            admins=admins,
        )
        held[instance] = Supervised(ProcessKind.SERVICE, service, address)
    if CONSOLE in ports:
        held[CONSOLE] = _console(layout, ports, files, credentials)
    return held


def _console(
    layout: MeshLayout, ports: Mapping[str, int], files: MeshFiles, credentials: MeshCredentials | None
) -> Supervised:
    address = _local(ports[CONSOLE])
    endpoint = ",".join(_local(ports[instance]) for instance in layout.instances)
    process = ConsoleProcess(files.console, address, endpoint, credentials.user if credentials else None)
    return Supervised(ProcessKind.CONSOLE, process, address)


def find(held: Mapping[str, Supervised], name: str) -> list[Supervised]:
    """The process of a name, or the brokers of the cluster of that name. Raises `NotFound` listing the names."""
    found = brokers_of(held, name)
    if not found and name in held:
        found = [held[name]]
    if not found and name.endswith("/1"):
        found = [each for each in brokers_of(held, name.removesuffix("/1")) if each.process.name == each.cluster]
    if not found:
        names = dict.fromkeys(each for name in held for each in (held[name].cluster, name) if each)
        raise NotFound(f"this mesh has no {name!r}", remedy=f"it has {', '.join(names)}")
    return found


def brokers_of(held: Mapping[str, Supervised], cluster: str) -> list[Supervised]:
    """The brokers of a cluster, in the order of their nodes; none where there is no such cluster."""
    return [each for each in held.values() if cluster and each.cluster == cluster]


def clusters(held: Mapping[str, Supervised]) -> list[str]:
    """Names of the clusters."""
    return list(dict.fromkeys(each.cluster for each in held.values() if each.cluster))


def named(held: Mapping[str, Supervised], kind: ProcessKind) -> list[str]:
    """Names of one kind."""
    return [name for name, each in held.items() if each.kind == kind]


def _local(port: int) -> str:
    return f"127.0.0.1:{port}"


def stops(running: Sequence[Supervised]) -> list[Callable[[], object]]:
    """Returns the calls that stop processes in order: the brokers of a cluster need one another for it."""
    brokers: dict[str, list[KafkaBroker]] = {}
    others: list[Callable[[], object]] = []
    for held in running:
        if isinstance(held.process, KafkaBroker):
            brokers.setdefault(held.cluster, []).append(held.process)
        else:
            others.append(held.process.stop)
    return [*others, *(partial(stop_together, each) for each in brokers.values())]


def kafka_brokers(found: Sequence[Supervised]) -> list[KafkaBroker]:
    """The processes of those that are brokers."""
    return [held.process for held in found if isinstance(held.process, KafkaBroker)]
