"""A registry and an assigner whose every answer the test writes, over the memory network, beside clusters in memory.

Clients of it are real `Mesh` objects, each in a virtual process of its own that can be killed.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from braid.api.assigner.v1 import join_pb2
from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress, Endpoint, ListEndpointsRequest, ListEndpointsResponse
from braid.api.registry.v1 import route_pb2, witness_pb2
from braid.client.mesh import Mesh
from braid.kafka.memory import MemoryKafka, MemoryProcess
from braid.kafka.memory.log import MemoryRecord
from braid.kernel.errors import BraidError, Unavailable, Unsupported
from braid.kernel.ids import ChannelId, LeaseId, make_epoch
from braid.kernel.ports import Admitted, Caller, DuplexServing, Generation, RpcService, TopicPartition
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import duplex, method_path, unary
from tests.support.scripted_streams import Joined, Witness
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.support.virtual_waits import settled as settled
from tests.support.virtual_waits import until as until
from tests.support.virtual_waits import virtual as virtual

ADDRESS: Final = "control:7401"
ZONES: Final = {"east": "a", "west": "b"}


@dataclass
class Client:
    """A process of an application."""

    process: VirtualProcess
    kafka: MemoryProcess
    mesh: Mesh
    network: MemoryNetwork

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.network.kill(self.process.name)


@dataclass
class Channel:
    """The control plane's knowledge of a channel."""

    id: ChannelId
    cluster: str
    partitions: int
    weight: float = 1.0

    @property
    def topic(self) -> str:
        return self.id.topic("braid.")


@dataclass
class Control:
    """Registry and assigner at one address. Nothing happens but what the test says."""

    seed: int = 0
    latency: Callable[[], float] | None = None
    channels: dict[str, Channel] = field(default_factory=dict)
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    reports: list[route_pb2.SendErrors] = field(default_factory=list)
    hangs_up: bool = False  # on producers, without a word
    refusal: BraidError | None = None  # of every producer and member that says hello
    full: BraidError | None = None  # of every call but lists of endpoints, before it says anything
    turned_away: Counter[str] = field(default_factory=Counter)
    producers: list[route_pb2.ProducerHello] = field(default_factory=list)
    channels_left: list[route_pb2.ChannelLeft] = field(default_factory=list)
    released: list[join_pb2.ReleasedLease] = field(default_factory=list)
    members: list[Joined] = field(default_factory=list)
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    generations: dict[str, Generation] = field(default_factory=dict)
    refusals: list[tuple[str, Generation]] = field(default_factory=list)
    stopped: list[dict[str, str]] = field(default_factory=list)
    answers_heartbeats: bool = True
    lease_ms: int = 3_000
    max_record_bytes: int = 1 << 20
    brokers: int = 1
    reaches: list[tuple[str, route_pb2.ReachAnswer]] = field(default_factory=list)
    witnesses: list[Witness] = field(default_factory=list)
    knows_witnesses: bool = True  # an older registry does not
    refused_witnesses: int = 0
    division: join_pb2.WorkDivision | None = None  # of work, with each welcome; an older assigner has none

    def __post_init__(self) -> None:
        loop = running_loop()
        self.process = VirtualProcess(loop, "control", self.seed)
        host = self.process.host
        self.network = MemoryNetwork(host.clock, host.randomness)
        self.kafka = MemoryKafka(host.clock, lambda: self.latency() if self.latency is not None else 0.0)
        self.clusters = {name: self.kafka.add_cluster(name, brokers=self.brokers) for name in ZONES}
        self.route: route_pb2.Route | None = None
        self.watches: list[DuplexServing] = []  # of producers
        self.revision = 0
        self._epochs = 0

    # --- set up

    async def start(self) -> "Control":
        """Begins to serve."""
        services = {service: method_path(service, "ListEndpoints") for service in ("registry", "assigner")}
        service = RpcService(
            "control",
            {path: unary(ListEndpointsRequest, self._list_endpoints) for path in services.values()},
            {},
            {
                method_path("registry", "WatchRoutes"): duplex(route_pb2.WatchRoutesRequest, self._watch_routes),
                method_path("registry", "WatchClusters"): duplex(
                    witness_pb2.WatchClustersRequest, self._watch_clusters
                ),
                method_path("assigner", "Join"): duplex(join_pb2.JoinRequest, self._join),
            },
            admit=self._admit,
        )
        server = await MemoryTransport(self.network, "control").serve(ADDRESS, service)
        server.set_serving(True)
        return self

    def client(self, name: str, zone: str = "", on_failure: Callable[[BaseException], None] | None = None) -> Client:
        """A new application process; `on_failure` hears of its tasks that died, which else fail the run."""
        process = VirtualProcess(running_loop(), name, self.seed, on_failure=on_failure)
        kafka = self.kafka.process()
        mesh = Mesh(process.host, kafka, MemoryTransport(self.network, name), [ADDRESS], name, zone)
        return Client(process, kafka, mesh, self.network)

    def add_channel(self, name: str, cluster: str, partitions: int = 2, weight: float = 1.0) -> Channel:
        """Creates a channel's topic."""
        channel = Channel(ChannelId.parse(name), cluster, partitions, weight)
        self.channels[name] = channel
        self.clusters[cluster].create_topic(channel.topic, partitions, 1, {})
        return channel

    def seal(self, name: str) -> None:
        """Seals a topic as the registry seals a drained channel's."""
        channel = self.channels[name]
        self.clusters[channel.cluster].alter_topic_config(channel.topic, {"max.message.bytes": "0"})

    def unseal(self, name: str) -> None:
        """Removes a seal as the registry does after a restore of the store."""
        channel = self.channels[name]
        self.clusters[channel.cluster].alter_topic_config(channel.topic, {"max.message.bytes": None})

    def records(self, name: str) -> list[MemoryRecord]:
        """All that lies in a channel, partition by partition."""
        channel = self.channels[name]
        found: list[MemoryRecord] = []
        for partition in range(channel.partitions):
            log = self.clusters[channel.cluster].log(TopicPartition(channel.topic, partition))
            found += [record for batch in log.batches for record in batch.records if record.offset >= log.start]
        return found

    # --- the registry

    async def move(self, *channels: str, dropped: Mapping[str, bool] | None = None, push: bool = True) -> int:
        """The next route: these channels, and for those dropped whether the move is planned."""
        self.revision += 1
        route = route_pb2.Route(stream="logs", revision=self.revision, max_record_bytes=self.max_record_bytes)
        route.clusters.extend(self.address(name) for name in self.clusters)
        for name in channels:
            channel = self.channels[name]
            lane = next((each for each in route.lanes if each.lane == channel.id.lane), None)
            lane = lane if lane is not None else route.lanes.add(lane=channel.id.lane)
            lane.channels.add(
                channel=name,
                cluster=channel.cluster,
                topic=channel.topic,
                partitions=channel.partitions,
                weight=channel.weight,
            )
        for name, planned in (dropped or {}).items():
            route.dropped.add(channel=name, planned=planned)
        for name in dropped or {}:
            if self.channels[name].id.lane not in [lane.lane for lane in route.lanes]:
                route.lanes.add(lane=self.channels[name].id.lane)  # a lane with nowhere to go
        self.route = route
        for watch in self.watches if push else ():
            await watch.send(route_pb2.WatchRoutesResponse(route=route))
        return self.revision

    async def ask(self, cluster: str) -> list[tuple[str, route_pb2.ReachAnswer]]:
        """Asks every producer whether it reaches a cluster; answers by host."""
        self.reaches.clear()
        watches = list(self.watches)
        for watch in watches:
            await watch.send(route_pb2.WatchRoutesResponse(reach=route_pb2.ReachQuestion(cluster=cluster)))
        await until(lambda: len(self.reaches) == len(watches), 1.0)
        return list(self.reaches)

    def address(self, cluster: str) -> ClusterAddress:
        """How a cluster is reached."""
        return ClusterAddress(name=cluster, bootstrap=self.clusters[cluster].bootstrap, zone=ZONES[cluster])

    async def _admit(self, path: str, caller: Caller) -> Admitted:
        method = path.rpartition("/")[2]
        if self.full is not None and method != "ListEndpoints":
            self.turned_away[method] += 1
            raise self.full
        return Admitted(caller)

    async def _watch_routes(self, call: DuplexServing) -> None:
        first = await call.receive()
        if self.refusal is not None:
            raise self.refusal
        assert isinstance(first, route_pb2.WatchRoutesRequest)
        if self.hangs_up:
            return
        self.producers.append(first.hello)
        producer = first.hello.producer_id
        await call.send(route_pb2.WatchRoutesResponse(welcome=route_pb2.ProducerWelcome(protocol_version=1)))
        if self.route is not None:
            await call.send(route_pb2.WatchRoutesResponse(route=self.route))
        self.watches.append(call)
        try:
            while (message := await call.receive()) is not None and not self.hangs_up:
                assert isinstance(message, route_pb2.WatchRoutesRequest)
                if message.WhichOneof("message") == "acknowledged":
                    self.acknowledged.append((producer, message.acknowledged.revision))
                elif message.WhichOneof("message") == "channel_left":
                    self.channels_left.append(message.channel_left)
                elif message.WhichOneof("message") == "send_errors":
                    self.reports.append(message.send_errors)
                elif message.WhichOneof("message") == "reach":
                    self.reaches.append((first.hello.host, message.reach))
        finally:
            self.watches.remove(call)

    async def _watch_clusters(self, call: DuplexServing) -> None:
        if not self.knows_witnesses:
            self.refused_witnesses += 1
            raise Unsupported("unknown method")
        first = await call.receive()
        assert isinstance(first, witness_pb2.WatchClustersRequest)
        witness = Witness(first.hello, call, [list(first.hello.clusters.names)])
        self.witnesses.append(witness)
        await call.send(witness_pb2.WatchClustersResponse(welcome=witness_pb2.WitnessWelcome(protocol_version=1)))
        try:
            while (message := await call.receive()) is not None:
                assert isinstance(message, witness_pb2.WatchClustersRequest)
                match message.WhichOneof("message"):
                    case "clusters":
                        witness.read.append(list(message.clusters.names))
                    case "errors":
                        witness.complaints.append(message.errors.cluster)
                    case "reach":
                        witness.answers.append(message.reach)
        except Unavailable:
            pass
        finally:
            witness.ended = True

    # --- the assigner

    async def grant(self, at: int, *leases: str) -> list[int]:
        """Grants leases to the `at`-th stream that was opened; returns their epochs."""
        joined = self.members[at]
        delta = self._delta(joined)
        epochs = []
        for name in leases:
            self._epochs += 1
            lease = LeaseId.parse(name)
            epochs.append(make_epoch(1, self._epochs))
            channel = self.channels[str(lease.channel)]
            self.held.setdefault(joined.member, {})[name] = epochs[-1]
            cluster = self._cluster_delta(delta, channel.cluster)
            cluster.granted.add(lease=name, topic=channel.topic, partition=lease.partition, epoch=epochs[-1])
        await joined.call.send(join_pb2.JoinResponse(delta=delta))
        return epochs

    async def lend(self, at: int, cluster: str, generation: Generation) -> None:
        """Lends a generation, now and with every later grant on the cluster."""
        self.generations[cluster] = generation
        joined = self.members[at]
        delta = self._delta(joined)
        self._cluster_delta(delta, cluster)
        await joined.call.send(join_pb2.JoinResponse(delta=delta))

    async def revoke(self, at: int, *leases: str, deadline_ms: int = 30_000) -> None:
        """Asks leases back; with deadline 0 they are lost at once."""
        joined = self.members[at]
        delta = self._delta(joined)
        for name in leases:
            cluster = self._cluster_delta(delta, self.channels[str(LeaseId.parse(name).channel)].cluster)
            cluster.revoked.add(lease=name, epoch=self.held[joined.member][name], deadline_ms=deadline_ms)
            if not deadline_ms:
                del self.held[joined.member][name]
        await joined.call.send(join_pb2.JoinResponse(delta=delta))

    async def split(
        self, at: int, lease: str, share: float = 0.2, *, relaxed: bool = False, epoch: int | None = None
    ) -> None:
        """Asks the `at`-th stream to split a lease."""
        joined = self.members[at]
        held = self.held[joined.member].get(lease, 0) if epoch is None else epoch
        asked = join_pb2.SplitBacklog(lease=lease, epoch=held, share=share, relaxed=relaxed)
        await joined.call.send(join_pb2.JoinResponse(split=asked))

    async def divide(
        self, at: int, revision: int, shares: Mapping[str, int] | None = None, concurrency: float = 0.0
    ) -> None:
        """Tells the `at`-th stream how to divide its work."""
        told = join_pb2.WorkDivision(revision=revision, shares=shares, concurrency=concurrency)
        await self.members[at].call.send(join_pb2.JoinResponse(work=told))

    def _delta(self, joined: Joined) -> join_pb2.LeaseDelta:
        joined.deltas += 1
        return join_pb2.LeaseDelta(sequence=joined.deltas)

    def _cluster_delta(self, delta: join_pb2.LeaseDelta, cluster: str) -> join_pb2.ClusterDelta:
        for each in delta.clusters:
            if each.cluster.name == cluster:
                return each
        made = delta.clusters.add(cluster=self.address(cluster))
        if cluster in self.generations:
            made.generation.generation, made.generation.member_id = self.generations[cluster]
        return made

    async def _join(self, call: DuplexServing) -> None:
        first = await call.receive()
        if self.refusal is not None:
            raise self.refusal
        assert isinstance(first, join_pb2.JoinRequest)
        hello = first.hello
        member = hello.member_id or f"member-{len(self.members)}"
        mine = self.held.setdefault(member, {})
        kept = [held for held in hello.held if mine.get(held.lease) == held.epoch]
        self.held[member] = {held.lease: held.epoch for held in kept}
        welcome = join_pb2.MemberWelcome(
            protocol_version=1, member_id=member, lease_ms=self.lease_ms, heartbeat_ms=self.lease_ms // 4, kept=kept
        )
        if self.division is not None:
            welcome.work.CopyFrom(self.division)
        await call.send(join_pb2.JoinResponse(welcome=welcome))
        joined = Joined(member, hello, call)
        self.members.append(joined)
        try:
            while (message := await call.receive()) is not None:
                assert isinstance(message, join_pb2.JoinRequest)
                await self._heard(joined, message)
        except Unavailable:
            return

    async def _heard(self, joined: Joined, message: join_pb2.JoinRequest) -> None:
        match message.WhichOneof("message"):
            case "heartbeat":
                joined.heartbeats += 1
                joined.busy_micros.update({load.lease: load.busy_micros for load in message.heartbeat.loads})
                if self.answers_heartbeats:
                    reply = join_pb2.HeartbeatReply(sequence=message.heartbeat.sequence)
                    await joined.call.send(join_pb2.JoinResponse(heartbeat=reply))
            case "acknowledge":
                joined.acknowledged = max(joined.acknowledged, message.acknowledge.delta_sequence)
                for released in message.acknowledge.released:
                    self.released.append(released)
                    self.held[joined.member].pop(released.lease, None)
            case "commit_refused":
                told = message.commit_refused
                generation = Generation(told.generation.generation, told.generation.member_id)
                self.refusals.append((told.cluster, generation))
            case "splits":
                joined.splits.append(message.splits)
            case "stopped":
                self.stopped.append(dict(message.stopped.lanes))
            case "found":
                joined.found.append(message.found)
            case "leave":
                joined.left = True

    async def _list_endpoints(self, request: ListEndpointsRequest, caller: Caller) -> ListEndpointsResponse:
        endpoints = [
            Endpoint(service=service, instance=f"{service}-0", address=ADDRESS, leader=True)
            for service in ("assigner", "registry")
        ]
        return ListEndpointsResponse(endpoints=endpoints)


@asynccontextmanager
async def two_clusters(zone: str = "") -> AsyncIterator[tuple[Control, Client, Mesh]]:
    """One channel of lane `live` on each cluster; the route names the one on east."""
    control = await Control().start()
    control.add_channel("logs/live/1", "east")
    control.add_channel("logs/live/2", "west")
    await control.move("logs/live/1")
    client = control.client("web", zone)
    async with client.mesh as mesh:
        yield control, client, mesh


def ids(control: Control, channel: str) -> list[str]:
    """The `braid-id` of every record in a channel."""
    return [dict(record.headers)["braid-id"].decode() for record in control.records(channel)]
