"""The configuration of a mesh, and what it means for a directory that may hold one already. Pure: no I/O."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid, Refused
from braid.kernel.ids import check_name
from devmesh.blueprint import CONSOLE, broker_names, instance_names
from devmesh.limits import DEV_BROKERS_MAX, DEV_CLUSTERS_MAX, DEV_REPLICAS_MAX

STORES: Final = ("sqlite", "etcd")
DEFAULT_CLUSTERS: Final = ("east", "west")
STORE_NAME: Final = "etcd"
DERIVED_REPLICAS: Final = 1  # of lagmon and of dlq, unless a mesh is asked for others
STORE_MEMBERS: Final = (0, 1, 3)
ZONES: Final = "abcdefghi"


@dataclass(frozen=True)
class MeshConfig:
    """The mesh that `braid dev` is asked for.

    Attributes:
        directory: All state of the mesh.
        clusters: Its Kafka clusters, each as `NAME` or `NAME:BROKERS`; empty for those the directory has, or else
            `east` and `west`.
        store: `sqlite` or `etcd`; empty for the one the directory has, or else `sqlite`.
        registries: Replicas of the registry.
        assigners: Replicas of the assigner.
        port: Of the endpoint; 0 for the one the directory had, 7401, or a free one above.
        ready_file: Written once everything answers.
        lagmons: Replicas of lagmon; none is allowed.
        dlqs: Replicas of dlq; none is allowed.
        brokers: Of each cluster that says nothing else; 0 for what the directory has, or else one.
        kafka_settings: Of every broker, overriding ours; for this run alone.
        kafka_version: The release of Kafka; empty for ours.
        store_members: Of etcd, 1 or 3; 0 for what the directory has, or else one.
        secure: Whether services and clients speak mutual TLS, and rights are enforced. None for yes: plain text is
            asked for at each start.
        console: Port of the console; 0 for the one the directory had, 7480, or a free one above. None for no console.
    """

    directory: Path
    clusters: tuple[str, ...] = ()
    store: str = ""
    registries: int = 2
    assigners: int = 2
    port: int = 0
    ready_file: Path | None = None
    lagmons: int = DERIVED_REPLICAS
    dlqs: int = DERIVED_REPLICAS
    brokers: int = 0
    kafka_settings: Mapping[str, str] = field(default_factory=dict)
    kafka_version: str = ""
    store_members: int = 0
    secure: bool | None = None
    console: int | None = None

    def check(self) -> None:
        """Raises `Invalid` naming the flag at fault."""
        names = [cluster.partition(":")[0] for cluster in self.clusters]
        for name in names:
            check_name(name, "--clusters")
        if len(set(names)) != len(names):
            raise Invalid("names a cluster twice", field="--clusters")
        if len(names) > DEV_CLUSTERS_MAX:
            raise Invalid(f"{len(names)} clusters are more than {DEV_CLUSTERS_MAX}", field="--clusters")
        self.cluster_brokers()
        if not 0 <= self.brokers <= DEV_BROKERS_MAX:
            raise Invalid(f"{self.brokers} is not between 1 and {DEV_BROKERS_MAX}", field="--brokers")
        if self.store and self.store not in STORES:
            raise Invalid(f"{self.store!r} is no store", field="--store", remedy=f"one of {', '.join(STORES)}")
        if self.store_members not in STORE_MEMBERS:
            raise Invalid(f"{self.store_members} is neither 1 nor 3", field="--store-members")
        for flag, count, least in (
            ("--registries", self.registries, 1),
            ("--assigners", self.assigners, 1),
            ("--lagmons", self.lagmons, 0),
            ("--dlqs", self.dlqs, 0),
        ):
            if not least <= count <= DEV_REPLICAS_MAX:
                raise Invalid(f"{count} is not between {least} and {DEV_REPLICAS_MAX}", field=flag)
        for flag, port in (("--port", self.port), ("--console", self.console)):
            if port and not 1024 <= port < 1 << 16:
                raise Invalid(f"{port} is not between 1024 and 65535", field=flag)
        stores = {STORE_NAME, *store_names(max(STORE_MEMBERS))}
        taken = {*self.instances(), *stores, CONSOLE}.intersection(names)
        if taken:
            raise Invalid(f"{min(taken)} is the name of a process of the mesh", field="--clusters")

    def cluster_brokers(self) -> dict[str, int]:
        """How many brokers each cluster is asked to have, 0 where nothing is said. Raises `Invalid`."""
        counts: dict[str, int] = {}
        for cluster in self.clusters:
            name, said, count = cluster.partition(":")
            if said and not (count.isdecimal() and count.isascii() and 1 <= int(count) <= DEV_BROKERS_MAX):
                message = f"{cluster!r}: {count!r} is no number of brokers between 1 and {DEV_BROKERS_MAX}"
                raise Invalid(message, field="--clusters", remedy="write NAME or NAME:BROKERS, like east:3,west")
            counts[name] = int(count) if said else self.brokers
        return counts

    def instances(self) -> tuple[str, ...]:
        """Names of the service replicas."""
        return instance_names(
            {"registry": self.registries, "assigner": self.assigners, "lagmon": self.lagmons, "dlq": self.dlqs}
        )

    def to_json(self) -> str:
        """One line that `config_from_json` reads."""
        return json.dumps(asdict(self), default=str)


def config_from_json(text: str) -> MeshConfig:
    """Reads the configuration that `to_json` wrote."""
    fields = json.loads(text)
    ready_file = fields.pop("ready_file")
    return MeshConfig(
        directory=Path(fields.pop("directory")),
        clusters=tuple(fields.pop("clusters")),
        ready_file=Path(ready_file) if ready_file else None,
        **fields,
    )


@dataclass(frozen=True)
class Remembered:
    """The facts that a mesh's directory keeps from run to run.

    Attributes:
        store: Its kind.
        zones: Of each cluster by name, in the order in which they came.
        ports: By the name of what listens there (`east`, `east/controller`, `registry-0`, `etcd`, `etcd/peer`).
        brokers: How many each cluster has, by name; one where nothing is said.
        secure: Whether it spoke mutual TLS when it last ran.
    """

    store: str = ""
    zones: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[str, int] = field(default_factory=dict)
    secure: bool = False


@dataclass(frozen=True)
class MeshLayout:
    """The processes that run in a mesh.

    Attributes:
        store: `sqlite` or `etcd`.
        zones: Of each cluster by name.
        instances: Names of the service replicas.
        fresh: Whether the directory was empty before.
        brokers: How many each cluster has, by name; one where nothing is said.
        members: Names of etcd's members; none where the store is another.
        secure: Whether services and clients speak mutual TLS, and rights are enforced.
        was_plain: The directory holds a mesh that spoke plain text when it last ran.
    """

    store: str
    zones: Mapping[str, str]
    instances: tuple[str, ...]
    fresh: bool
    brokers: Mapping[str, int] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    secure: bool = False
    was_plain: bool = False

    def broker_names(self, cluster: str) -> tuple[str, ...]:
        """Names of the processes of a cluster."""
        return broker_names(cluster, self.brokers.get(cluster, 1))


def lay_out(config: MeshConfig, remembered: Remembered) -> MeshLayout:
    """Joins what is asked for with what the directory holds.

    Raises:
        Refused: the directory holds a mesh of another store, with clusters that were not named, or with another number
            of brokers.
    """
    store = config.store or remembered.store or STORES[0]
    if remembered.store and store != remembered.store:
        raise Refused(
            f"{config.directory} holds a mesh with its history in {remembered.store}, not {store}",
            remedy="leave --store out, or choose another --dir",
        )
    asked = config.cluster_brokers() or dict.fromkeys(tuple(remembered.zones) or DEFAULT_CLUSTERS, config.brokers)
    names = tuple(asked)
    missing = [name for name in remembered.zones if name not in names]
    if missing:
        raise Refused(
            f"the mesh in {config.directory} has cluster {missing[0]}, which --clusters does not name",
            remedy="leave --clusters out, or choose another --dir",
        )
    brokers = {name: _brokers(config.directory, name, count, remembered) for name, count in asked.items()}
    zones, members = _zones(names, remembered.zones), _members(config, store, remembered)
    fresh, secure = not remembered.store, config.secure is not False
    was_plain = not fresh and not remembered.secure
    return MeshLayout(store, zones, config.instances(), fresh, brokers, members, secure, was_plain)


def store_names(members: int) -> tuple[str, ...]:
    """Names of etcd's members: `etcd` of a single one, else `etcd-0`, `etcd-1`, …."""
    return (STORE_NAME,) if members == 1 else tuple(f"{STORE_NAME}-{number}" for number in range(members))


def _members(config: MeshConfig, store: str, remembered: Remembered) -> tuple[str, ...]:
    """Names of etcd's members. A store keeps those it has. Raises `Refused`."""
    if store != STORE_NAME:
        if config.store_members > 1:
            raise Refused(f"a store in {store} has no members", remedy="choose --store etcd")
        return ()
    had = len([name for name in store_names(max(STORE_MEMBERS)) if name in remembered.ports]) or 1
    if remembered.store and config.store_members not in (0, had):
        raise Refused(
            f"the etcd of the mesh in {config.directory} has {had} members, not {config.store_members}",
            remedy="ask for as many, or choose another --dir",
        )
    return store_names(had if remembered.store else config.store_members or 1)


def _brokers(directory: Path, cluster: str, asked: int, remembered: Remembered) -> int:
    """How many brokers a cluster has. It keeps what it has: its copies lie on those. Raises `Refused`."""
    if cluster not in remembered.zones:
        return asked or 1
    had = remembered.brokers.get(cluster, 1)
    if asked not in (0, had):
        raise Refused(
            f"cluster {cluster} of the mesh in {directory} has {_counted(had)}, not {asked}",
            remedy=f"leave the number out or write {cluster}:{had}, or choose another --dir",
        )
    return had


def _counted(brokers: int) -> str:
    return "1 broker" if brokers == 1 else f"{brokers} brokers"


def _zones(names: tuple[str, ...], known: Mapping[str, str]) -> dict[str, str]:
    """Zones a, b, … by position; a cluster keeps the zone it has."""
    zones = dict(known)
    for name in names:
        if name not in zones:
            zones[name] = next(zone for zone in ZONES if zone not in zones.values())
    return zones
