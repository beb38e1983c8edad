"""Lag monitors on virtual time: a registry and an assigner that say what the test wants, clusters in memory.

Commits are written as Kafka writes them, into a topic of that name.
"""

import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.kafka.memory import MemoryKafka
from braid.kafka.memory.log import NewRecord
from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.envelope import encode
from braid.kernel.ports import Caller, CallOptions, RpcService, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path, service_path, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.lagmon.kept.files import Files
from services.lagmon.servicer.service import Lagmon
from testbed.members.told_registry import Registry
from tests.support.virtual_time import VirtualProcess, running_loop

T = TypeVar("T")
LOGS = "braid.logs.live.1"
OFFSET_PARTITIONS = 2


class ToldRegistry(Registry):
    """A registry stand-in that also knows clusters and streams."""

    def __init__(self, clusters: Sequence[str]) -> None:
        super().__init__()
        self.clusters = list(clusters)
        self.health: dict[str, str] = {}  # by cluster, where it is not HEALTHY
        self.streams: dict[str, stream_pb2.StreamSpec] = {}

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def list_clusters(
            request: registry_api.ListClustersRequest, caller: Caller
        ) -> registry_api.ListClustersResponse:
            found = [name for name in sorted(self.clusters) if name > request.page_token]
            clusters = [
                cluster_pb2.Cluster(
                    name=name,
                    spec=cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092"),
                    status=cluster_pb2.ClusterStatus(
                        health=cluster_pb2.ClusterHealth.Value(f"CLUSTER_HEALTH_{self.health.get(name, 'HEALTHY')}")
                    ),
                )
                for name in found[:1]  # a page each
            ]
            return registry_api.ListClustersResponse(
                clusters=clusters, next_page_token=found[0] if len(found) > 1 else ""
            )

        async def list_streams(
            request: registry_api.ListStreamsRequest, caller: Caller
        ) -> registry_api.ListStreamsResponse:
            streams = [
                stream_pb2.Stream(
                    name=name,
                    spec=spec,
                    status=stream_pb2.StreamStatus(
                        channels=[each for each in self.channels.values() if each.stream == name]
                    ),
                )
                for name, spec in self.streams.items()
            ]
            return registry_api.ListStreamsResponse(streams=streams)

        told = super().rpc(replica)
        own = {
            method_path(self.name, "ListClusters"): unary(registry_api.ListClustersRequest, list_clusters),
            method_path(self.name, "ListStreams"): unary(registry_api.ListStreamsRequest, list_streams),
        }
        return RpcService(told.name, {**told.unary, **own}, told.server_stream, {})


class ToldAssigner:
    """Lists the groups it is told of: name → lanes of stream `logs`."""

    name = "assigner"
    kinds: Mapping[str, AnyKind] = {}

    def __init__(self) -> None:
        self.groups: dict[str, Sequence[str]] = {}
        self.reading: dict[str, Sequence[str]] = {}  # by group, drained channels it has yet to read
        self.members: dict[str, int] = {}  # by group

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def list_groups(
            request: assigner_api.ListGroupsRequest, caller: Caller
        ) -> assigner_api.ListGroupsResponse:
            groups = [
                group_pb2.Group(
                    name=name,
                    spec=group_pb2.GroupSpec(streams=["logs"], lanes=dict.fromkeys(lanes, 1)),
                    status=group_pb2.GroupStatus(
                        reading_channels=self.reading.get(name, ()), members=self.members.get(name, 0)
                    ),
                )
                for name, lanes in self.groups.items()
            ]
            return assigner_api.ListGroupsResponse(groups=groups)

        methods = {method_path(self.name, "ListGroups"): unary(assigner_api.ListGroupsRequest, list_groups)}
        return RpcService(service_path(self.name), methods, {}, {})

    async def lead(self, replica: Replica) -> None:
        """Nothing to do."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""


class Mesh:
    """One store, one network, one Kafka world."""

    def __init__(self, clusters: Sequence[str] = ("east",)) -> None:
        self.me = VirtualProcess(running_loop(), "test", 1)
        self.clock = self.me.host.clock
        self.server = MemoryStoreServer(self.clock)
        self.network = MemoryNetwork(self.clock, self.me.host.randomness)
        self.kafka = MemoryKafka(self.clock)
        self.registry = ToldRegistry(clusters)
        self.assigner = ToldAssigner()
        self.processes: dict[str, VirtualProcess] = {}
        self.replicas: dict[str, Replica] = {}
        self.transport = MemoryTransport(self.network, "test")
        for name in clusters:
            self.kafka.add_cluster(name).create_topic(OFFSETS_TOPIC, OFFSET_PARTITIONS, 1, {})

    async def start(self, lagmons: int = 1, files: Files | None = None) -> "Mesh":
        """Registry, assigner and lag monitors serve; lag is kept in `files`."""
        await self.serve("registry-0", self.registry)
        await self.serve("assigner-0", self.assigner)
        for number in range(lagmons):
            await self.serve(f"lagmon-{number}", Lagmon(self.kafka.process(), files))
        return self

    async def serve(self, instance: str, service: Service) -> Replica:
        """Starts a replica and waits until it serves."""
        process = VirtualProcess(running_loop(), instance, 1)
        process.on_kill(lambda: self.network.kill(instance))
        replica = Replica(
            service,
            process.host,
            MemoryStore(process.host, self.server),
            MemoryTransport(self.network, instance),
            address=f"{instance}:1",
            instance=instance,
        )
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        self.processes[instance], self.replicas[instance] = process, replica
        return replica

    # --- what applications do

    def channel(self, name: str = "logs/live/1", partitions: int = 2, state: str = "ACTIVE") -> None:
        """Makes a channel and its topic on east, or changes its state."""
        topic = "braid." + name.replace("/", ".")
        east = self.kafka.named("east")
        if not east.describe_topics([topic]):
            east.create_topic(topic, partitions, 1, {})
        self.registry.set(name, partitions, "east", state)

    def produce(self, count: int = 1, partition: int = 0, *, topic: str = LOGS, cluster: str = "east") -> None:
        """Appends records, ingested now."""
        now = self.clock.now_ms()
        headers = (("braid-ts", b"%d" % now),)
        records = [NewRecord(now + 77, None, b"x", headers) for _ in range(count)]
        self.kafka.named(cluster).append(TopicPartition(topic, partition), records)

    def commit(
        self,
        group: str,
        progress: EnvelopeFields | int | None,
        partition: int = 0,
        *,
        topic: str = LOGS,
        cluster: str = "east",
    ) -> None:
        """Commits progress: with an envelope, an offset alone, or None for a tombstone."""
        key = struct.pack(">h", 1) + _string(group) + _string(topic) + struct.pack(">i", partition)
        self.offset_record(key, self._value(progress), cluster=cluster, origin=partition % OFFSET_PARTITIONS)

    def offset_record(self, key: bytes, value: bytes | None, *, cluster: str = "east", origin: int = 0) -> None:
        """Any record in the offset log."""
        record = NewRecord(self.clock.now_ms(), key, value, ())
        self.kafka.named(cluster).append(TopicPartition(OFFSETS_TOPIC, origin), [record])

    def _value(self, progress: EnvelopeFields | int | None) -> bytes | None:
        if progress is None:
            return None
        offset, metadata = progress, ""
        if isinstance(progress, EnvelopeFields):
            offset, metadata, *_ = encode(progress)
        assert isinstance(offset, int)
        return struct.pack(">hqi", 3, offset, -1) + _string(metadata) + struct.pack(">q", self.clock.now_ms())

    # --- what people ask

    async def lag(self, instance: str = "lagmon-0", *, group: str = "") -> list[lag_pb2.Lag]:
        """All partitions' rows."""
        return list((await self.ask(instance, detail=3, filter=api.LagFilter(group=group))).lags)

    async def ask(self, instance: str = "lagmon-0", **request: object) -> api.ListLagResponse:
        """One answer of one replica."""
        channel = self.transport.channel(f"{instance}:1")
        message = api.ListLagRequest(**request)  # type: ignore[arg-type]  # the tests' own fields
        path = method_path("lagmon", "ListLag")
        return await channel.unary(path, message, api.ListLagResponse, CallOptions(5.0))

    async def history(
        self, instance: str = "lagmon-0", *, group: str = "", **request: object
    ) -> api.ListLagHistoryResponse:
        """One answer of one replica about lag over time."""
        channel = self.transport.channel(f"{instance}:1")
        message = api.ListLagHistoryRequest(
            filter=api.LagHistoryFilter(group=group),
            **request,  # type: ignore[arg-type]  # the tests' own fields
        )
        path = method_path("lagmon", "ListLagHistory")
        return await channel.unary(path, message, api.ListLagHistoryResponse, CallOptions(5.0))

    def watch(self, instance: str = "lagmon-0", **request: object) -> AsyncIterator[api.WatchLagResponse]:
        """A watch at one replica."""
        channel = self.transport.channel(f"{instance}:1")
        message = api.WatchLagRequest(**request)  # type: ignore[arg-type]
        return channel.server_stream(method_path("lagmon", "WatchLag"), message, api.WatchLagResponse, CallOptions(0.0))

    async def until(
        self, holds: Callable[[list[lag_pb2.Lag]], object], seconds: float = 15.0, instance: str = "lagmon-0"
    ) -> list[lag_pb2.Lag]:
        """Waits until the rows are as wanted; fails showing them when they do not become so."""
        deadline = self.clock.elapsed() + seconds
        while not holds(rows := await self.lag(instance)):
            assert self.clock.elapsed() < deadline, rows
            await self.clock.sleep(0.05)
        return rows


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
