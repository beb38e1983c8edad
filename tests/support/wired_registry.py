"""A registry over real Kafka whose way to each cluster, and its producers' way, can be held up apart.

Registry, its store and its RPCs live in the test's own process; brokers are real. Clients connect to a broker's port by
`aiokafka`'s `create_conn`; here the registry's connections lead through one wire (`tests.support.wire`) a broker, those
of producers through another, whatever address the broker advertises.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import aiokafka.client
from aiokafka.conn import create_conn

import braid.kafka.wire
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.client.mesh import Mesh
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.rpc.memory_network import MemoryNetwork
from braid.rpc.memory_transport import MemoryTransport
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from devmesh.brokers import KafkaBroker
from services.registry.service import RegistryService
from tests.support.patience import until
from tests.support.wire import Wire

ADDRESS = "registry:1"
ENOUGH_SECONDS = 30.0
_Connect = Callable[..., Awaitable[Any]]


class WiredRegistry:
    """One registry, its clusters, and an application beside it.

    Attributes:
        registry_wires: By cluster, the registry's way to it.
        producer_wires: By cluster, the producers' way.
        mesh: What an application connects with.
    """

    def __init__(self, registry_wires: Mapping[str, Wire], producer_wires: Mapping[str, Wire], mesh: Mesh) -> None:
        self.registry_wires = registry_wires
        self.producer_wires = producer_wires
        self.mesh = mesh

    async def cluster(self, name: str) -> cluster_pb2.Cluster:
        """A cluster as the registry knows it."""
        registry = self.mesh.service("registry")
        return await registry.unary("GetCluster", api.GetClusterRequest(name=name), cluster_pb2.Cluster)

    async def until_verdict(self, name: str, health: str, verdict: str, seconds: float) -> cluster_pb2.Cluster:
        """Waits until a cluster is judged so."""
        found = await self.cluster(name)

        async def judged() -> bool:
            nonlocal found
            found = await self.cluster(name)
            return (found.status.health, found.status.verdict) == (
                cluster_pb2.ClusterHealth.Value(f"CLUSTER_HEALTH_{health}"),
                cluster_pb2.HealthVerdict.Value(f"HEALTH_VERDICT_{verdict}"),
            )

        await until(judged, lambda: f"{health} by {verdict}, not {found.status}", seconds)
        return found

    async def create_stream(self, name: str, clusters: Sequence[str]) -> None:
        """A stream of two partitions, on the first of the clusters."""
        spec = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=2)}, clusters=clusters)
        request = api.CreateStreamRequest(name=name, spec=spec)
        await self.mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream)


@contextlib.asynccontextmanager
async def wired_registry(brokers: Mapping[str, KafkaBroker]) -> AsyncIterator[WiredRegistry]:
    """A registry that knows these clusters, all of them healthy."""
    registry_wires = {name: await Wire(broker.bootstrap).start() for name, broker in brokers.items()}
    producer_wires = {name: await Wire(broker.bootstrap).start() for name, broker in brokers.items()}
    registry_ports = {_port(broker.bootstrap): _port(registry_wires[name].address) for name, broker in brokers.items()}
    producer_ports = {_port(broker.bootstrap): _port(producer_wires[name].address) for name, broker in brokers.items()}
    host = system_host()
    server = MemoryStoreServer(host.clock)
    network = MemoryNetwork(host.clock, host.randomness)
    with (
        patch.object(braid.kafka.wire, "create_conn", _redirected(registry_ports)),
        patch.object(aiokafka.client, "create_conn", _redirected(producer_ports)),
    ):
        service = RegistryService(AioKafka("registry"))
        store, transport = MemoryStore(host, server), MemoryTransport(network, "registry")
        replica = Replica(service, host, store, transport, address=ADDRESS, instance="registry-0")
        serving = host.tasks.spawn(replica.run(), "registry")
        try:
            await replica.ready()
            mesh = Mesh(host, AioKafka("app"), MemoryTransport(network, "app"), [ADDRESS], "app", "")
            async with mesh:
                wired = WiredRegistry(registry_wires, producer_wires, mesh)
                await _register(mesh, brokers)
                yield wired
        finally:
            serving.cancel()
            await serving.ended()
            for wire in (*registry_wires.values(), *producer_wires.values()):
                await wire.close()


async def _register(mesh: Mesh, brokers: Mapping[str, KafkaBroker]) -> None:
    for name, broker in brokers.items():
        spec = cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap)
        request = api.CreateClusterRequest(name=name, spec=spec)
        await mesh.service("registry").unary("CreateCluster", request, cluster_pb2.Cluster)


def _redirected(ports: Mapping[int, int]) -> _Connect:
    def connect(host: str, port: int, **settings: Any) -> Awaitable[Any]:
        found: Awaitable[Any] = create_conn(host, ports.get(port, port), **settings)
        return found

    return connect


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def sending(producer: Any, receipts: list[tuple[float, str]], interval_seconds: float = 0.02) -> None:
    """Sends without end, and notes when each record was acknowledged, on the loop's time, and where."""
    loop, waiting = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def send() -> None:
        receipt = await producer.send(b"x")
        receipts.append((loop.time(), receipt.cluster))

    try:
        while True:
            task = asyncio.ensure_future(send())
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            await asyncio.sleep(interval_seconds)
    finally:
        await asyncio.gather(*waiting)
