"""Starts an invented mesh: four services over clusters in memory, one SQLite store, and a console before them."""

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from bench.harness.twins.groups import write_groups
from bench.harness.twins.service import SOCKET
from bench.harness.twins.shape import LANE, PARTITIONS, Shape, group_name
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.host.system import system_host
from braid.kernel.errors import BraidError
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.opening import open_store
from devmesh.processes.console import ConsoleProcess
from devmesh.processes.process import Process, ServiceProcess
from testbed.ports import free_port

M = TypeVar("M", bound="TwinMesh")

READY_SECONDS: Final = 600.0
LAG_CALL_SECONDS: Final = 30.0
CREATED_AT_ONCE: Final = 8  # streams
SERVICES: Final = ("registry", "assigner", "lagmon", "dlq")
_MEMORY: Final = Path("/dev/shm")


class TwinMesh:
    """The processes of an invented mesh, filled step by step.

    Attributes:
        directory: Holds what the processes keep: `lagmon-0` and the like.
        console: Serves browsers.
        steps: How long each step of the start took, seconds.
    """

    def __init__(self, shape: Shape, directory: Path) -> None:
        self.shape = shape
        self.steps: dict[str, float] = {}
        self.directory = directory
        self._store = f"sqlite://{directory}/store.db"
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in SERVICES}
        self.services = {name: self._service(name) for name in SERVICES}
        endpoint = ",".join(self._addresses.values())
        self.console = ConsoleProcess(directory / "console", f"127.0.0.1:{free_port()}", endpoint)
        host = system_host()
        self._mesh = Directory(GrpcTransport(None), host, list(self._addresses.values()))
        self.clients = {name: ServiceClient(self._mesh, name, host, principal="bench") for name in SERVICES}

    async def start(self) -> None:
        """Starts everything; returns once the lag of every group is known."""
        await self.fill()
        await self._step("lagmon, dlq and console serve", self._begin_rest())
        await self._step("lag of all groups is known", self._until(self.last_is_fresh, "every group has its lag"))

    async def fill(self) -> None:
        """Starts the registry and the assigner with all groups, and nothing else."""
        await self._step("registry serves", self.begin(self.services["registry"]))
        await self._step("clusters and streams are there", self._create())
        await self._step("histories of groups are written", self._write_groups())
        await self._step("assigner serves", self.begin(self.services["assigner"]))

    async def begin(self, process: Process) -> None:
        """Starts a process; returns once it serves."""
        process.start()
        await asyncio.to_thread(process.wait_ready, READY_SECONDS)

    def sign_in(self, path: str) -> str:
        """An address that signs a browser in and shows a page."""
        return self.console.sign_in(path, int(time.time() * 1_000))

    @property
    def address(self) -> str:
        """Where browsers find the console."""
        return self.console.address

    async def lag(self, request: lagmon_api.ListLagRequest) -> lagmon_api.ListLagResponse:
        """Asks the lag monitor for a page."""
        answer, lagmon = lagmon_api.ListLagResponse, self.clients["lagmon"]
        return await lagmon.unary("ListLag", request, answer, any_replica=True, timeout_seconds=LAG_CALL_SECONDS)

    async def last_is_fresh(self) -> bool:
        """Whether the last group's lag is known: a look at one group is cheap, where pages of all are not."""
        last = lagmon_api.LagFilter(group=group_name(self.shape.groups - 1))
        found = await self.lag(lagmon_api.ListLagRequest(filter=last, detail=lag_pb2.LAG_DETAIL_LANE))
        return bool(found.lags) and not found.catching_up and not any(each.stale for each in found.lags)

    async def append(self, stream: int, records: int) -> None:
        """Appends records to the first partition of a stream, as the lag monitor will see them."""
        reader, writer = await asyncio.open_unix_connection(self.directory / "lagmon-0" / SOCKET)
        writer.write(json.dumps({"stream": stream, "partition": 0, "records": records}).encode() + b"\n")
        assert await reader.readline(), "the lag monitor's process ended"
        writer.close()

    async def freeze(self, group: str, frozen: bool) -> None:
        """Freezes a group's placement, or lets it go on."""
        request = assigner_api.FreezeGroupRequest(group=group, frozen=frozen, reason="bench")
        await self.clients["assigner"].unary("FreezeGroup", request, group_pb2.Group)

    async def close(self) -> None:
        """Kills every process."""
        await self._mesh.close()
        for process in (self.console, *self.services.values()):
            process.kill()

    def _service(self, name: str) -> ServiceProcess:
        command = [sys.executable, "-m", "bench.harness.twins.service", name, str(self.shape.groups)]
        directory = self.directory / f"{name}-0"
        return ServiceProcess(f"{name}-0", directory, self._addresses[name], self._store, command=command)

    async def _step(self, name: str, work: Awaitable[None]) -> None:
        began = time.monotonic()
        await work
        self.steps[name] = time.monotonic() - began
        print(f"{name}: {self.steps[name]:.1f} s", file=sys.stderr, flush=True)

    async def _begin_rest(self) -> None:
        for process in (self.services["lagmon"], self.services["dlq"], self.console):
            await self.begin(process)

    async def _create(self) -> None:
        for name in self.shape.clusters:
            spec = cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092")
            request = registry_api.CreateClusterRequest(name=name, spec=spec)
            await self.clients["registry"].unary("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=30)
        room = asyncio.Semaphore(CREATED_AT_ONCE)

        async def create(number: int, name: str) -> None:
            lanes = {LANE: stream_pb2.LaneSpec(partitions=PARTITIONS)}
            spec = stream_pb2.StreamSpec(lanes=lanes, clusters=[self.shape.cluster_of(number)], replication_factor=1)
            request = registry_api.CreateStreamRequest(name=name, spec=spec)
            async with room:
                await self.clients["registry"].unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)

        await asyncio.gather(*(create(number, name) for number, name in enumerate(self.shape.streams)))

    async def _write_groups(self) -> None:
        request = registry_api.GetStreamRequest(name=self.shape.streams[-1])
        seen = await self.clients["registry"].unary("GetStream", request, stream_pb2.Stream)
        assert any(each.partitions == PARTITIONS for each in seen.status.channels), "the stream has another shape"
        host = system_host()
        store = open_store(self._store, host)
        try:
            await write_groups(self.shape, host, store, 1)
        finally:
            await store.close()

    async def _until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(BraidError):
                if await condition():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {READY_SECONDS:g} s: {what}")
            await asyncio.sleep(0.5)


@contextlib.contextmanager
def mesh_directory() -> Iterator[Path]:
    """A directory for a mesh, in memory where the system has that: a disk's syncs would decide how long filling takes.

    It is removed when the block ends.
    """
    with tempfile.TemporaryDirectory(prefix="braid-bench-", dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@contextlib.asynccontextmanager
async def serving(mesh: M) -> AsyncIterator[M]:
    """Starts a mesh, which serves until the block ends."""
    try:
        await mesh.start()
        yield mesh
    finally:
        await mesh.close()
