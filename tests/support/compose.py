"""compose.yaml as tests read it: the file alone, nothing of what writes it. Also: its processes, played without Docker.

A container becomes an ordinary process with the file's command and environment. The network all share is this machine's
loopback, on free ports; a volume is a directory; the broker's image becomes Kafka from the user's cache, with the
properties which that image would make of its environment.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from braid.host import private_files
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded
from devmesh.toolchain.class_archive import archive_options
from devmesh.toolchain.etcd_binary import etcd_binary
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import SHORT_LIVED_JVM, java_binary
from devmesh.toolchain.jvm import KafkaJvm
from testbed.patience import Deadline
from testbed.ports import free_ports

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ROOT / "compose.yaml"
INSECURE: Final = ROOT / "compose.insecure.yaml"
# What stands for the machine: the network is its loopback, volumes are directories.
MACHINE: Final = ("net", "disks")
MEMBERS: Final = ("etcd-0", "etcd-1", "etcd-2")  # of the store
ENDPOINT: Final = "127.0.0.1:7401"
HEALTHY_SECONDS: Final = 60.0
HANG_SECONDS: Final = 300.0  # by the wall: it ends what hangs, and judges nothing
LOOK_SECONDS: Final = 0.5  # between two health checks, each a process of its own
FORMAT_SECONDS: Final = 300.0  # by the wall: it ends what hangs

# What the broker's image reads itself, beside properties.
_IMAGE_VARIABLES: Final = ("CLUSTER_ID", "KAFKA_HEAP_OPTS")
# What `etcdctl endpoint health` asks for, over HTTP.
_ETCD_HEALTH: Final = """
import ssl, sys, urllib.request
words = sys.argv[1:]
endpoint, given = words[0].removeprefix("--endpoints="), dict(zip(words[1:-2:2], words[2:-2:2]))
assert words[-2:] == ["endpoint", "health"] and set(given) <= {"--cert", "--key", "--cacert"}, words
context = None
if given:
    context = ssl.create_default_context(cafile=given["--cacert"])
    context.load_cert_chain(given["--cert"], given["--key"])
urllib.request.urlopen(f"{endpoint}/health", timeout=2, context=context)
"""
_PORT: Final = re.compile(r"(?<=[:/])\d{4,5}(?!\d)")


@dataclass(frozen=True)
class Composed:
    """One service of the file, as far as a process needs it."""

    name: str
    image: str
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)  # container path by name
    ports: Sequence[str] = ()
    profiles: Sequence[str] = ()
    depends_on: Mapping[str, str] = field(default_factory=dict)  # condition by service
    check: Sequence[str] = ()


def read_compose(path: Path = COMPOSE, override: Path | None = None) -> dict[str, Composed]:
    """The services of a file by name; an override replaces their keys, and adds to their environment."""
    services = yaml.safe_load(path.read_text())["services"]
    for name, changed in (yaml.safe_load(override.read_text())["services"] if override else {}).items():
        own = services[name].get("environment", {})
        services[name] |= {**changed, "environment": {**own, **changed.get("environment", {})}}
    return {name: _composed(name, service) for name, service in services.items()}


def start_order(services: Mapping[str, Composed]) -> list[str]:
    """Names, each after all it depends on. Fails when they depend on each other in a circle."""
    ordered: list[str] = []
    while len(ordered) < len(services):
        free = [name for name in services if name not in ordered and set(services[name].depends_on) <= set(ordered)]
        assert free, f"none of {sorted(set(services) - set(ordered))} can start first"
        ordered += free
    return ordered


def broker_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties that the broker's image derives from its environment (`kafka.docker.KafkaDockerWrapper`)."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name not in _IMAGE_VARIABLES
    }


class Played:
    """The services of a file as processes of this machine.

    Args:
        services: To be played.
        directory: Of volumes and logs.
        before: What ran in the directory before, whose ports it takes over.

    Attributes:
        ports: The port of this machine for each of the file's.
    """

    def __init__(self, services: Mapping[str, Composed], directory: Path, before: "Played | None" = None) -> None:
        self._services = services
        self._directory = directory
        self._processes: dict[str, Child] = {}
        wanted = sorted({port for each in services.values() for text in _texts(each) for port in _PORT.findall(text)})
        own = dict(zip(wanted, map(str, free_ports(len(wanted))), strict=True))
        self.ports: Mapping[str, str] = before.ports if before is not None else own

    def start_all(self) -> None:
        """Starts everything in the order that the file asks for, and waits until all health checks succeed."""
        for name in start_order(self._services):
            if name in MACHINE:
                continue
            for other, condition in self._services[name].depends_on.items():
                if condition == "service_healthy":
                    self.wait_healthy(other)
            if not self._services[name].check:
                assert self.run(name, HANG_SECONDS) == 0, self.log(name)
            elif name not in self._processes:
                self.start(name)
        for name, each in self._services.items():
            if each.check and name not in MACHINE:
                self.wait_healthy(name)

    def wait_healthy(self, name: str) -> None:
        """Waits until the file's health check of a service succeeds."""
        deadline = Deadline(HEALTHY_SECONDS)
        while not self.is_healthy(name):
            assert self.runs(name), f"{name} ended: {self.log(name)}"
            assert not deadline.passed, f"{name} is not healthy within {deadline}: {self.log(name)}"
            time.sleep(LOOK_SECONDS)

    def run_in(self, name: str, *command: str) -> None:
        """Runs another command in the place of a service's own, as `docker compose run`; it must succeed."""
        service = replace(self._services[name], command=command)
        environment = {key: self.here(value) for key, value in service.environment.items()}
        words = [self._within(service, self.here(word)) for word in command]
        for volume in service.volumes:  # Docker makes them with the first container
            private_files.make_directory(self._directory / "volumes" / volume)
        key = f"{name}-{command[1]}-{command[2]}"
        self._processes[key] = self._spawn(key, words, service, environment)
        assert self._processes[key].wait(HANG_SECONDS) == 0, self.log(key)

    def forget(self, volume: str) -> None:
        """Removes a volume."""
        shutil.rmtree(self._directory / "volumes" / volume)

    def file(self, volume: str, path: str) -> Path:
        """A file in a volume."""
        return self._directory / "volumes" / volume / path

    def here(self, text: str) -> str:
        """A text of the file with this machine's ports, its loopback as the only interface, and its directories."""
        mapped = _PORT.sub(lambda found: self.ports.get(found[0], str(found[0])), text)
        return mapped.replace("0.0.0.0", "127.0.0.1").replace("braid:", "127.0.0.1:")

    def start(self, name: str) -> None:
        """Starts one in the background."""
        service = self._services[name]
        environment = {key: self.here(value) for key, value in service.environment.items()}
        command = [self._within(service, self.here(word)) for word in service.command]
        if service.image.startswith("apache/kafka:"):
            command = self._kafka(service, environment)
        elif command[0] == "etcd":
            command[0] = str(etcd_binary())
        self._processes[name] = self._spawn(name, command, service, environment)

    def run(self, name: str, timeout_seconds: float) -> int:
        """Runs one to its end; its exit code."""
        self.start(name)
        return self._processes[name].wait(timeout_seconds)

    def is_healthy(self, name: str) -> bool:
        """Whether the file's own health check succeeds; etcd, whose client is missing here, is asked over HTTP."""
        check = [self.here(word).replace("$$", "$") for word in self._services[name].check]
        assert check[0] == "CMD"
        if check[1] == "etcdctl":
            check = [
                "CMD",
                "python",
                "-c",
                _ETCD_HEALTH,
                *(self._within(self._services[name], word) for word in check[2:]),
            ]
        return subprocess.run(_interpreted(check[1:]), capture_output=True, cwd=ROOT).returncode == 0

    def runs(self, name: str) -> bool:
        """Whether its process is there."""
        return self._processes[name].poll() is None

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends it a signal."""
        self._processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Ends one at once."""
        self._processes[name].kill()
        self._processes[name].wait()

    def end(self) -> None:
        """Ends all at once."""
        for name in self._processes:
            self.kill(name)

    def log(self, name: str) -> str:
        """The end of its output."""
        return "\n".join((self._directory / f"{name}.log").read_text(errors="replace").splitlines()[-15:])

    def _spawn(self, name: str, command: Sequence[str], service: Composed, environment: Mapping[str, str]) -> Child:
        machine = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        own = {key: self._within(service, value) for key, value in environment.items()}
        settings = {**machine, "PYTHONPATH": str(ROOT), **own}
        return spawn_guarded(_interpreted(command), self._directory / f"{name}.log", settings)

    def _kafka(self, service: Composed, environment: Mapping[str, str]) -> list[str]:
        """Formats the volume where it is new, as the image does, and says what runs the broker."""
        properties = {key: self._within(service, value) for key, value in broker_properties(environment).items()}
        config = self._directory / f"{service.name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        jvm = KafkaJvm(str(java_binary()), kafka_classpath())
        options = [*environment["KAFKA_HEAP_OPTS"].split(), *SHORT_LIVED_JVM.split(), *archive_options(jvm)]
        java = [jvm.java, *options, "-cp", jvm.classpath]
        format_it = ["kafka.tools.StorageTool", "format", "-t", environment["CLUSTER_ID"], "-c", str(config)]
        if not (Path(properties["log.dirs"]) / "meta.properties").exists():
            subprocess.run([*java, *format_it], check=True, capture_output=True, timeout=FORMAT_SECONDS)
        return [*java, "kafka.Kafka", str(config)]

    def _within(self, service: Composed, text: str) -> str:
        """Container paths below a volume as paths of its directory."""
        for volume, path in service.volumes.items():
            text = text.replace(path, str(self._directory / "volumes" / volume))
        return text


def _composed(name: str, service: Mapping[str, object]) -> Composed:
    mounts = (str(each).split(":") for each in _list(service.get("volumes")))
    conditions = service.get("depends_on", {})
    environment = service.get("environment", {})
    check = service.get("healthcheck", {})
    assert isinstance(conditions, dict)
    assert isinstance(environment, dict)
    assert isinstance(check, dict)
    return Composed(
        name=name,
        image=str(service["image"]),
        command=[str(word) for word in _list(service.get("command"))],
        environment={str(key): str(value) for key, value in environment.items()},
        volumes={mount[0]: mount[1] for mount in mounts},
        ports=[str(each) for each in _list(service.get("ports"))],
        profiles=[str(each) for each in _list(service.get("profiles"))],
        depends_on={str(key): str(value["condition"]) for key, value in conditions.items()},
        check=[str(word) for word in _list(check.get("test"))],
    )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _texts(service: Composed) -> Sequence[str]:
    return (*service.command, *service.environment.values(), *service.ports)


def _interpreted(command: Sequence[str]) -> list[str]:
    if command[0] == "braid":
        return [sys.executable, "-c", "from braid.cli import main; main()", *command[1:]]
    return [sys.executable, *command[1:]] if command[0] == "python" else list(command)
