"""compose.yaml as tests read it: the file alone, nothing of what writes it. Also: its processes, played without Docker.

A container becomes an ordinary process with the file's command and environment. The network all share is this machine's
loopback, on free ports; a volume is a directory; the broker's image becomes Kafka from the user's cache, with the
properties which that image would make of its environment.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from devmesh.processes.guard import spawn_guarded
from devmesh.toolchain.class_archive import archive_options
from devmesh.toolchain.etcd_binary import etcd_binary
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import SHORT_LIVED_JVM, java_binary
from devmesh.toolchain.jvm import KafkaJvm
from testbed.etcd_process import free_ports

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ROOT / "compose.yaml"
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


def read_compose(path: Path = COMPOSE) -> dict[str, Composed]:
    """The services of a file by name."""
    document = yaml.safe_load(path.read_text())
    return {name: _composed(name, service) for name, service in document["services"].items()}


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
    """

    def __init__(self, services: Mapping[str, Composed], directory: Path) -> None:
        self._services = services
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        wanted = sorted({port for each in services.values() for text in _texts(each) for port in _PORT.findall(text)})
        self._ports = dict(zip(wanted, map(str, free_ports(len(wanted))), strict=True))

    def file(self, volume: str, path: str) -> Path:
        """A file in a volume."""
        return self._directory / "volumes" / volume / path

    def here(self, text: str) -> str:
        """A text of the file with this machine's ports, its loopback as the only interface, and its directories."""
        mapped = _PORT.sub(lambda found: self._ports.get(found[0], str(found[0])), text)
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

    def _spawn(
        self, name: str, command: Sequence[str], service: Composed, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
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
    return [sys.executable, *command[1:]] if command[0] == "python" else list(command)
