"""One table of what a mesh is made of: for every kind of process its command, settings, ports and health check. Pure.

`braid dev` runs these as processes (`roster`, `process`, `brokers`); `tools.compose` writes them down as compose.yaml.
What differs between the two is an argument here: where things listen and lie, and whether writes outlive the machine.
"""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from braid._mesh import mesh_command
from braid.host.store_credentials import StoreCredentials
from braid.host.store_credentials import environment_of as store_environment_of
from braid.host.tls.paths import Tls, environment_of

_CONSOLE_MODULE: Final = "console.server"
SERVICES: Final = ("registry", "assigner", "lagmon", "dlq")
CONSOLE: Final = "console"

# Ports a mesh wants. What listens on two takes the one above for its peers.
ENDPOINT_PORT: Final = 7401
HEALTH_ABOVE: Final = 200  # answers to health checks, above a service's own port, where that needs a certificate
CONSOLE_PORT: Final = 7480
METRICS_ABOVE: Final = 100  # a service's metrics, above its own port, where they are not on any free one
CLUSTER_PORT: Final = 19192
STORE_PORT: Final = 19292
_PORT_STEP: Final = 2

BROKER_HEAP_MB: Final = 256  # enough for tests, not for benchmarks
BROKER_SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "1800000",
    # A killed broker may register again once its old session has expired: seconds instead of a quarter minute.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # An idle controller would append a record twice a second, which its brokers read and apply.
    "metadata.max.idle.interval.ms": "0",
    # The cleaner takes half of a small heap by default.
    "log.cleaner.dedupe.buffer.size": "4194304",
    # An index is mapped whole: a kernel that reads far ahead fills 10 MiB with zeros at a partition's first records.
    "log.index.size.max.bytes": "262144",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}
CONTROLLERS_MAX: Final = 3  # of one cluster, in its first brokers: a quorum that survives the loss of one
COPIES_MAX: Final = 3  # of a partition, where the cluster has so many brokers
_COPIED: Final = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
# Kafka's own session of a broker; `BROKER_SETTINGS` has a shorter one.
STOCK_SESSION: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
}

# Asks a broker for metadata about no topics (version 1, correlation id 1, client id "dev"): once it serves, its answer
# names at least itself. After the length and the correlation id comes the number of brokers.
METADATA_REQUEST: Final = b"\x00\x00\x00\x11" + b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x03dev\x00\x00\x00\x00"
METADATA_ANSWER_BYTES: Final = 12


class ServicePlace(NamedTuple):
    """Where one replica of a service is.

    Attributes:
        instance: `registry-0`.
        store: URL of the event store.
        listen: `host:port` on which it serves control RPCs.
        advertise: `host:port` at which others reach it.
        metrics: `host:port` of its metrics.
        home: Directory for what it keeps; empty where it has none.
        ready_file: Written once it serves; empty for none.
        tls: What it shows and whom it trusts; None for plain text.
        store_tls: What it shows etcd, where that has a CA of its own; None for the same.
        health: `host:port` at which it answers health checks, which need no certificate; empty for any port.
        admins: Principals that are admins by its settings. Where there are any, rights are enforced.
        admins_file: Names them in the place of settings; empty for none.
    """

    instance: str
    store: str
    listen: str
    advertise: str
    metrics: str
    home: str = ""
    ready_file: str = ""
    tls: Tls | None = None
    store_tls: Tls | None = None
    health: str = ""
    admins: Sequence[str] = ()
    admins_file: str = ""


class ConsolePlace(NamedTuple):
    """Where the console is, and whom it calls.

    Attributes:
        listen: `host:port` on which it serves browsers.
        endpoint: Addresses of services, separated by commas.
        home: Directory for the key of its one-time links.
        ready_file: Written once it serves.
        tls: What it shows services and whom it trusts; None for plain text.
    """

    listen: str
    endpoint: str
    home: str
    ready_file: str
    tls: Tls | None = None


class BrokerPlace(NamedTuple):
    """Where a Kafka broker is, and what it has to know of the others of its cluster.

    Attributes:
        zone: Its rack.
        listen: Host on which clients are served.
        port: For clients, who are told 127.0.0.1.
        controller_port: Of the controller in the same process, on 127.0.0.1; unused where the broker has none.
        data: Directory of its log.
        node: Its number in the cluster, from 1.
        controllers: Port of every controller of the cluster by its node; empty for a cluster of this broker alone.
        brokers: How many brokers the cluster has.
    """

    zone: str
    listen: str
    port: int
    controller_port: int
    data: str
    node: int = 1
    controllers: Mapping[int, int] = MappingProxyType({})
    brokers: int = 1


class StorePlace(NamedTuple):
    """Where a member of etcd is.

    Attributes:
        name: `etcd`, or `etcd-0`.
        port: For clients, on 127.0.0.1.
        peer_port: For the other members, on 127.0.0.1.
        data: Directory of its log.
        tls: What it shows clients and other members, and whom it trusts; None for plain text.
    """

    name: str
    port: int
    peer_port: int
    data: str
    tls: Tls | None = None


def kind_of(instance: str) -> str:
    """The service an instance is a replica of: `registry` for `registry-0`."""
    return instance.rpartition("-")[0]


def instance_names(replicas: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the replicas of each service, in the order of `SERVICES`; what is not counted has none."""
    return tuple(f"{kind}-{number}" for kind in SERVICES for number in range(replicas.get(kind, 0)))


def broker_names(cluster: str, brokers: int) -> tuple[str, ...]:
    """Returns the names of a cluster's brokers: `east/1`, `east/2`, …; a single one is called like its cluster."""
    return (cluster,) if brokers == 1 else tuple(f"{cluster}/{node}" for node in range(1, brokers + 1))


def controller_nodes(brokers: int) -> range:
    """The brokers of a cluster that are controllers too: the first three, or the first where there are fewer."""
    return range(1, 1 + (CONTROLLERS_MAX if brokers >= CONTROLLERS_MAX else 1))


def wanted_ports(
    instances: Sequence[str], brokers: Sequence[str], members: Sequence[str], first: int = ENDPOINT_PORT
) -> dict[str, int]:
    """The port each would have if all were free, by the name of what listens (`east`, `east/controller`, `etcd/peer`).

    Args:
        instances: Of services; the first has the endpoint.
        brokers: Names of Kafka brokers, of all clusters.
        members: Of etcd.
        first: The endpoint's.
    """
    ports = {instance: first + number for number, instance in enumerate(instances)}
    for names, beside, base in ((brokers, "controller", CLUSTER_PORT), (members, "peer", STORE_PORT)):
        for number, name in enumerate(names):
            ports[name] = base + _PORT_STEP * number
            ports[f"{name}/{beside}"] = ports[name] + 1
    return ports


def python_modules(console: bool) -> list[str]:
    """The modules that run as processes of a mesh, with the console's or without it."""
    return [*(f"services.{kind}" for kind in SERVICES), *([_CONSOLE_MODULE] if console else [])]


def service_command(instance: str) -> list[str]:
    """Runs a replica of a service in this interpreter."""
    return mesh_command(f"services.{kind_of(instance)}")


def health_command(address: str) -> list[str]:
    """Ends with 0 when the service at `host:port` serves."""
    return [sys.executable, "-P", "-m", "braid.runtime.health", address]


def issue_command(cas: str, target: str, names: Sequence[str]) -> list[str]:
    """Makes the certificates of a composed mesh: CAs below `cas`, and each holder's files below `target`."""
    return [*mesh_command("devmesh.issue"), cas, target, *names]


def enroll_command(endpoints: str, clusters: Sequence[str]) -> list[str]:
    """Tells a mesh its clusters, each as `NAME=HOST:PORT/ZONE`, once."""
    return [*mesh_command("devmesh.enroll"), endpoints, *clusters]


def event_store_command(endpoints: str, stream: str, home: str) -> list[str]:
    """The Spark job that keeps a stream's records in a table below `home`."""
    where = ("--table", f"{home}/table", "--checkpoint", f"{home}/checkpoint")
    what = ("--endpoint", endpoints, "--stream", stream, "--group", "event-store")
    return [*mesh_command("pipelines.event_store"), *what, *where]


def service_settings(place: ServicePlace) -> dict[str, str]:
    """The environment of a replica, beside what the machine's has."""
    settings = {
        "BRAID_STORE": place.store,
        "BRAID_INSTANCE": place.instance,
        "BRAID_LISTEN": place.listen,
        "BRAID_ADVERTISE": place.advertise,
        "BRAID_METRICS": place.metrics,
        "BRAID_ARCHIVE": f"file://{place.home}/archive",
    }
    if place.ready_file:
        settings["BRAID_READY_FILE"] = place.ready_file
    settings |= {**environment_of(place.tls), **store_environment_of(StoreCredentials(place.store_tls))}
    if place.health:
        settings["BRAID_HEALTH_LISTEN"] = place.health
    if place.admins:
        settings |= {"BRAID_ACCESS": "enforced", "BRAID_ADMINS": ",".join(place.admins)}
    if place.admins_file:
        settings |= {"BRAID_ACCESS": "enforced", "BRAID_ADMINS_FILE": place.admins_file}
    if kind_of(place.instance) == "dlq":
        settings["BRAID_INDEX"] = f"{place.home}/index"
    if kind_of(place.instance) == "lagmon":
        settings["BRAID_KEPT_LAG"] = f"{place.home}/kept-lag"
    return settings


def console_command() -> list[str]:
    """Runs the console in this interpreter."""
    return mesh_command(_CONSOLE_MODULE)


def console_settings(place: ConsolePlace) -> dict[str, str]:
    """The environment of the console, beside what the machine's has."""
    return {
        "BRAID_CONSOLE_LISTEN": place.listen,
        "BRAID_CONSOLE_HOME": place.home,
        "BRAID_CONSOLE_READY_FILE": place.ready_file,
        "BRAID_ENDPOINT": place.endpoint,
        **environment_of(place.tls),
    }


def broker_settings(place: BrokerPlace) -> dict[str, str]:
    """A broker's properties. Clients anywhere on the machine are told 127.0.0.1."""
    own = {
        "listeners": f"PLAINTEXT://{place.listen}:{place.port},CONTROLLER://127.0.0.1:{place.controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{place.port}",
        "controller.quorum.voters": f"1@127.0.0.1:{place.controller_port}",
        "log.dirs": place.data,
        "broker.rack": place.zone,
    }
    several = _settings_of_several(place) if place.brokers > 1 else {}
    return {**BROKER_SETTINGS, **own, **several}


def _settings_of_several(place: BrokerPlace) -> dict[str, str]:
    """In what a broker of a larger cluster differs. An acknowledgement needs two copies where there are three."""
    copies = min(COPIES_MAX, place.brokers)
    in_sync = str(max(1, copies - 1))
    settings = {
        "node.id": str(place.node),
        "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{port}" for node, port in place.controllers.items()),
        "default.replication.factor": str(copies),
        "min.insync.replicas": in_sync,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.min.isr": in_sync,
        **{f"{topic}.replication.factor": str(copies) for topic in _COPIED},
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    if place.node not in place.controllers:
        settings["process.roles"] = "broker"
        settings["listeners"] = f"PLAINTEXT://{place.listen}:{place.port}"
    return settings


def store_arguments(place: StorePlace, members: Sequence[StorePlace]) -> list[str]:
    """Returns the arguments that start an etcd server.

    Args:
        place: Of this member.
        members: All, this one among them. A single one is quick, not durable: what it wrote survives the death of the
            process, not that of the machine.
    """
    client, peer = client_url(place), _peer(place)
    several = ("--log-level", "warn", "--initial-cluster-token", "braid")
    # A single member elects itself: in 0.2 s instead of 1 s.
    single = ("--log-level", "error", "--unsafe-no-fsync", "--heartbeat-interval", "20", "--election-timeout", "200")
    return [
        *("--name", place.name, "--data-dir", place.data),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", ",".join(f"{each.name}={_peer(each)}" for each in members)),
        *("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h"),
        *(_store_files(place.tls) if place.tls else ()),
        *(several if len(members) > 1 else single),
    ]


def client_url(place: StorePlace) -> str:
    """Where a member of etcd serves clients."""
    return f"{_scheme(place)}://127.0.0.1:{place.port}"


def store_url(members: Sequence[StorePlace]) -> str:
    """The event store as services name it."""
    scheme = "etcd+tls" if all(each.tls for each in members) else "etcd"
    return f"{scheme}://{','.join(f'127.0.0.1:{each.port}' for each in members)}"


def _store_files(tls: Tls) -> tuple[str, ...]:
    """The arguments by which etcd serves only clients and members with a certificate of the store's own CA."""
    clients = ("--cert-file", str(tls.certificate), "--key-file", str(tls.key), "--trusted-ca-file", str(tls.ca))
    peers = (
        *("--peer-cert-file", str(tls.certificate), "--peer-key-file", str(tls.key)),
        *("--peer-trusted-ca-file", str(tls.ca), "--peer-client-cert-auth"),
    )
    return (*clients, "--client-cert-auth", *peers)


def _peer(place: StorePlace) -> str:
    return f"{_scheme(place)}://127.0.0.1:{place.peer_port}"


def _scheme(place: StorePlace) -> str:
    return "https" if place.tls else "http"
