"""A mesh on virtual time: registries, an assigner that answers what it is told, clusters in memory."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, route_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kafka.memory.world import MemoryKafka, MemoryProcess
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError
from braid.kernel.ports import Caller, Committed, DuplexCall, RpcService, TopicPartition
from braid.rpc.directory import Directory, KnownEndpoint
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import method_path, service_path, unary
from braid.runtime.access.settings import AccessSettings
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MEMORY_MESH, MemoryStoreServer
from services.registry.service import RegistryService
from services.registry.term import Tuning
from tests.support.virtual_time import VirtualProcess, running_loop

T = TypeVar("T")
ACTIVE = stream_pb2.CHANNEL_STATE_ACTIVE
STANDBY = stream_pb2.CHANNEL_STATE_STANDBY
DRAINING = stream_pb2.CHANNEL_STATE_DRAINING
DRAINED = stream_pb2.CHANNEL_STATE_DRAINED


@dataclass
class AnsweringAssigner:
    """A service `assigner` that lists the groups it is told of."""

    groups: dict[str, bool] = field(default_factory=dict)  # name → idle expired
    resetting: dict[str, list[str]] = field(default_factory=dict)  # group → channels where a reset is pending
    resets: dict[str, int] = field(default_factory=dict)  # group → resets asked for and written
    closed: list[str] = field(default_factory=list)
    name: str = "assigner"
    kinds: Mapping[str, AnyKind] = field(default_factory=dict)

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service.rpc`."""

        async def list_groups(
            request: assigner_api.ListGroupsRequest, caller: Caller
        ) -> assigner_api.ListGroupsResponse:
            replica.require_leader()
            groups = [group_pb2.Group(name=name, status=self._status(name)) for name in self.groups]
            return assigner_api.ListGroupsResponse(groups=groups)

        async def close_channel(
            request: assigner_api.CloseChannelRequest, caller: Caller
        ) -> assigner_api.CloseChannelResponse:
            replica.require_leader()
            self.closed.append(request.channel)
            return assigner_api.CloseChannelResponse()

        handlers = {
            "ListGroups": unary(assigner_api.ListGroupsRequest, list_groups),
            "CloseChannel": unary(assigner_api.CloseChannelRequest, close_channel),
        }
        methods = {method_path(self.name, name): entry for name, entry in handlers.items()}
        return RpcService(service_path(self.name), methods, {}, {})

    def _status(self, name: str) -> group_pb2.GroupStatus:
        return group_pb2.GroupStatus(
            idle_expired=self.groups[name],
            resetting_channels=self.resetting.get(name, []),
            resets=self.resets.get(name, 0),
        )

    async def lead(self, replica: Replica) -> None:
        """See `Service.lead`."""

    async def follow(self, replica: Replica) -> None:
        """See `Service.follow`."""


class Mesh:
    """One store, one network, one Kafka world; registries come and go."""

    def __init__(self, *, session_seconds: float = 30.0, mesh: str = MEMORY_MESH) -> None:
        self.me = VirtualProcess(running_loop(), "test", 1)
        self.server = MemoryStoreServer(self.me.host.clock, mesh)
        self.network = MemoryNetwork(self.me.host.clock, self.me.host.randomness)
        self.kafka = MemoryKafka(self.me.host.clock)
        self.assigner = AnsweringAssigner()
        self.tuning = Tuning(session_seconds, 0.25, 0.75)
        self.replicas: dict[str, Replica] = {}
        self.processes: dict[str, VirtualProcess] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.views: dict[str, MemoryProcess] = {}
        self._number = 0
        self.client = self.client_of("test")

    def client_of(self, process: str, identity: str = "", tenant: str = "default") -> ServiceClient:
        """A client of the registry in a process of this name, with a certificate where there is an identity.

        It says that it is of the tenant.
        """
        directory = Directory(MemoryTransport(self.network, process, identity), self.me.host, source=self._endpoints)
        return ServiceClient(directory, "registry", self.me.host, principal="ada", tenant=tenant)

    async def start_registry(self, name: str, access: AccessSettings | None = None) -> Replica:
        """Starts a registry and waits until it serves."""
        self.views[name] = self.kafka.process()
        service = RegistryService(self.views[name], self.tuning)
        return await self._start(name, service, 7000, access)

    async def start_assigner(self) -> Replica:
        """Starts the assigner."""
        return await self._start("assigner-0", self.assigner, 7100)

    async def _start(
        self, name: str, service: RegistryService | AnsweringAssigner, port: int, access: AccessSettings | None = None
    ) -> Replica:
        self._number += 1
        process = VirtualProcess(running_loop(), f"{name}.{self._number}", 1)
        transport = MemoryTransport(self.network, process.name)
        address = f"{process.name}:{port + self._number}"
        store = self.stores[name] = MemoryStore(process.host, self.server)
        replica = Replica(service, process.host, store, transport, address=address, instance=name, access=access)
        process.host.tasks.spawn(replica.run(), "run")
        await replica.ready()
        self.replicas[name], self.processes[name] = replica, process
        return replica

    def slow_appends(self, seconds: float) -> None:
        """Every append takes so long from now on."""
        for store in self.stores.values():
            store.latency = lambda operation: seconds / 2 if operation == "append" else 0.0

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.processes.pop(name)
        del self.replicas[name]
        process.kill()
        self.network.kill(process.name)

    async def leader(self) -> Replica:
        """The registry that leads."""
        await self.until(lambda: any(self._leads(name) for name in self.replicas), 10.0, "nobody leads")
        return next(self.replicas[name] for name in self.replicas if self._leads(name))

    def _leads(self, name: str) -> bool:
        return name.startswith("registry") and self.replicas[name].leading()

    async def until(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Waits for a condition on virtual time."""
        deadline = self.me.host.clock.elapsed() + seconds
        while not condition():
            assert self.me.host.clock.elapsed() < deadline, otherwise
            await asyncio.sleep(0.05)

    async def _endpoints(self) -> list[KnownEndpoint]:
        replica = next(iter(self.replicas.values()))
        return list(await replica.endpoints())

    # --- calls

    async def cluster(self, name: str) -> cluster_pb2.Cluster:
        """Reads a cluster at the leader."""
        return await self.client.unary("GetCluster", api.GetClusterRequest(name=name), cluster_pb2.Cluster)

    async def until_health(self, name: str, health: str, seconds: float) -> cluster_pb2.Cluster:
        """Waits until a cluster's health is as named."""
        deadline = self.me.host.clock.elapsed() + seconds
        while True:
            found = await self.cluster(name)
            if found.status.health == cluster_pb2.ClusterHealth.Value(f"CLUSTER_HEALTH_{health}"):
                return found
            assert self.me.host.clock.elapsed() < deadline, f"still {found.status}"
            await asyncio.sleep(0.05)

    async def create_cluster(self, name: str, brokers: int = 1, **spec: object) -> cluster_pb2.Cluster:
        """Starts a Kafka cluster and registers it."""
        self.kafka.add_cluster(name, brokers=brokers)
        declared = cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092", **spec)  # type: ignore[arg-type]
        request = api.CreateClusterRequest(name=name, spec=declared)
        return await self.client.unary("CreateCluster", request, cluster_pb2.Cluster)

    async def create_stream(self, name: str = "logs", lanes: int = 2, **spec: object) -> stream_pb2.Stream:
        """Creates a stream with one lane `live`."""
        declared = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=lanes)}, **spec)  # type: ignore[arg-type]
        request = api.CreateStreamRequest(name=name, spec=declared)
        return await self.client.unary("CreateStream", request, stream_pb2.Stream)

    async def stream(self, name: str = "logs") -> stream_pb2.Stream:
        """Reads a stream at the leader."""
        return await self.client.unary("GetStream", api.GetStreamRequest(name=name), stream_pb2.Stream)

    async def channel(self, name: str) -> stream_pb2.Channel:
        """Reads a channel at the leader; retired ones too."""
        request = api.ListChannelsRequest(stream=name.split("/")[0], include_retired=True)
        found = await self.client.unary("ListChannels", request, api.ListChannelsResponse)
        return next(channel for channel in found.channels if channel.name == name)

    async def move(self, **order: object) -> api.MoveStreamResponse:
        """Moves stream `logs`."""
        request = api.MoveStreamRequest(stream="logs", **order)  # type: ignore[arg-type]
        return await self.client.unary("MoveStream", request, api.MoveStreamResponse)

    async def until_channel(
        self, name: str, condition: Callable[[stream_pb2.Channel], bool], seconds: float
    ) -> stream_pb2.Channel:
        """Waits until a channel is as wanted."""
        deadline = self.me.host.clock.elapsed() + seconds
        while True:
            channel = await self.channel(name)
            if condition(channel):
                return channel
            assert self.me.host.clock.elapsed() < deadline, f"still {channel}"
            await asyncio.sleep(0.05)

    def active(self, stream: stream_pb2.Stream, lane: str = "live") -> list[str]:
        """Clusters that carry a lane."""
        return [each.cluster for each in stream.status.channels if each.lane == lane and each.state == ACTIVE]

    async def commit(self, cluster: str, group: str, topic: str, *bases: int) -> None:
        """A group's progress, as its members commit it."""
        offsets = self.kafka.cluster(f"{cluster}:9092", "").offsets()
        partitions = {TopicPartition(topic, number): Committed(base, "") for number, base in enumerate(bases)}
        await offsets.commit(group, partitions, None)

    async def append(self, cluster: str, topic: str, partition: int, count: int = 1) -> None:
        """Appends records, as a producer that no registry knows of."""
        admin = self.kafka.cluster(f"{cluster}:9092", "").admin()
        for _ in range(count):
            await admin.try_append(TopicPartition(topic, partition), b"record", 1.0)


@dataclass
class Producer:
    """A producer's session, by hand."""

    call: DuplexCall
    routes: list[route_pb2.Route] = field(default_factory=list)
    error: BraidError | None = None
    ended: bool = False
    reach: Callable[[str], int | None] = lambda cluster: None

    async def complain(self, cluster: str) -> None:
        """Says that sends go wrong."""
        errors = route_pb2.SendErrors(cluster=cluster, channel="logs/live/1", count=1, reason="by a test")
        await self.call.send(route_pb2.WatchRoutesRequest(send_errors=errors))

    async def _answer(self, cluster: str) -> None:
        """Says how many milliseconds ago the cluster acknowledged something; None says nothing."""
        if (ago_ms := self.reach(cluster)) is not None:
            answer = route_pb2.ReachAnswer(cluster=cluster, acknowledged_ms_ago=ago_ms)
            await self.call.send(route_pb2.WatchRoutesRequest(reach=answer))

    async def acknowledge(self, revision: int) -> None:
        """Sends an acknowledgement."""
        acknowledged = route_pb2.RouteAcknowledged(revision=revision)
        await self.call.send(route_pb2.WatchRoutesRequest(acknowledged=acknowledged))

    async def read(self) -> None:
        """Collects routes until the stream ends."""
        try:
            while (message := await self.call.receive()) is not None:
                assert isinstance(message, route_pb2.WatchRoutesResponse)
                match message.WhichOneof("message"):
                    case "route":
                        self.routes.append(message.route)
                    case "reach":
                        await self._answer(message.reach.cluster)
                    case _:
                        pass
        except BraidError as error:
            self.error = error
        self.ended = True


async def open_producer(
    mesh: Mesh,
    id: str = "p1",
    stream: str = "logs",
    revision: int = 0,
    left: Sequence[route_pb2.ChannelLeft] = (),
    host: str = "",
    resumed: Sequence[route_pb2.LogResumed] = (),
    capabilities: Sequence[str] = (KNOWS_DENIALS,),
    lanes: Sequence[str] = (),
    process: str = "",
) -> Producer:
    """Says hello and collects what comes; in a process of its own where that has a name (`MemoryNetwork.kill`)."""
    client = mesh.client_of(process) if process else mesh.client
    call = await client.duplex("WatchRoutes", route_pb2.WatchRoutesResponse)
    hello = route_pb2.ProducerHello(
        protocol_version=1,
        capabilities=capabilities,
        producer_id=id,
        stream=stream,
        revision=revision,
        left=left,
        host=host,
        resumed=resumed,
        lanes=lanes,
    )
    await call.send(route_pb2.WatchRoutesRequest(hello=hello))
    producer = Producer(call)
    mesh.me.host.tasks.spawn(producer.read(), f"producer {id}")
    return producer


async def two_clusters(mesh: Mesh, *, registries: int = 1, **spec: object) -> stream_pb2.Stream:
    """Registries, an assigner, clusters east and west, stream `logs` on east."""
    for number in range(registries):
        await mesh.start_registry(f"registry-{number}")
    await mesh.start_assigner()
    await mesh.create_cluster("east", zone="a")
    await mesh.create_cluster("west", zone="b")
    return await mesh.create_stream(clusters=["east", "west"], **spec)  # type: ignore[arg-type]
