"""A mesh over three zones, each with a cluster, a registry, an assigner, producers and members, and a ledger.

Everything is the real code over twins in memory on one virtual clock. A zone is lost whole: its cluster and all its
processes end in one instant.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Final

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.client.mesh import Mesh
from braid.client.records.record import Record
from braid.client.telemetry.zone_bytes import zone_bytes
from braid.kafka.memory.world import MemoryKafka
from braid.kernel.errors import BraidError
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MEMORY_MESH, MemoryStoreServer
from services.assigner.servicer.service import Assigner
from services.registry.service import RegistryService
from services.registry.term import Tuning
from tests.support.virtual_time import VirtualProcess, running_loop

ZONES: Final = ("a", "b", "c")
LANE: Final = "live"
PARTITIONS: Final = 6
PRODUCERS: Final = 2  # in each zone: one with keys, one without
RECORD_BYTES: Final = 20_000
SEND_SECONDS: Final = 0.1
LOOKS: Final = 100
TUNING: Final = Tuning(producer_session_seconds=6.0, probe_interval_seconds=0.25, probe_timeout_seconds=0.75)

Work = Callable[[Mesh, VirtualProcess], Coroutine[object, object, None]]


class Ledger:
    """Records that were acknowledged to producers and handled by members, each with its time.

    Attributes:
        acknowledged: When and in which zone's producer, by record.
        handled: When, by record.
        carried: By cluster, the records it acknowledged.
        pauses: By producer, its longest time between two acknowledgements since `watch`.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[str, float] = {}
        self.handled: dict[str, float] = {}
        self.carried: dict[str, set[str]] = {}
        self.pauses: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def acknowledge(self, producer: str, record: str, cluster: str, now: float) -> None:
        """Notes an acknowledgement."""
        self.carried.setdefault(cluster, set()).add(record)
        self.acknowledged[record] = now
        self.pauses[producer] = max(self.pauses.get(producer, 0.0), now - self._last.get(producer, now))
        self._last[producer] = now

    def watch(self, now: float) -> None:
        """Measures pauses from now on."""
        self.pauses = dict.fromkeys(self._last, 0.0)
        self._last = dict.fromkeys(self._last, now)

    def stop(self, now: float) -> None:
        """Counts pauses that have not ended."""
        for producer, at in self._last.items():
            self.pauses[producer] = max(self.pauses.get(producer, 0.0), now - at)

    def latest(self, began: float, ended: float, elsewhere: Collection[str]) -> float:
        """How long the slowest record of a time took from its acknowledgement to its handling."""
        some = {each: at for each, at in self.acknowledged.items() if began <= at <= ended and each not in elsewhere}
        return max((self.handled.get(each, math.inf) - at for each, at in some.items()), default=math.inf)

    def missing(self) -> set[str]:
        """Records that were acknowledged and not handled."""
        return self.acknowledged.keys() - self.handled.keys()


class ZonedMesh:
    """Processes and clusters of three zones."""

    def __init__(self, seed: int) -> None:
        self.ledger = Ledger()
        self.quiet = False
        self._seed = seed
        self._loop = running_loop()
        self._me = VirtualProcess(self._loop, "operator", seed)
        self.clock = self._me.host.clock
        self._server = MemoryStoreServer(self.clock, MEMORY_MESH)
        self._network = MemoryNetwork(self.clock, self._me.host.randomness)
        self.kafka = MemoryKafka(self.clock, latency=lambda: self._me.host.randomness.uniform(0.0002, 0.002))
        self.processes: dict[str, VirtualProcess] = {}
        self._endpoints = [f"{service}-{zone}:1" for service in ("registry", "assigner") for zone in ZONES]
        directory = Directory(MemoryTransport(self._network, "operator"), self._me.host, self._endpoints)
        self.registry = ServiceClient(directory, "registry", self._me.host, principal="operator")
        self.assigner = ServiceClient(directory, "assigner", self._me.host, principal="operator")

    async def start(self) -> None:
        """Starts services and clusters."""
        for zone in ZONES:
            self.kafka.add_cluster(f"kafka-{zone}")
        for zone in ZONES:
            for service in ("registry", "assigner"):
                self._start_service(service, zone)
        for zone in ZONES:
            spec = cluster_pb2.ClusterSpec(bootstrap=f"kafka-{zone}:9092", zone=zone)
            request = api.CreateClusterRequest(name=f"kafka-{zone}", spec=spec)
            await self._insist(partial(self.registry.unary, "CreateCluster", request, cluster_pb2.Cluster))

    async def create(self, stream: str, lane: stream_pb2.LaneSpec, clusters: Sequence[str] = ()) -> None:
        """Creates a stream, and waits until its channels are as its lane declares."""
        spec = stream_pb2.StreamSpec(lanes={LANE: lane}, clusters=clusters, replication_factor=1)
        request = api.CreateStreamRequest(name=stream, spec=spec)
        await self._insist(lambda: self.registry.unary("CreateStream", request, stream_pb2.Stream))
        zones = len(ZONES) if lane.spread == stream_pb2.LANE_SPREAD_ZONES else 1
        for _ in range(LOOKS):
            if len(await self.active(stream)) == zones:
                return
            await self.clock.sleep(0.1)
        raise AssertionError(f"{stream} is not on {zones} clusters")

    async def active(self, stream: str) -> dict[str, str]:
        """The zones of a lane's active channels, by cluster."""
        request = api.ListChannelsRequest(stream=stream)
        found = await self.registry.unary("ListChannels", request, api.ListChannelsResponse)
        state = stream_pb2.CHANNEL_STATE_ACTIVE
        return {each.cluster: each.zone for each in found.channels if each.lane == LANE and each.state == state}

    async def consume(self, stream: str, group: str, *, prefer: bool) -> None:
        """Starts a member of a group in each zone; the rule is set once the group is there, so joins follow it."""
        for zone in reversed(ZONES):
            self._start(f"{group}.{zone}", lambda mesh, process: self._consume(mesh, process, stream, group))
            if prefer and zone == ZONES[-1]:
                await self._prefer_zones(group)
        await self.clock.sleep(1.0)
        for _ in range(LOOKS):
            if not prefer or not await self._strangers(stream, group):
                return
            await self.clock.sleep(2.0)
        raise AssertionError(f"leases of {stream} do not come into their zones")

    async def _prefer_zones(self, group: str) -> None:
        request = assigner_api.SetSpreadingRequest(group=group, zones=rules_pb2.ZONE_RULE_PREFER)
        await self._insist(lambda: self.assigner.unary("SetSpreading", request, group_pb2.Group))

    async def _strangers(self, stream: str, group: str) -> int:
        """How many leases of a lane are not held in the zone of their cluster."""
        request = assigner_api.ListLeasesRequest(group=group)
        found = await self.assigner.unary("ListLeases", request, assigner_api.ListLeasesResponse)
        leases = [each for each in found.leases if each.name.startswith(f"{stream}/{LANE}/")]
        return sum(each.member_client_id.rpartition(".")[2] != each.cluster.rpartition("-")[2] for each in leases)

    def produce(self, stream: str) -> None:
        """Starts producers in each zone: one in two sends records with keys."""
        for zone in ZONES:
            for number in range(PRODUCERS):
                self._start(f"{stream}-{number}.{zone}", self._producing(stream, keyed=number == 0))

    async def silence(self) -> None:
        """Ends all producers, once what they sent is acknowledged."""
        self.quiet = True
        await self.clock.sleep(5.0)
        self.quiet = False

    def lose(self, zone: str) -> None:
        """Ends a zone: its cluster and all its processes."""
        self.kafka.named(f"kafka-{zone}").kill()
        for name, process in self.processes.items():
            if name.endswith(f".{zone}") or name.endswith(f"-{zone}"):
                process.kill()

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether a condition came true within so many simulated seconds."""
        end = self.clock.elapsed() + seconds
        while not condition():
            if self.clock.elapsed() >= end:
                return False
            await self.clock.sleep(0.05)
        return True

    # --- processes

    def _start_service(self, service: str, zone: str) -> None:
        name = f"{service}-{zone}"
        process = self._process(name)
        kafka = self.kafka.process()
        serving: Service = RegistryService(kafka, TUNING) if service == "registry" else Assigner(kafka)
        store = MemoryStore(process.host, self._server)
        transport = MemoryTransport(self._network, name)
        replica = Replica(serving, process.host, store, transport, address=f"{name}:1", instance=name)
        process.tasks.spawn(replica.run(), "replica")

    def _start(self, name: str, work: Work) -> None:
        process = self._process(name)
        transport = MemoryTransport(self._network, name)
        zone = name.rpartition(".")[2]
        mesh = Mesh(process.host, self.kafka.process(), transport, self._endpoints, client_id=name, zone=zone)
        process.tasks.spawn(work(mesh, process), "application")

    def _process(self, name: str) -> VirtualProcess:
        process = self.processes[name] = VirtualProcess(self._loop, name, self._seed)
        process.on_kill(lambda: self._network.kill(name))
        return process

    async def _consume(self, mesh: Mesh, process: VirtualProcess, stream: str, group: str) -> None:
        async def handle(record: Record) -> None:
            self.ledger.handled[(record.value or b"").decode().rstrip(".")] = process.host.clock.elapsed()

        async with mesh, mesh.consumer([stream], group=group) as consumer:
            await consumer.run(handle)

    def _producing(self, stream: str, *, keyed: bool) -> Work:
        async def produce(mesh: Mesh, process: VirtualProcess) -> None:
            clock, number = process.host.clock, 0
            async with mesh, mesh.producer(stream) as producer:
                while not self.quiet:
                    number += 1
                    name = f"{process.name}/{number}"
                    key = f"{process.name}/{number % 20}".encode() if keyed else None
                    receipt = await producer.send(name.ljust(RECORD_BYTES, ".").encode(), key=key, lane=LANE)
                    self.ledger.acknowledge(process.name, name, receipt.cluster, clock.elapsed())
                    await clock.sleep(SEND_SECONDS)

        return produce

    async def _insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Repeats a request until it is granted: leaders may not be elected yet."""
        for _ in range(LOOKS):
            try:
                await call()
            except BraidError:
                await self.clock.sleep(0.2)
                continue
            return
        raise AssertionError("the request is never granted")


def crossed() -> tuple[int, int]:
    """Bytes that this process's clients exchanged so far: those that crossed zones, and all."""
    counted = [each for each in zone_bytes() if each.client_zone in ZONES and each.cluster.startswith("kafka-")]
    return sum(each.bytes for each in counted if each.cross_zone), sum(each.bytes for each in counted)
