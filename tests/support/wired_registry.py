"""A registry over real Kafka whose way to each cluster, and that of producers and consumers, can be held up apart.

Registry, assigner, their store and their RPCs live in the test's own process; brokers are real. Clients connect to a
broker's port by `open_connection`, and at first by `aiokafka`'s `create_conn`. Here the registry's connections lead
through one wire (`testbed.wire`) a broker, those of producers through another, those of consumers through a third,
whatever address the broker advertises. The assigner's lead straight there.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import aiokafka.client
from aiokafka.conn import create_conn

import braid.kafka.producing.internals.metadata
import braid.kafka.protocol.wire
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.client.mesh import Mesh
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kafka.protocol.sasl_sessions import open_connection
from braid.kernel.ports import Host
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from devmesh.processes.brokers import KafkaBroker
from services.assigner.servicer.service import Assigner
from services.registry.service import RegistryService
from testbed.patience import until
from testbed.wire import Wire

ADDRESSES = {"registry": "registry:1", "assigner": "assigner:1"}
ENOUGH_SECONDS = 30.0
_Connect = Callable[..., Awaitable[Any]]


class WiredRegistry:
    """One registry, its clusters, and applications beside it.

    Attributes:
        registry_wires: By cluster, the registry's way to it.
        producer_wires: By cluster, the producers' way.
        reader_wires: By cluster, the way of those who read.
        mesh: What an application connects with.
        readers: What others connect with, each on a host of its own.
    """

    def __init__(
        self,
        registry_wires: Mapping[str, Wire],
        producer_wires: Mapping[str, Wire],
        reader_wires: Mapping[str, Wire],
        mesh: Mesh,
        readers: Sequence[Mesh],
    ) -> None:
        self.registry_wires = registry_wires
        self.producer_wires = producer_wires
        self.reader_wires = reader_wires
        self.mesh = mesh
        self.readers = readers

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
async def wired_registry(brokers: Mapping[str, KafkaBroker], readers: int = 0) -> AsyncIterator[WiredRegistry]:
    """A registry that knows these clusters, all of them healthy; with an assigner, where there are to be readers."""
    ways = [{name: await Wire(broker.bootstrap).start() for name, broker in brokers.items()} for _ in range(3)]
    registry_wires, producer_wires, reader_wires = ways
    host = system_host()
    server = MemoryStoreServer(host.clock)
    network = MemoryNetwork(host.clock, host.randomness)
    by_client = {"registry": _ports(brokers, registry_wires), "reader": _ports(brokers, reader_wires)}
    app = {"app": _ports(brokers, producer_wires)}
    services: dict[str, Service] = {"registry": RegistryService(AioKafka("registry"))}
    if readers:
        services["assigner"] = Assigner(AioKafka("assigner"))
    with (
        patch.object(braid.kafka.protocol.wire, "open_connection", _redirected(by_client, open_connection)),
        patch.object(braid.kafka.producing.internals.metadata, "open_connection", _redirected(app, open_connection)),
        patch.object(aiokafka.client, "create_conn", _redirected(app, create_conn)),
    ):
        try:
            async with contextlib.AsyncExitStack() as stack:
                for name, service in services.items():
                    await stack.enter_async_context(serving_replica(host, server, network, name, service))
                meshes = [_mesh(host, network, "app")]
                meshes += [_mesh(replace(host, name=f"reader-{at}"), network, "reader") for at in range(readers)]
                for mesh in meshes:
                    await stack.enter_async_context(mesh)
                await _register(meshes[0], brokers)
                yield WiredRegistry(registry_wires, producer_wires, reader_wires, meshes[0], meshes[1:])
        finally:
            for wire in (wire for way in ways for wire in way.values()):
                await wire.close()


@contextlib.asynccontextmanager
async def serving_replica(
    host: Host, server: MemoryStoreServer, network: MemoryNetwork, name: str, service: Service
) -> AsyncIterator[None]:
    """The one replica of a service, once it is ready."""
    store, transport = MemoryStore(host, server), MemoryTransport(network, name)
    replica = Replica(service, host, store, transport, address=ADDRESSES[name], instance=f"{name}-0")
    serving = host.tasks.spawn(replica.run(), name)
    try:
        await replica.ready()
        yield
    finally:
        serving.cancel()
        await serving.ended()


def _mesh(host: Host, network: MemoryNetwork, client: str) -> Mesh:
    return Mesh(host, AioKafka(client), MemoryTransport(network, client), [ADDRESSES["registry"]], client, "")


async def _register(mesh: Mesh, brokers: Mapping[str, KafkaBroker]) -> None:
    for name, broker in brokers.items():
        spec = cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap)
        request = api.CreateClusterRequest(name=name, spec=spec)
        await mesh.service("registry").unary("CreateCluster", request, cluster_pb2.Cluster)


def _ports(brokers: Mapping[str, KafkaBroker], wires: Mapping[str, Wire]) -> Mapping[int, int]:
    """By a broker's port, that of the wire to it."""
    return {_port(broker.bootstrap): _port(wires[name].address) for name, broker in brokers.items()}


def _redirected(by_client: Mapping[str, Mapping[int, int]], opened: _Connect) -> _Connect:
    """Connects the clients of these names to other ports than they ask for."""

    def connect(host: str, port: int, **settings: Any) -> Awaitable[Any]:
        ports = by_client.get(settings["client_id"], {})
        return opened(host, ports.get(port, port), **settings)

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
