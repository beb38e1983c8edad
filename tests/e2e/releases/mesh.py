"""A mesh whose services change their release one by one, over brokers and an event store in SQLite."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from devmesh.blueprint import service_command
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.process import ServiceProcess
from testbed.brokers import running_broker
from testbed.ports import free_port
from tests.support.last_release import unpacked

INSTANCES: Final = ("registry-0", "registry-1", "assigner-0", "assigner-1", "lagmon-0", "dlq-0")
CLUSTERS: Final = ("east", "west")
READY_SECONDS: Final = 60.0
SETTINGS: Final = ("BRAID_PRODUCER_SESSION_SECONDS=3",)  # a drain waits for a producer that ended no longer than that


class MixedMesh:
    """Services of the last release and of the checkout, over one store.

    Attributes:
        instances: Replicas, in the order in which they are rolled.
        former: Where the last release's packages are.
        brokers: By cluster.
        releases: By instance, what runs: `last` or `this`.
    """

    def __init__(self, directory: Path, brokers: Mapping[str, KafkaBroker], instances: Sequence[str]) -> None:
        self.instances = instances
        self.former = unpacked(directory / "release")
        self.brokers = brokers
        self.releases: dict[str, str] = {}
        self._directory = directory
        self._ports = {instance: free_port() for instance in instances}
        self._services: dict[str, ServiceProcess] = {}

    @property
    def endpoint(self) -> str:
        """All replicas' addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def packages(self, release: str) -> Sequence[Path]:
        """Directories that a process of a release imports from before the checkout."""
        return [self.former] if release == "last" else []

    async def run(self, instance: str, release: str) -> None:
        """Starts a replica of a release; ends the one that ran in order. Returns when it serves."""
        await asyncio.to_thread(self._run, instance, release)
        self.releases[instance] = release

    def ended(self) -> list[str]:
        """Replicas that ended by themselves, with their last words."""
        return [f"{name}: {each.last_words()}" for name, each in self._services.items() if each.pid is None]

    def close(self) -> None:
        """Ends every replica."""
        for service in self._services.values():
            service.kill()

    def _run(self, instance: str, release: str) -> None:
        if (former := self._services.get(instance)) is not None:
            assert former.pid is not None, f"{instance} ended by itself: {former.last_words()}"
            assert former.stop(), f"{instance} did not end in order"
        service = self._services[instance] = ServiceProcess(
            instance,
            self._directory / instance,
            f"127.0.0.1:{self._ports[instance]}",
            f"sqlite://{self._directory}/store.db",
            command=[*self._with_packages(release), *service_command(instance)],
        )
        service.start()
        service.wait_ready(READY_SECONDS)

    def _with_packages(self, release: str) -> list[str]:
        """`env` gives way to the command it runs: the process keeps its id."""
        paths = os.pathsep.join(map(str, self.packages(release)))
        return ["env", *SETTINGS, *([f"PYTHONPATH={paths}"] if paths else [])]


@contextmanager
def mixed_mesh(directory: Path, clusters: Sequence[str], instances: Sequence[str]) -> Iterator[MixedMesh]:
    """Running brokers, one a cluster, and a mesh without services yet; everything ends with the block."""
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running_broker(name, directory / name)) for name in clusters}
        mesh = MixedMesh(directory, brokers, instances)
        stack.callback(mesh.close)
        yield mesh
