"""What a mesh is asked to be, and what that means for a directory that may hold one already. Pure: no I/O."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid, Refused
from braid.kernel.ids import check_name
from braid.kernel.limits import DEV_CLUSTERS_MAX, DEV_REPLICAS_MAX
from devmesh.blueprint import instance_names

STORES: Final = ("sqlite", "etcd")
DEFAULT_CLUSTERS: Final = ("east", "west")
STORE_NAME: Final = "etcd"
DERIVED_REPLICAS: Final = 1  # of lagmon and of dlq, unless a mesh is asked for others
_ZONES: Final = "abcdefghi"


@dataclass(frozen=True)
class MeshConfig:
    """What `braid dev` is asked for.

    Attributes:
        directory: All state of the mesh.
        clusters: Names of its Kafka clusters; empty for those the directory has, or else `east` and `west`.
        store: `sqlite` or `etcd`; empty for the one the directory has, or else `sqlite`.
        registries: Replicas of the registry.
        assigners: Replicas of the assigner.
        port: Of the endpoint; 0 for the one the directory had, 7401, or a free one above.
        ready_file: Written once everything answers.
        lagmons: Replicas of lagmon; none is allowed.
        dlqs: Replicas of dlq; none is allowed.
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

    def check(self) -> None:
        """Raises `Invalid` naming the flag at fault."""
        for name in self.clusters:
            check_name(name, "--clusters")
        if len(set(self.clusters)) != len(self.clusters):
            raise Invalid("names a cluster twice", field="--clusters")
        if len(self.clusters) > DEV_CLUSTERS_MAX:
            raise Invalid(f"{len(self.clusters)} clusters are more than {DEV_CLUSTERS_MAX}", field="--clusters")
        if self.store and self.store not in STORES:
            raise Invalid(f"{self.store!r} is no store", field="--store", remedy=f"one of {', '.join(STORES)}")
        for flag, count, least in (
            ("--registries", self.registries, 1),
            ("--assigners", self.assigners, 1),
            ("--lagmons", self.lagmons, 0),
            ("--dlqs", self.dlqs, 0),
        ):
            if not least <= count <= DEV_REPLICAS_MAX:
                raise Invalid(f"{count} is not between {least} and {DEV_REPLICAS_MAX}", field=flag)
        if self.port and not 1024 <= self.port < 1 << 16:
            raise Invalid(f"{self.port} is not between 1024 and 65535", field="--port")
        taken = {*self.instances(), STORE_NAME}.intersection(self.clusters)
        if taken:
            raise Invalid(f"{min(taken)} is the name of a process of the mesh", field="--clusters")

    def instances(self) -> tuple[str, ...]:
        """Names of the service replicas."""
        return instance_names(
            {"registry": self.registries, "assigner": self.assigners, "lagmon": self.lagmons, "dlq": self.dlqs}
        )

    def to_json(self) -> str:
        """One line that `config_from_json` reads."""
        return json.dumps(asdict(self), default=str)


def config_from_json(text: str) -> MeshConfig:
    """What `to_json` wrote."""
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
    """What a directory keeps of its mesh from run to run.

    Attributes:
        store: Its kind.
        zones: Of each cluster by name, in the order in which they came.
        ports: By the name of what listens there (`east`, `east/controller`, `registry-0`, `etcd`, `etcd/peer`).
    """

    store: str = ""
    zones: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """What runs.

    Attributes:
        store: `sqlite` or `etcd`.
        zones: Of each cluster by name.
        instances: Names of the service replicas.
        fresh: Whether the directory was empty before.
    """

    store: str
    zones: Mapping[str, str]
    instances: tuple[str, ...]
    fresh: bool


def lay_out(config: MeshConfig, remembered: Remembered) -> Layout:
    """Joins what is asked for with what the directory holds.

    Raises:
        Refused: the directory holds a mesh of another store, or with clusters that were not named.
    """
    store = config.store or remembered.store or STORES[0]
    if remembered.store and store != remembered.store:
        raise Refused(
            f"{config.directory} holds a mesh with its history in {remembered.store}, not {store}",
            remedy="leave --store out, or choose another --dir",
        )
    names = config.clusters or tuple(remembered.zones) or DEFAULT_CLUSTERS
    missing = [name for name in remembered.zones if name not in names]
    if missing:
        raise Refused(
            f"the mesh in {config.directory} has cluster {missing[0]}, which --clusters does not name",
            remedy="leave --clusters out, or choose another --dir",
        )
    return Layout(store, _zones(names, remembered.zones), config.instances(), not remembered.store)


def _zones(names: tuple[str, ...], known: Mapping[str, str]) -> dict[str, str]:
    """Zones a, b, … by position; a cluster keeps the zone it has."""
    zones = dict(known)
    for name in names:
        if name not in zones:
            zones[name] = next(zone for zone in _ZONES if zone not in zones.values())
    return zones
