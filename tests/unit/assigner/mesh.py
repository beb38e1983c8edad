"""A small mesh on virtual time: assigners as whole replicas, a registry that says what the test wants, Kafka in memory.

Members are either the SDK's own lease session (`Participant`) or a bare stream the test drives by hand (`Wire`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.api.registry.v1 import stream_pb2
from braid.archive.memory import MemoryArchive
from braid.client.membership.heartbeats import Heartbeats
from braid.client.membership.lease_session import CAPABILITIES, LeaseSession
from braid.client.records.delivery import OwnedLease
from braid.kafka.memory import MemoryKafka
from braid.kernel.capabilities import WORK_DIVISION
from braid.kernel.errors import BraidError
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.ports import DuplexCall, Generation, HistoryId
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.archive.serving import Archive
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner.model.events import Event
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.servicer.service import Assigner
from testbed.members.told_registry import Registry
from tests.support.virtual_time import VirtualProcess, running_loop


class Told(NamedTuple):
    """An event of a lease at a member, in the order in which all events happened."""

    at: float
    client_id: str
    what: str
    lease: LeaseId
    epoch: int


class Mesh:
    """One store, one network, one Kafka world."""

    def __init__(self, seed: int = 1) -> None:
        self.seed = seed
        self.host = self._process("world").host
        self.server = MemoryStoreServer(self.host.clock)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.kafka = MemoryKafka(self.host.clock)
        for name in ("east", "west"):
            self.kafka.add_cluster(name)
        self.registry = Registry()
        self.processes: dict[str, VirtualProcess] = {}
        self.replicas: dict[str, Replica] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.archives: dict[str, MemoryArchive] = {}  # of replicas that are to have one, by instance
        self.failures: list[BaseException] = []
        self.participants: list[Participant] = []
        self.changes: list[Told] = []

    def _process(self, name: str) -> VirtualProcess:
        return VirtualProcess(running_loop(), name, self.seed, on_failure=lambda error: self.failures.append(error))

    async def start(self, assigners: int = 1, channels: Sequence[str] = ("logs/live/1",)) -> "Mesh":
        """Starts registry and assigners, with channels and their topics."""
        for name in channels:
            self.channel(name)
        await self.replica("registry-0")
        for number in range(assigners):
            await self.replica(f"assigner-{number}")
        await self.leader()
        return self

    def channel(self, name: str, partitions: int = 4, cluster: str = "east", state: str = "ACTIVE") -> None:
        """Makes a channel and its topic."""
        self.kafka.named(cluster).create_topic(ChannelId.parse(name).topic("braid."), partitions, 1, {})
        self.registry.set(name, partitions, cluster, state)

    async def replica(self, instance: str, **settings: float) -> Replica:
        """Starts a replica and waits until it serves."""
        process = self._process(instance)
        process.on_kill(lambda: self.network.kill(instance))
        store = MemoryStore(process.host, self.server)
        service = self.registry if instance.startswith("registry") else Assigner(self.kafka, **settings)
        replica = Replica(
            service,
            process.host,
            store,
            MemoryTransport(self.network, instance),
            address=f"{instance}:1",
            instance=instance,
            archive=Archive(self.archives[instance], "memory") if instance in self.archives else None,
        )
        self.processes[instance], self.replicas[instance], self.stores[instance] = process, replica, store
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        return replica

    async def leader(self) -> Replica:
        """Waits until an assigner leads."""
        async with asyncio.timeout(30):
            while True:
                for name, replica in self.replicas.items():
                    if name.startswith("assigner") and self.processes[name].alive and replica.leading():
                        return replica
                await self.host.clock.sleep(0.005)

    def client(self, process: str, service: str = "assigner", identity: str = "") -> ServiceClient:
        """A client of the assigners in a process of that name, with a certificate for an identity or without one."""
        transport = MemoryTransport(self.network, process, identity)
        directory = Directory(transport, self.host, [f"{name}:1" for name in self.replicas])
        return ServiceClient(directory, service, self.host)

    def state(self, group: str = "indexer") -> Group:
        """The group as the most recent live assigner knows it."""
        alive = [r for n, r in self.replicas.items() if n.startswith("assigner") and self.processes[n].alive]
        newest = max(alive, key=lambda replica: replica.aggregates.revision)
        return newest.aggregates.state(GROUPS, group)

    async def events(self, group: str = "indexer") -> list[Event]:
        """The group's whole history."""
        loaded = self.server.load(HistoryId("assigner", GROUPS.name, group))
        return [GROUPS.codec.decode(data)[0] for data in loaded.events]

    async def joined(self, count: int, *, lease_ms: int = 3_000, exclusive: bool = False) -> "list[Participant]":
        """Members web-1 … web-count, once everything is held and nothing moves."""
        made = [
            Participant(self, f"web-{number}", lease_ms=lease_ms, exclusive=exclusive) for number in range(1, count + 1)
        ]
        await self.settled(count)
        return made

    async def settled(self, members: int, partitions: int | None = None) -> float:
        """Waits until that many members hold everything, as they know themselves; returns the seconds it took."""
        return await self.until(lambda: self.settled_now(members, partitions))

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> float:
        """Waits until a condition holds; returns the seconds it took, to a millisecond."""
        started = self.host.clock.elapsed()
        async with asyncio.timeout(seconds):
            while not condition():
                await self.host.clock.sleep(0.001)
        return self.host.clock.elapsed() - started

    def settled_now(self, members: int, partitions: int | None = None) -> bool:
        """Whether that many members hold everything, evenly, as they know themselves."""
        live = [each for each in self.participants if each.alive]
        counts = [len(each.holds) for each in live]
        consumable = {"ACTIVE", "DRAINING"}
        total = (
            partitions
            if partitions is not None
            else sum(
                channel.partitions
                for channel in self.registry.channels.values()
                if stream_pb2.ChannelState.Name(channel.state).removeprefix("CHANNEL_STATE_") in consumable
                and channel.lane != "dlq"
            )
        )
        even = len(live) == members and sum(counts) == total and max(counts, default=0) - min(counts, default=0) <= 1
        held = [lease for each in live for lease in each.holds]
        return even and len(set(held)) == len(held) and len(self.state().members) == members


class Participant:
    """A member with the SDK's lease session; its handling of a record is instantaneous."""

    LEASE_MS = 3_000  # unless something else is asked for; 0 leaves it to the assigner

    process: VirtualProcess
    assigner: ServiceClient
    heartbeats: Heartbeats

    def __init__(
        self,
        mesh: Mesh,
        client_id: str,
        *,
        group: str = "indexer",
        lease_ms: int = 0,
        exclusive: bool = False,
        start: group_pb2.StartPosition | None = None,
        drain_seconds: float = 0.01,
        fenced: bool = False,
        handlers: tuple[int, int] | None = None,
        beside: "Participant | None" = None,
        process: str = "",
        identity: str = "",
    ) -> None:
        """`beside` names one whose process this member shares; else its process is called `process`, or as it is.

        `handlers` are how many it divides as it is told, and how many at most.
        """
        self.mesh = mesh
        self.client_id = client_id
        self.holds: dict[LeaseId, OwnedLease] = {}
        self.lent_generations: dict[str, list[Generation]] = {}
        self.refusals: list[BraidError] = []
        self.divisions: list[join_pb2.WorkDivision] = []
        self.drain_seconds = drain_seconds
        ownership = group_pb2.OWNERSHIP_EXCLUSIVE if exclusive else group_pb2.OWNERSHIP_AT_LEAST_ONCE
        lease_ms = lease_ms or self.LEASE_MS
        spec = group_pb2.GroupSpec(streams=["logs"], ownership=ownership, lease_ms=lease_ms, start=start)
        hello = join_pb2.MemberHello(protocol_version=1, group=group, spec=spec, client_id=client_id, zone="a")
        hello.capabilities.extend(["beats", "queued"])
        if fenced:
            hello.capabilities[:] = CAPABILITIES
            hello.spec.fencing = group_pb2.FENCING_GENERATION
        _declare(hello, handlers)
        self.unreachable: list[str] = []
        self.loads: list[join_pb2.LeaseLoad] = []
        if beside is None:
            self._begin(mesh, process or client_id, identity)
        else:
            self.process, self.assigner, self.heartbeats = beside.process, beside.assigner, beside.heartbeats
        host, beats, loads = self.process.host, self.heartbeats, self._loads
        self.session = LeaseSession(
            host, self.assigner, hello, self, loads=loads, exclusive=exclusive, heartbeats=beats
        )
        self.process.tasks.spawn(self.session.run(), "session")
        self.process.tasks.spawn(self.session.guard(), "guard")
        mesh.participants.append(self)

    def _begin(self, mesh: Mesh, name: str, identity: str) -> None:
        """A process of its own."""
        self.process = VirtualProcess(running_loop(), name, mesh.seed, on_failure=mesh.failures.append)
        self.process.on_kill(lambda: mesh.network.kill(name))
        seeds = [f"{replica}:1" for replica in mesh.replicas]
        directory = Directory(MemoryTransport(mesh.network, name, identity), self.process.host, seeds)
        self.assigner = ServiceClient(directory, "assigner", self.process.host)
        self.heartbeats = Heartbeats(self.process.host, self.assigner)

    @property
    def alive(self) -> bool:
        """Whether its process lives."""
        return self.process.alive

    def kill(self) -> None:
        """Kills the member's process, as `kill -9` would."""
        for lease in list(self.holds):
            self._note("lost", self.holds.pop(lease))
        self.process.kill()

    def _loads(self) -> join_pb2.Heartbeat:
        return join_pb2.Heartbeat(loads=self.loads, unreachable_clusters=self.unreachable)

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """See `LeaseListener`."""
        for held in leases:
            self.holds[held.id] = held
            self._note("granted", held)

    def lent(self, cluster: str, generation: Generation) -> None:
        """See `LeaseListener`."""
        self.lent_generations.setdefault(cluster, []).append(generation)

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """See `LeaseListener`."""
        self.process.tasks.spawn(self._give_back(lease), "drain")

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """See `LeaseListener`."""
        for held in leases:
            if self.holds.pop(held.id, None):
                self._note("lost", held)

    def resumed(self, lane: str) -> None:
        """See `LeaseListener`."""

    def split(self, asked: join_pb2.SplitBacklog) -> None:
        """See `LeaseListener`."""

    @property
    def divides_work(self) -> bool:
        """See `LeaseListener`."""
        return False

    def work_divided(self, told: join_pb2.WorkDivision) -> None:
        """See `LeaseListener`."""
        self.divisions.append(told)

    def busy(self) -> bool:
        """See `LeaseListener`."""
        return False

    def refused(self, error: BraidError) -> None:
        """See `LeaseListener`."""
        self.refusals.append(error)

    async def _give_back(self, lease: OwnedLease) -> None:
        await self.process.host.clock.sleep(self.drain_seconds)
        if self.holds.get(lease.id) == lease:  # not lost, and not granted anew meanwhile
            del self.holds[lease.id]
            self._note("released", lease)
            await self.session.release(lease.id, lease.epoch)

    def _note(self, what: str, held: OwnedLease) -> None:
        self.mesh.changes.append(Told(self.mesh.host.clock.elapsed(), self.client_id, what, held.id, held.epoch))


def _declare(hello: join_pb2.MemberHello, handlers: tuple[int, int] | None) -> None:
    if handlers is not None:
        hello.capabilities.append(WORK_DIVISION)
        hello.handlers, hello.max_handlers = handlers


class Wire:
    """A Join stream without a lease session."""

    def __init__(self, mesh: Mesh, process: str = "wire", identity: str = "") -> None:
        self.mesh = mesh
        self.client = mesh.client(process, identity=identity)
        self.call: DuplexCall | None = None
        self.sequence = 0

    async def hello(self, **fields: object) -> join_pb2.MemberWelcome:
        """Opens the stream and says hello; returns the welcome."""
        hello = join_pb2.MemberHello(protocol_version=1, group="indexer", client_id="wire", zone="a")
        hello.spec.streams.append("logs")
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(hello, name).extend(value)
            elif name == "spec":
                hello.spec.CopyFrom(value)  # type: ignore[arg-type]  # tests change single fields
            else:
                setattr(hello, name, value)
        await self.send(join_pb2.JoinRequest(hello=hello))
        return (await self.next("welcome")).welcome

    async def send(self, message: join_pb2.JoinRequest) -> None:
        """Sends any message, opening the stream when it is not open."""
        if self.call is None:
            self.call = await self.client.duplex("Join", join_pb2.JoinResponse)
        await self.call.send(message)

    async def next(self, kind: str, seconds: float = 20.0) -> join_pb2.JoinResponse:
        """The next message of a kind, passing over others. Raises what the stream ended with."""
        assert self.call is not None
        async with asyncio.timeout(seconds):
            while True:
                message = await self.call.receive()
                assert isinstance(message, join_pb2.JoinResponse), "the stream ended"
                if message.WhichOneof("message") == kind:
                    return message

    async def beat(self) -> None:
        """Sends a heartbeat."""
        self.sequence += 1
        await self.send(join_pb2.JoinRequest(heartbeat=join_pb2.Heartbeat(sequence=self.sequence)))

    async def give_back(self, leases: Sequence[tuple[str, int]], *, waived: bool = False) -> None:
        """Gives leases back."""
        released = [join_pb2.ReleasedLease(lease=lease, epoch=epoch, commit_waived=waived) for lease, epoch in leases]
        await self.send(join_pb2.JoinRequest(acknowledge=join_pb2.Acknowledge(released=released)))

    async def error(self, seconds: float = 20.0) -> BraidError:
        """The error that ends the stream."""
        try:
            await self.next("nothing", seconds)
        except BraidError as error:
            return error
        raise AssertionError("the stream did not end")


def granted(message: join_pb2.JoinResponse) -> list[tuple[str, int]]:
    """(lease, epoch) of what a delta grants."""
    return [(each.lease, each.epoch) for cluster in message.delta.clusters for each in cluster.granted]


def revoked(message: join_pb2.JoinResponse) -> list[tuple[str, int, int]]:
    """(lease, epoch, deadline) of what a delta revokes."""
    return [(e.lease, e.epoch, e.deadline_ms) for cluster in message.delta.clusters for e in cluster.revoked]
