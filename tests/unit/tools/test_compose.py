"""compose.yaml is what the table says, passes the Compose specification, and lets nothing float or out."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from braid.api.registry.v1.grant_pb2 import GrantSpec
from braid.cli.manifests.declarations import read_files
from braid.runtime.settings import Settings
from devmesh.enroll import parse_clusters
from devmesh.toolchain.jars import KAFKA_VERSION
from pipelines.event_store import arguments
from tests.support.compose import COMPOSE, ROOT, Composed, read_compose, start_order
from tools import compose
from tools.compose_services import FILES, cluster_id, kafka_variable

SCHEMA: Final = ROOT / "tests" / "support" / "compose_spec" / "schema.json"
OWN: Final = re.compile(r"braid-streams/(services|spark):\d+\.\d+\.\d+")
PINNED: Final = re.compile(r"[^:]+:v?\d+\.\d+\.\d+")
ONCE: Final = ("disks", "certs", "init", "stream")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The file as YAML."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def refused(document: dict[str, Any]) -> bool:
    """Whether the Compose specification refuses it."""
    import jsonschema  # takes seconds: it compiles grammars of URIs, which nothing here asks for

    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    return any(True for _ in validator.iter_errors(document))


def test_the_file_is_what_the_table_says() -> None:
    assert compose.main(["check"]) == 0


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        ("services.assigner]", "services.registry]"),
        ('KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"', 'KAFKA_AUTO_CREATE_TOPICS_ENABLE: "true"'),
        ("127.0.0.1:7401:7401", "7401:7401"),
        ("service_completed_successfully", "service_started"),
    ],
)
def test_a_file_edited_by_hand_is_found(
    said: str, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = COMPOSE.read_text()
    assert said in text
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    monkeypatch.setattr(compose, "ROOT", tmp_path)
    assert compose.main(["check"]) == 1
    assert compose.main(["write"]) == 0
    (tmp_path / "compose.yaml").write_text(text.replace(said, changed, 1))
    assert compose.main(["check"]) == 1
    assert "python -m tools.compose write" in capsys.readouterr().err
    assert compose.main(["write"]) == 0
    assert (tmp_path / "compose.yaml").read_text() == text


def test_it_keeps_to_the_compose_specification(document: dict[str, Any]) -> None:
    assert not refused(document)
    assert refused({**document, "services": {"x": {"image": "a", "port": ["1:1"]}}})


def test_images_are_pinned(document: dict[str, Any]) -> None:
    images = {service["image"] for service in document["services"].values()}
    assert all(PINNED.fullmatch(image) for image in images), images
    assert f"apache/kafka:{KAFKA_VERSION}" in images
    for service in document["services"].values():
        assert bool(OWN.fullmatch(service["image"])) == ("build" in service)
    assert not PINNED.fullmatch("apache/kafka:latest")
    assert not PINNED.fullmatch("apache/kafka:4.3")


def test_etcd_is_sound(document: dict[str, Any]) -> None:
    image = next(each["image"] for each in document["services"].values() if "etcd" in each["image"])
    assert tuple(map(int, image.rpartition(":v")[2].split("."))) >= (3, 6, 14)


def test_ports_are_for_this_machine_alone_and_distinct(document: dict[str, Any]) -> None:
    published = [port for service in document["services"].values() for port in service.get("ports", [])]
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published), published
    assert len(set(published)) == len(published)


def test_every_address_given_out_is_published(document: dict[str, Any]) -> None:
    published = {port.rpartition(":")[2] for port in document["services"]["net"]["ports"]}
    given = set[str]()
    for service in document["services"].values():
        environment = service.get("environment", {})
        given |= {environment.get(name, "") for name in ("BRAID_ADVERTISE", "KAFKA_ADVERTISED_LISTENERS")}
    ports = {address.rpartition(":")[2] for address in given if address}
    assert len(ports) == 8
    assert ports <= published


def test_containers_are_shut_in(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        # apache/kafka runs as its own user.
        assert service.get("user") == "10001:10001" or service["image"].startswith("apache/kafka:"), name
        assert "stop_grace_period" in service, name


def test_running_parts_are_checked_and_ending_ones_awaited(document: dict[str, Any]) -> None:
    waited = {
        other
        for service in document["services"].values()
        for other, condition in service.get("depends_on", {}).items()
        if condition["condition"] == "service_completed_successfully"
    }
    for name, service in document["services"].items():
        once = name in ONCE
        assert service["restart"] == ("no" if once else "unless-stopped"), name
        assert ("healthcheck" in service) != once, name
    # `docker compose up --wait` fails when a container ends that nobody waits for.
    assert waited == set(ONCE)


def test_volumes_are_named_and_all_there(document: dict[str, Any]) -> None:
    mounts = [mount for service in document["services"].values() for mount in service.get("volumes", [])]
    ours = {mount for mount in mounts if mount.startswith("./")}
    assert {mount.partition(":")[0] for mount in mounts if mount not in ours} == set(document["volumes"])
    for mount in ours:
        assert mount.endswith(":ro") and (ROOT / mount.partition(":")[0]).exists(), mount


def test_the_default_profile_needs_no_other() -> None:
    services = read_compose()
    plain = {name for name, service in services.items() if not service.profiles}
    assert start_order({name: services[name] for name in plain})
    assert {name for name, service in services.items() if "spark" in service.profiles} == {"stream", "event-store"}
    watching = {name for name, service in services.items() if "observability" in service.profiles}
    assert watching == {"collector", "prometheus", "grafana"}
    circle = {name: Composed(name, "", depends_on={other: ""}) for name, other in (("a", "b"), ("b", "a"))}
    with pytest.raises(AssertionError, match="can start first"):
        start_order(circle)


def test_everybody_shows_a_certificate_but_nobody_has_ca_keys(document: dict[str, Any]) -> None:
    services = document["services"]
    assert [name for name, each in services.items() if "cas:/etc/braid/cas" in each.get("volumes", [])] == ["certs"]
    for name in ("registry-0", "registry-1", "assigner-0", "assigner-1", "lagmon-0", "dlq-0"):
        environment = services[name]["environment"]
        assert environment["BRAID_TLS_KEY"] == f"/etc/braid/tls/{name}/key.pem"
        assert environment["BRAID_STORE_TLS_CA"] == f"/etc/braid/tls/{name}/store/ca.pem"
        assert environment["BRAID_STORE"].startswith("etcd+tls://")
        assert "BRAID_TLS_MODE" not in environment, "required is the default where a certificate is named"
        assert environment["BRAID_ACCESS"] == "enforced"
        assert environment["BRAID_ADMINS_FILE"] == f"{FILES}/admins"
    for name in ("etcd-0", "etcd-1", "etcd-2"):
        command = " ".join(services[name]["command"])
        assert "http://" not in command
        assert "--client-cert-auth" in command
        assert "--peer-client-cert-auth" in command
    for name in ("init", "stream", "event-store"):
        assert services[name]["environment"]["BRAID_TLS_CERTIFICATE"].startswith("/etc/braid/tls/")
        assert f"tls:{FILES}:ro" in services[name]["volumes"]


def test_the_override_takes_certificates_away_everywhere(document: dict[str, Any]) -> None:
    override = yaml.safe_load((ROOT / "compose.insecure.yaml").read_text())
    assert set(override["services"]) == {
        name
        for name, each in document["services"].items()
        if name.startswith("etcd-")
        or name == "prometheus"
        or any(key.startswith("BRAID_TLS") for key in each.get("environment", {}))
    }
    for name, each in override["services"].items():
        whole = {**document["services"][name], **each}
        environment = {**document["services"][name].get("environment", {}), **each.get("environment", {})}
        assert "https://" not in str(whole["command"]), name
        plain = environment.get("BRAID_TLS_MODE") == "off" or not environment.get("BRAID_TLS_CERTIFICATE")
        assert plain, name
        assert environment.get("BRAID_STORE", "etcd://").startswith("etcd://"), name
        if "BRAID_STORE" in environment:
            settings = Settings.model_validate({key[6:].lower(): value for key, value in environment.items()})
            assert (settings.access, settings.admins_file) == ("open", None)
    assert override["services"]["stream"]["command"] == ["braid", "apply", "-f", "/usr/share/braid/logs.yaml"]


def test_images_keep_grpc_quiet() -> None:
    assert "GRPC_VERBOSITY=ERROR" in (ROOT / "deploy" / "Dockerfile").read_text()


def test_steps_are_written_as_their_programs_take_them() -> None:
    services = read_compose()
    given = arguments().parse_args(services["event-store"].command[5:])
    assert (given.stream, given.group, given.checkpoint) == ("logs", "event-store", Path("/var/lib/braid/checkpoint"))
    shown = "/usr/share/braid"
    applied = ["braid", "apply", "-f", f"{shown}/logs.yaml", "-f", f"{shown}/event-store.yaml"]
    assert services["stream"].command == applied
    assert [each.name for each in read_files([ROOT / "deploy" / "logs.yaml"])] == [given.stream]
    grants = [each.spec for each in read_files([ROOT / "deploy" / "event-store.yaml"])]
    assert all(isinstance(each, GrantSpec) for each in grants)
    assert [each.resource for each in grants if isinstance(each, GrantSpec)] == ["stream/logs", "group/event-store"]
    for text in ((ROOT / "deploy" / name).read_text() for name in ("Dockerfile", "Dockerfile.dockerignore")):
        assert "deploy/event-store.yaml" in text
    assert set(parse_clusters(services["init"].command[6:])) == {"east", "west"}


def test_a_brokers_settings_are_written_as_its_image_reads_them() -> None:
    assert kafka_variable("log.dirs") == "KAFKA_LOG_DIRS"
    assert kafka_variable("a-b_c.d") == "KAFKA_A___B__C_D"


def test_clusters_have_ids_of_their_own() -> None:
    services = read_compose()
    ids = {name: services[name].environment["CLUSTER_ID"] for name in ("east", "west")}
    assert ids == {name: cluster_id(name) for name in ids}
    assert len(set(ids.values())) == 2
    assert all(len(each) == 22 and not each.startswith("-") for each in ids.values())


def test_a_verb_it_does_not_know_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert compose.main(["burn"]) == 2
    assert "write|check" in capsys.readouterr().err
