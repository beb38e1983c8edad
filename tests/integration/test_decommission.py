"""A real cluster is emptied under load, called empty, forgotten and switched off; nothing acknowledged is lost."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final

import pytest

import braid
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import Refused
from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from testbed.patience import until

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
STREAMS: Final = ("leaving-a", "leaving-b", "leaving-c")
CALL_SECONDS: Final = 60.0  # by the wall: a call that is not answered at all
EMPTY: Final = cluster_pb2.DECOMMISSION_STATE_EMPTY


class Registry:
    """The test's requests to the registry."""

    def __init__(self, mesh: braid.Mesh) -> None:
        self._client = mesh.service("registry")

    async def register(self, broker: KafkaBroker) -> None:
        spec = cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap)
        request = api.CreateClusterRequest(name="north", spec=spec)
        await self._client.unary("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS)

    async def create(self, stream: str) -> None:
        lanes = {"live": stream_pb2.LaneSpec(partitions=2)}
        spec = stream_pb2.StreamSpec(lanes=lanes, clusters=["north", "west"], replication_factor=1)
        request = api.CreateStreamRequest(name=stream, spec=spec)
        await self._client.unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)

    async def decommission(self, *, discard_drained: bool = False) -> None:
        request = api.DecommissionClusterRequest(name="north", discard_drained=discard_drained)
        answer = api.DecommissionClusterResponse
        await self._client.unary("DecommissionCluster", request, answer, timeout_seconds=CALL_SECONDS)

    async def left(self) -> cluster_pb2.Decommission:
        request = api.GetClusterRequest(name="north")
        return (await self._client.unary("GetCluster", request, cluster_pb2.Cluster)).status.decommission

    async def forget(self) -> None:
        request = api.DeleteClusterRequest(name="north")
        await self._client.unary("DeleteCluster", request, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS)


class Application:
    """Writes to one stream and reads it, until it is told to stop."""

    def __init__(self, mesh: braid.Mesh, stream: str) -> None:
        self.mesh = mesh
        self.stream = stream
        self.acknowledged: dict[str, str] = {}
        self.processed: set[str] = set()
        self.longest_gap = 0.0
        self.stopping = False

    async def write(self) -> None:
        async with self.mesh.producer(self.stream) as producer:
            number, last = 0, time.monotonic()
            while not self.stopping:
                sent = [producer.send(b"%d" % each, key=b"%d" % (each % 9)) for each in range(number, number + 20)]
                for receipt in await asyncio.gather(*sent):
                    self.acknowledged[receipt.id] = receipt.cluster
                number, now = number + 20, time.monotonic()
                self.longest_gap, last = max(self.longest_gap, now - last), now
                await asyncio.sleep(0.02)

    async def read(self, consumer: braid.Consumer) -> None:
        async def handle(record: braid.Record) -> None:
            self.processed.add(record.id)

        await consumer.run(handle)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.mesh.consumer([self.stream], group=f"{self.stream}-group") as consumer:
            reading, writing = asyncio.create_task(self.read(consumer)), asyncio.create_task(self.write())
            try:
                yield
            finally:
                self.stopping = True
                await writing
            await until(lambda: self.processed >= set(self.acknowledged), f"all of {self.stream} is processed")
        await reading


async def test_a_cluster_is_emptied_under_load_then_forgotten(west_alone: DevMesh, north: KafkaBroker) -> None:
    async with braid.connect(west_alone.ready.endpoint) as mesh:
        registry = Registry(mesh)
        await registry.register(north)
        for stream in STREAMS:
            await registry.create(stream)
        applications = [Application(mesh, stream) for stream in STREAMS]
        async with contextlib.AsyncExitStack() as stack:
            for each in applications:
                await stack.enter_async_context(each.running())
            await until(lambda: all(len(each.acknowledged) > 200 for each in applications), "they write")
            await emptied(registry, applications)
            north.kill()  # it is nobody's any more: everything goes on without it
            counts = [len(each.acknowledged) for each in applications]
            await until(
                lambda: all(len(a.acknowledged) > n + 200 for a, n in zip(applications, counts, strict=True)),
                "they go on",
            )
    for each in applications:
        assert each.processed == set(each.acknowledged)
        assert set(each.acknowledged.values()) == {"north", "west"}


async def emptied(registry: Registry, applications: list[Application]) -> None:
    """Asks for it, sees that it is refused to forget what is not empty, and waits until it is."""
    begun = time.monotonic()
    for each in applications:
        each.longest_gap = 0.0
    await registry.decommission()
    with pytest.raises(Refused, match="is still on cluster north"):
        await registry.forget()
    await registry.decommission(discard_drained=True)

    async def empty() -> bool:
        return (await registry.left()).state == EMPTY

    await until(empty, "north is empty", 60)
    gaps = ", ".join(f"{1_000 * each.longest_gap:.0f}" for each in applications)
    print(f"empty after {time.monotonic() - begun:.1f} s; longest gaps between acknowledgements {gaps} ms")
    await registry.forget()
