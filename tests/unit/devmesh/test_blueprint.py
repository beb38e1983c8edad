"""The table of processes, and that `braid dev` and compose.yaml run the same by it."""

import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from braid.host.tls.paths import Tls
from devmesh import blueprint, roster
from devmesh.blueprint import (
    CONSOLE,
    CONSOLE_PORT,
    StorePlace,
    instance_names,
    kind_of,
    store_arguments,
    store_url,
    wanted_ports,
)
from devmesh.config import MeshConfig, Remembered, lay_out
from devmesh.files import MeshFiles
from devmesh.processes import brokers, process
from devmesh.roster import Tools
from devmesh.supervision import ProcessKind
from tests.support.compose import broker_properties, read_compose

SERVICES: Final = read_compose()
INSTANCES: Final = ("registry-0", "registry-1", "assigner-0", "assigner-1", "lagmon-0", "dlq-0")

# What differs for a reason: a container's place, the network it listens on, and a store that outlives the machine.
PLACED: Final = {
    *(
        "BRAID_CLOCK_OFFSET_FILE",
        "BRAID_READY_FILE",
        "BRAID_PARENT_PID",
        "BRAID_LISTEN",
        "BRAID_METRICS",
        "BRAID_STORE",
    ),
    *("BRAID_ARCHIVE", "BRAID_INDEX", "BRAID_KEPT_LAG"),
}
# A composed mesh has certificates, `braid dev` here has none.
SHOWN: Final = {
    *(f"BRAID_TLS_{name}" for name in ("CERTIFICATE", "KEY", "CA", "RELOAD_SECONDS")),
    *(f"BRAID_STORE_TLS_{name}" for name in ("CERTIFICATE", "KEY", "CA")),
    "BRAID_HEALTH_LISTEN",
    *("BRAID_ACCESS", "BRAID_ADMINS_FILE"),
}
BROKER_PLACED: Final = {"listeners", "log.dirs"}

Spawned = tuple[Sequence[str], Mapping[str, str]]


class FakeProcess:
    """A spawned process that has done nothing yet."""

    pid = 1

    def poll(self) -> int | None:
        """None, because it has not ended."""


@pytest.fixture
def spawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Spawned]:
    """The commands and environments that `braid dev --store etcd` starts with all ports free, by name."""
    seen: list[Spawned] = []

    def spawn(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> FakeProcess:
        seen.append((command, environment or {}))
        return FakeProcess()

    monkeypatch.setattr(process, "spawn_guarded", spawn)
    monkeypatch.setattr(brokers, "check_free", lambda *_: None)
    monkeypatch.setattr("os.environ", {})
    layout = lay_out(MeshConfig(tmp_path, store="etcd", lagmons=1, dlqs=1), Remembered())
    files = MeshFiles(tmp_path)
    ports = {**wanted_ports(layout.instances, tuple(layout.zones), ["etcd"]), CONSOLE: CONSOLE_PORT}
    held = roster.build(layout, ports, files, Tools(Path("java"), "jars", Path("etcd")))
    for name in layout.zones:
        (files.cluster(name) / "data").mkdir(parents=True)
        (files.cluster(name) / "data" / "meta.properties").touch()
    for each in held.values():
        each.process.start()
    assert {kind.value for kind in ProcessKind} == {each.kind.value for each in held.values()}
    return dict(zip(held, seen, strict=True))


def without(settings: Mapping[str, str], names: set[str]) -> dict[str, str]:
    """Settings but for some."""
    return {name: value for name, value in settings.items() if name not in names}


@pytest.mark.parametrize("instance", INSTANCES)
def test_a_service_is_started_alike(instance: str, spawned: Mapping[str, Spawned]) -> None:
    command, environment = spawned[instance]
    composed = SERVICES[instance]
    assert composed.command == ["python", *command[1:]]
    assert command[0] == sys.executable
    assert without(composed.environment, PLACED | SHOWN) == without(environment, PLACED)
    assert set(composed.environment) - SHOWN == set(environment) - {
        "BRAID_CLOCK_OFFSET_FILE",
        "BRAID_READY_FILE",
        "BRAID_PARENT_PID",
    }
    assert _port(composed.environment["BRAID_LISTEN"]) == _port(environment["BRAID_LISTEN"])
    assert environment["BRAID_STORE"] == "etcd://127.0.0.1:19292"
    assert composed.environment["BRAID_STORE"].startswith("etcd+tls://127.0.0.1:19292,")


@pytest.mark.parametrize("cluster", ["east", "west"])
def test_a_cluster_is_started_alike(cluster: str, spawned: Mapping[str, Spawned], tmp_path: Path) -> None:
    written = (MeshFiles(tmp_path).cluster(cluster) / "server.properties").read_text()
    settings = dict(line.split("=", 1) for line in written.splitlines())
    composed = broker_properties(SERVICES[cluster].environment)
    assert without(composed, BROKER_PLACED) == without(settings, BROKER_PLACED)
    assert composed["listeners"] == settings["listeners"].replace("PLAINTEXT://127.0.0.1", "PLAINTEXT://0.0.0.0")
    heap = [word for word in spawned[cluster][0] if word.startswith("-Xm")]
    assert SERVICES[cluster].environment["KAFKA_HEAP_OPTS"].split() == heap


def test_the_comparison_would_see_a_difference(spawned: Mapping[str, Spawned]) -> None:
    _, environment = spawned["dlq-0"]
    assert without(SERVICES["dlq-0"].environment, PLACED) != without({**environment, "BRAID_NEW": "1"}, PLACED)
    assert without(SERVICES["dlq-0"].environment, PLACED) != without(spawned["lagmon-0"][1], PLACED)


def test_names_and_ports_follow_from_counts() -> None:
    names = instance_names({"dlq": 1, "registry": 2})
    assert names == ("registry-0", "registry-1", "dlq-0")
    assert [kind_of(name) for name in names] == ["registry", "registry", "dlq"]
    ports = wanted_ports(names, ["east", "west"], ["etcd"], 9000)
    assert ports == {
        **{"registry-0": 9000, "registry-1": 9001, "dlq-0": 9002},
        **{"east": 19192, "east/controller": 19193, "west": 19194, "west/controller": 19195},
        **{"etcd": 19292, "etcd/peer": 19293},
    }


def test_only_a_single_store_is_hasty() -> None:
    places = [StorePlace(f"etcd-{number}", 10 * number, 10 * number + 1, "/d") for number in range(3)]
    assert "--unsafe-no-fsync" in store_arguments(places[0], places[:1])
    several = store_arguments(places[1], places)
    assert "--unsafe-no-fsync" not in several
    assert "etcd-0=http://127.0.0.1:1,etcd-1=http://127.0.0.1:11,etcd-2=http://127.0.0.1:21" in several
    assert store_url(places) == "etcd://127.0.0.1:0,127.0.0.1:10,127.0.0.1:20"


def test_the_question_to_brokers_is_as_long_as_it_says() -> None:
    request = blueprint.METADATA_REQUEST
    assert struct.unpack_from(">i", request)[0] == len(request) - 4
    # API 3 (Metadata), version 1, correlation id 1, client id "dev", no topics.
    assert struct.unpack_from(">hhih3si", request, 4) == (3, 1, 1, 3, b"dev", 0)


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def test_a_secure_store_serves_nobody_without_a_certificate() -> None:
    tls = Tls(Path("/c"), Path("/k"), Path("/ca"))
    places = [StorePlace(f"etcd-{number}", 10 * number, 10 * number + 1, "/d", tls) for number in range(3)]
    arguments = store_arguments(places[0], places)
    assert "http://" not in " ".join(arguments)
    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(arguments)
    assert arguments[arguments.index("--trusted-ca-file") + 1] == "/ca"
    assert store_url(places) == "etcd+tls://127.0.0.1:0,127.0.0.1:10,127.0.0.1:20"
