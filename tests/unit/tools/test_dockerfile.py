"""deploy/Dockerfile, which no image registry is needed to read: its sources, targets, users and commands are right."""

import re
import tomllib
from collections.abc import Sequence
from typing import Final

import yaml

from devmesh.blueprint import event_store_command, service_command
from tests.support.compose import COMPOSE, ROOT
from tools.compose_services import ETCD_HOME, HOME, MEMBERS, USER
from tools.lock import build_lock, locked

DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
REQUIREMENTS: Final = ROOT / "requirements"


def instructions(word: str) -> list[str]:
    """The arguments of all instructions with this word, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    return [line.removeprefix(f"{word} ") for line in text.splitlines() if line.startswith(f"{word} ")]


def copied() -> list[str]:
    """The sources that are copied from the checkout."""
    return [source for line in instructions("COPY") for source in line.split()[:-1] if not line.startswith("--from")]


def test_everything_copied_is_there_and_passes_the_ignore_file() -> None:
    ignore = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert ignore[1] == "*"
    for source in copied():
        assert (ROOT / source).exists(), source
        assert any(re.fullmatch(each.replace("*", "[^/]*"), source) for each in let_in), source


def test_every_package_of_the_wheel_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert {name for name in packages if (ROOT / name).exists()} <= set(copied())
    assert {project["project"]["readme"], "LICENSE", "pyproject.toml"} <= set(copied())


def test_each_image_holds_the_list_of_what_it_installs() -> None:
    installs = [each for each in instructions("COPY") if each.endswith(("/requirements.txt", "/sbom.cdx.json"))]
    assert installs == [
        "requirements/mesh.cdx.json /usr/share/braid/sbom.cdx.json",
        "requirements/mesh.txt /tmp/requirements.txt",
        "requirements/spark.cdx.json /usr/share/braid/sbom.cdx.json",
        "requirements/spark.txt /tmp/requirements.txt",
    ]


def test_targets_are_those_that_compose_builds() -> None:
    stages = [line.rpartition(" AS ")[2] for line in instructions("FROM")]
    services = yaml.safe_load(COMPOSE.read_text())["services"].values()
    built = {service["build"]["target"] for service in services if "build" in service}
    assert built == {"services", "spark"}
    assert built <= set(stages)
    assert {service["build"]["dockerfile"] for service in services if "build" in service} == {"deploy/Dockerfile"}


def test_base_images_are_pinned() -> None:
    assert [line for line in instructions("ARG")] == ["PYTHON=python:3.11.14-slim-bookworm"]
    stages = {line.rpartition(" AS ")[2] for line in instructions("FROM")}
    assert {line.partition(" ")[0] for line in instructions("FROM")} <= {"${PYTHON}", *stages}


def test_everything_is_installed_by_hash_or_from_the_wheel() -> None:
    installs = [line for line in instructions("RUN") if "pip install" in line]
    assert len(installs) == 5
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


def test_images_run_as_the_user_whose_directories_they_have() -> None:
    users = instructions("USER")
    assert users == [USER] * 2
    made = next(line for line in instructions("RUN") if "install --directory" in line)
    assert f"--uid {USER.partition(':')[0]} " in made
    assert {HOME, *(f"{ETCD_HOME}/{name}" for name in MEMBERS)} <= set(made.split())


def test_commands_are_those_of_the_table() -> None:
    commands = [yaml.safe_load(line) for line in instructions("CMD")]
    assert commands[0] == ["python", *service_command("registry-0")[1:]]
    assert [*commands[1][:-1], "--help"] == ["python", *_module(event_store_command("", "", "")[1:]), "--help"]
    check = next(line for line in instructions("HEALTHCHECK")).partition(" CMD ")[2]
    assert yaml.safe_load(check) == ["python", "-P", "-m", "braid.runtime.health"]


def test_what_builds_the_wheel_is_a_part_of_the_lock() -> None:
    build, dev = (REQUIREMENTS / "build.txt").read_text(), (REQUIREMENTS / "dev.txt").read_text()
    assert build == build_lock(dev)
    assert "hatchling" in locked(build)
    assert "".join(locked(dev).values()) == dev


def _module(command: Sequence[str]) -> Sequence[str]:
    return command[: command.index("--endpoint")]
