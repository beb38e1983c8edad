"""The services of compose.yaml as values, made from the table that `braid dev` runs (`devmesh.blueprint`). Pure.

All containers share one network namespace, that of `net`: the head of compose.yaml says why.
"""

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from braid.certs.authority import BUNDLE, CERTIFICATE, KEY
from braid.host.tls.paths import Tls, environment_of
from devmesh import blueprint
from devmesh.blueprint import CONSOLE, CONSOLE_PORT, BrokerPlace, ConsolePlace, ServicePlace, StorePlace, kind_of
from devmesh.issue import ADMIN, ADMINS_FILE
from devmesh.toolchain.etcd_binary import ETCD_VERSION
from devmesh.toolchain.jars import KAFKA_VERSION
from tools import compose_observability as observability

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]
Service = dict[str, Value]

ZONES: Final = {"east": "a", "west": "b"}
MEMBERS: Final = ("etcd-0", "etcd-1", "etcd-2")
REPLICAS: Final = {"registry": 2, "assigner": 2, "lagmon": 1, "dlq": 1}
STREAM: Final = "logs"

KAFKA_IMAGE: Final = f"apache/kafka:{KAFKA_VERSION}"
ETCD_IMAGE: Final = f"gcr.io/etcd-development/etcd:v{ETCD_VERSION}"
USER: Final = "10001:10001"  # made in deploy/Dockerfile
HOME: Final = "/var/lib/braid"
ETCD_HOME: Final = "/var/lib/etcd"
_KAFKA_DATA: Final = "/var/lib/kafka/data"
_EVERYWHERE: Final = "0.0.0.0"  # of the namespace: published ports arrive at its outer interface

INSTANCES: Final = blueprint.instance_names(REPLICAS)
PORTS: Final = blueprint.wanted_ports(INSTANCES, tuple(ZONES), MEMBERS)
CAS: Final = "/etc/braid/cas"
FILES: Final = "/etc/braid/tls"
CERTIFICATES: Final = {"cas": CAS, "tls": FILES}  # volumes, by where they are mounted
USER_NAME: Final = "me"  # who calls from the host
HOLDERS: Final = (
    *(f"service/{name}" for name in INSTANCES),
    "app/event-store",
    *(f"{ADMIN}{name}" for name in ("app/init", f"user/{USER_NAME}")),
    *(f"member/{name}" for name in MEMBERS),
)
ENDPOINTS: Final = ",".join(f"127.0.0.1:{PORTS[name]}" for name in INSTANCES if kind_of(name) == "registry")

# Killed before it has ended in order after so long: longer than the processes themselves take.
_GRACE: Final = {"service": "20s", "cluster": "30s", "store": "10s", "step": "5s", "job": "30s"}
# The broker's image writes its settings and logs beside its code; native libraries are unpacked into /tmp and executed.
_KAFKA_TMPFS: Final = (
    "/tmp:exec,mode=1777,size=64m",
    "/opt/kafka/config:mode=1777,size=1m",
    "/opt/kafka/logs:mode=1777,size=64m",
)
_TMPFS: Final = "/tmp:mode=1777,size=64m"
_SPARK_TMPFS: Final = "/tmp:exec,mode=1777,size=2g"  # shuffles of a micro-batch, native libraries


def services(version: str) -> dict[str, Service]:
    """All services by name, in the order in which they start.

    Args:
        version: Of Braid, the tag of its own images.
    """
    image = f"braid-streams/services:{version}"
    members = stores(secure=True)
    found = {"net": _net(image), "disks": _disks(image), "certs": _certs(image)}
    found |= {place.name: _store(place, members) for place in members}
    found |= {name: _cluster(name, zone) for name, zone in ZONES.items()}
    found |= {name: _replica(name, image) for name in INSTANCES}
    found["init"] = _init(image)
    found[CONSOLE] = _console(image)
    return found | _spark(image, f"braid-streams/spark:{version}") | _observability()


def plain_services() -> dict[str, Service]:
    """Services of compose.insecure.yaml: the store and the services speak plain text, and ask for no certificate."""
    members = stores(secure=False)
    found: dict[str, Service] = {}
    for place in members:
        whole = _store(place, members)
        found[place.name] = {key: whole[key] for key in ("command", "healthcheck")}
    url = blueprint.store_url(members)
    plain: Service = {"BRAID_STORE": url, "BRAID_TLS_MODE": "off", "BRAID_ACCESS": "open", "BRAID_ADMINS_FILE": ""}
    found |= {name: {"environment": dict(plain)} for name in INSTANCES}
    no_files: Service = {name: "" for name in environment_of(_files("init"))}
    found |= {name: {"environment": dict(no_files)} for name in ("init", CONSOLE, "stream", "event-store")}
    found["prometheus"] = {"command": observability.prometheus_command("insecure.yml")}
    found["stream"]["command"] = _apply(STREAM)  # nobody can be granted anything without a name that is proved
    return found


def stores(*, secure: bool) -> tuple[StorePlace, ...]:
    """The members of etcd."""
    data = f"{ETCD_HOME}/data"
    return tuple(
        StorePlace(name, PORTS[name], PORTS[f"{name}/peer"], data, _files(name) if secure else None) for name in MEMBERS
    )


def volumes() -> tuple[str, ...]:
    """Names of all volumes."""
    return (*MEMBERS, *ZONES, *INSTANCES, CONSOLE, "event-store", *CERTIFICATES, *observability.VOLUMES)


def kafka_variable(property_name: str) -> str:
    """The environment variable that the broker's image turns into a property."""
    return "KAFKA_" + property_name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def cluster_id(name: str) -> str:
    """A fixed id: 16 bytes as Kafka writes them. A lost volume comes back as the same cluster, but empty."""
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.braid").bytes).decode().rstrip("=")


def broker_check(port: int) -> list[str]:
    """Asks a broker for metadata, as `processes.brokers` does, with the image's own tools: an open port proves
    little."""
    request = "".join(f"\\{byte:03o}" for byte in blueprint.METADATA_REQUEST)
    size = blueprint.METADATA_ANSWER_BYTES
    answer = f"timeout 3 head -c {size} <&3 | tail -c 4 | tr -d '\\000' | grep -q ."
    return ["CMD", "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port} && printf '{request}' >&3 && {answer}"]


def _net(image: str) -> Service:
    outside = [PORTS[name] for name in (*INSTANCES, *ZONES)]
    outside += [PORTS[name] + blueprint.METRICS_ABOVE for name in INSTANCES]
    outside += [CONSOLE_PORT, *observability.PORTS]
    return {
        **_ours(image, "services"),
        "command": ["sleep", "infinity"],
        "init": True,
        "hostname": "braid",
        "ports": [f"127.0.0.1:{port}:{port}" for port in outside],
        # By the namespace's own name, so through the interface at which published ports arrive.
        "healthcheck": _health(_service_check(f"braid:{PORTS[INSTANCES[0]] + blueprint.HEALTH_ABOVE}")),
        "restart": "unless-stopped",
        "stop_grace_period": _GRACE["step"],
    }


def _disks(image: str) -> Service:
    return {
        **_ours(image, "services"),
        "command": ["true"],
        "network_mode": "none",
        "volumes": [
            *(f"{name}:{ETCD_HOME}/{name}" for name in MEMBERS),
            *(f"{name}:{observability.HOME}/{name}" for name in observability.VOLUMES),
        ],
        "restart": "no",
        "stop_grace_period": _GRACE["step"],
    }


def _certs(image: str) -> Service:
    return {
        **_ours(image, "services"),
        "command": _python(blueprint.issue_command(CAS, FILES, HOLDERS)),
        "network_mode": "none",
        "volumes": [f"{name}:{path}" for name, path in CERTIFICATES.items()],
        "restart": "no",
        "stop_grace_period": _GRACE["step"],
    }


def _store(place: StorePlace, members: Sequence[StorePlace]) -> Service:
    shown = ("--cert", place.tls.certificate, "--key", place.tls.key, "--cacert", place.tls.ca) if place.tls else ()
    asked = ["etcdctl", f"--endpoints={blueprint.client_url(place)}", *map(str, shown), "endpoint", "health"]
    return {
        "image": ETCD_IMAGE,
        **_shut(()),
        "user": USER,
        "command": ["etcd", *blueprint.store_arguments(place, members)],
        "network_mode": "service:net",
        "depends_on": {**_NET, "disks": _done(), "certs": _done()},
        "volumes": [f"{place.name}:{ETCD_HOME}", _SHOWN],
        "healthcheck": _health(["CMD", *asked]),
        "restart": "unless-stopped",
        "stop_grace_period": _GRACE["store"],
    }


def _cluster(name: str, zone: str) -> Service:
    port = PORTS[name]
    place = BrokerPlace(zone, _EVERYWHERE, port, PORTS[f"{name}/controller"], _KAFKA_DATA)
    properties = blueprint.broker_settings(place)
    return {
        "image": KAFKA_IMAGE,
        **_shut(_KAFKA_TMPFS),
        "environment": {
            "CLUSTER_ID": cluster_id(name),
            "EXTRA_ARGS": "-name kafkaServer",  # the image's own, but without a log of collections, a gigabyte in time
            "KAFKA_HEAP_OPTS": f"-Xms64m -Xmx{blueprint.BROKER_HEAP_MB}m",
            **{kafka_variable(key): value for key, value in properties.items()},
        },
        "network_mode": "service:net",
        "depends_on": dict(_NET),
        "volumes": [f"{name}:{_KAFKA_DATA}"],
        "healthcheck": _health(broker_check(port)),
        "restart": "unless-stopped",
        "stop_grace_period": _GRACE["cluster"],
    }


def _replica(instance: str, image: str) -> Service:
    port = PORTS[instance]
    place = ServicePlace(
        instance=instance,
        store=blueprint.store_url(stores(secure=True)),
        listen=f"{_EVERYWHERE}:{port}",
        advertise=f"127.0.0.1:{port}",
        metrics=f"{_EVERYWHERE}:{port + blueprint.METRICS_ABOVE}",
        home=HOME,
        tls=_files(instance),
        store_tls=_files(f"{instance}/store"),
        health=f"{_EVERYWHERE}:{port + blueprint.HEALTH_ABOVE}",
        admins_file=f"{FILES}/{ADMINS_FILE}",
    )
    after = {name: _healthy() for name in (*MEMBERS, *ZONES)}
    return {
        **_ours(image, "services"),
        "command": _python(blueprint.service_command(instance)),
        "environment": blueprint.service_settings(place),
        "network_mode": "service:net",
        # What is derived from the clusters starts when the registry knows them.
        "depends_on": {
            **_NET,
            "certs": _done(),
            **after,
            **({} if kind_of(instance) in _DECIDERS else {"init": _done()}),
        },
        "volumes": [f"{instance}:{HOME}", _SHOWN],
        "healthcheck": _health(_service_check(f"127.0.0.1:{port + blueprint.HEALTH_ABOVE}")),
        "restart": "unless-stopped",
        "stop_grace_period": _GRACE["service"],
    }


def _init(image: str) -> Service:
    clusters = [f"{name}=127.0.0.1:{PORTS[name]}/{zone}" for name, zone in ZONES.items()]
    deciders = [name for name in INSTANCES if kind_of(name) in _DECIDERS]
    return {
        **_ours(image, "services"),
        "command": _python(blueprint.enroll_command(ENDPOINTS, clusters)),
        "environment": dict(environment_of(_files("init"))),
        "network_mode": "service:net",
        "volumes": [_SHOWN],
        "depends_on": {**_NET, **{name: _healthy() for name in (*deciders, *ZONES)}},
        "restart": "no",
        "stop_grace_period": _GRACE["step"],
    }


def _console(image: str) -> Service:
    listen = f"{_EVERYWHERE}:{CONSOLE_PORT}"
    place = ConsolePlace(listen, ENDPOINTS, f"{HOME}/console", f"{HOME}/ready.json", _files(USER_NAME))
    ask = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{CONSOLE_PORT}/healthz', timeout=2)"
    return {
        **_ours(image, "services"),
        "command": _python(blueprint.console_command()),
        # Its port is published on 127.0.0.1 of the machine alone.
        "environment": {**blueprint.console_settings(place), "BRAID_CONSOLE_PLAINTEXT": "true"},
        "network_mode": "service:net",
        "depends_on": {**_NET, "certs": _done(), "init": _done()},
        "volumes": [f"{CONSOLE}:{HOME}", _SHOWN],
        "healthcheck": _health(["CMD", "python", "-c", ask]),
        "restart": "unless-stopped",
        "stop_grace_period": _GRACE["service"],
    }


def _spark(image: str, spark_image: str) -> dict[str, Service]:
    common: Service = {"network_mode": "service:net", "profiles": ["spark"]}
    return {
        "stream": {
            **_ours(image, "services"),
            **common,
            "command": _apply(STREAM, "event-store"),
            "environment": {"BRAID_ENDPOINT": ENDPOINTS, **environment_of(_files(USER_NAME))},
            "volumes": [_SHOWN],
            "depends_on": {**_NET, "init": _done()},
            "restart": "no",
            "stop_grace_period": _GRACE["step"],
        },
        "event-store": {
            **_ours(spark_image, "spark", _SPARK_TMPFS),
            **common,
            "command": _python(blueprint.event_store_command(ENDPOINTS, STREAM, HOME)),
            "environment": {"SPARK_LOCAL_IP": "127.0.0.1", **environment_of(_files("event-store"))},
            "depends_on": {**_NET, "stream": _done()},
            "volumes": [f"event-store:{HOME}", _SHOWN],
            "healthcheck": _health(["CMD", "test", "-f", f"{HOME}/checkpoint/metadata"]),
            "restart": "unless-stopped",
            "stop_grace_period": _GRACE["job"],
        },
    }


def _observability() -> dict[str, Service]:
    health = {key: value for key, value in _health(()).items() if key != "test"}
    return observability.services(_shut((_TMPFS,)), _NET, USER, _SHOWN, health)


def observability_files() -> dict[Path, str]:
    """Files that containers of the profile `observability` read, by path in the repository."""
    return observability.files({name: PORTS[name] for name in INSTANCES}, _files("init").ca)


def _apply(*manifests: str) -> list[str]:
    return ["braid", "apply", *(word for name in manifests for word in ("-f", f"/usr/share/braid/{name}.yaml"))]


def _files(holder: str) -> Tls:
    """Where a container finds what its process shows."""
    directory = Path(FILES) / holder
    return Tls(directory / CERTIFICATE, directory / KEY, directory / BUNDLE)


_SHOWN: Final = f"tls:{FILES}:ro"
_DECIDERS: Final = ("registry", "assigner")
_NET: Final[Mapping[str, Value]] = {"net": {"condition": "service_started", "restart": True}}


def _ours(image: str, target: str, tmpfs: str = _TMPFS) -> Service:
    return {
        "image": image,
        "build": {"context": ".", "dockerfile": "deploy/Dockerfile", "target": target},
        "user": USER,
        **_shut((tmpfs,)),
    }


def _shut(tmpfs: Sequence[str]) -> Service:
    """Restrictions of every container, and the one log driver with bounded files."""
    return {
        "read_only": True,
        **({"tmpfs": list(tmpfs)} if tmpfs else {}),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "logging": {"driver": "local"},
    }


def _python(command: Sequence[str]) -> list[str]:
    """A command of this interpreter as one of the image's."""
    return ["python", *command[1:]]


def _service_check(address: str) -> list[str]:
    return ["CMD", *_python(blueprint.health_command(address))]


def _health(test: Sequence[str]) -> Service:
    return {
        "test": [word.replace("$", "$$") for word in test],
        "interval": "10s",
        "timeout": "5s",
        "retries": 3,
        "start_period": "90s",
        "start_interval": "1s",
    }


def _healthy() -> Service:
    return {"condition": "service_healthy"}


def _done() -> Service:
    return {"condition": "service_completed_successfully"}
