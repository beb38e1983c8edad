"""The mesh of a run: two registries, two assigners, three members, two producers, two or three clusters, one store.

In runs with replays two dlq services besides.

Everything is the real code over twins in memory on one virtual clock. Here processes start and end; what befalls them
is `faults`' business, what must hold is the checkers'.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Final

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.archive.memory import MemoryArchive
from braid.client.mesh import Mesh
from braid.kafka.memory import MemoryProcess
from braid.kernel.errors import BraidError
from braid.kernel.ports import HistoryId
from braid.rpc.authenticators import CertificateOrToken
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.tokens import MemoryTokens
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.access.settings import AccessSettings
from braid.runtime.archive.serving import Archive
from braid.runtime.histories.kinds import AnyKind, Change, Reloaded
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from services.assigner.servicer.service import Assigner
from services.registry.service import RegistryService
from services.registry.term import Tuning
from testbed.checkers import facts
from tests.simulation.applications import STREAM, Member, ProducerApplication
from tests.simulation.approving import AUTHOR
from tests.simulation.crowding import ADMIN
from tests.simulation.false_reports import FOREIGN
from tests.simulation.flooding import LANE, Flood
from tests.simulation.histories import KINDS, Histories
from tests.simulation.journal import Journal
from tests.simulation.lying import HOSTILE, Liar, fresh_token, identity_of
from tests.simulation.observed import ObservedKafka, ObservedStore, ObservedStoreServer
from tests.simulation.plan import Plan
from tests.simulation.replaying import ObservedDlq
from tests.support.virtual_time import VirtualProcess, VirtualTimeLoop

SERVICES: Final = ("registry-0", "registry-1", "assigner-0", "assigner-1")
MEMBERS: Final = ("member-0", "member-1", "member-2")
PRODUCERS: Final = ("producer-0", "producer-1")
DLQS: Final = ("dlq-0", "dlq-1")  # in a run with replays
FLOOD: Final = "flood-0"  # in a run with one
TOKEN_HOLDERS: Final = ("member-1", "producer-1")  # in a run with a hostile caller
LANES: Final = {"live": 3, "bulk": 2, "dlq": 1}
ENDPOINTS: Final = tuple(f"{name}:1" for name in SERVICES)
TUNING: Final = Tuning(producer_session_seconds=6.0, probe_interval_seconds=0.25, probe_timeout_seconds=0.75)


@dataclass(frozen=True)
class Slowness:
    """Requests to the store take so many seconds each way, and their answers too."""

    concerned: Callable[[str], bool]
    seconds: float


@dataclass
class Running:
    """One life of one process, and what it uses of the world."""

    process: VirtualProcess
    kafka: MemoryProcess
    store: ObservedStore | None = None
    replica: Replica | None = None
    member: Member | None = None
    producer: ProducerApplication | None = None
    slow: list[Slowness] = field(default_factory=list)


class World:
    """The processes of one run.

    Attributes:
        quiet: Nothing more is to be sent.
        flooded: Whether a flood has begun, and whether it is over.
        running: The newest life of each process, dead or alive.
        stopped: Processes that nothing may start.
        archives: Of the services' processes by name, where the plan has any: disks, which outlive them.
    """

    def __init__(self, loop: VirtualTimeLoop, plan: Plan, journal: Journal) -> None:
        self.plan = plan
        self.journal = journal
        self.quiet = False
        self.flooded = (False, False)
        self.running: dict[str, Running] = {}
        self.stopped: frozenset[str] = frozenset()
        self.archives: dict[str, MemoryArchive] = {}
        self._loop = loop
        self._lives: dict[str, int] = {}
        self._encoded: dict[HistoryId, tuple[object, bytes]] = {}
        self._network = copy_context()  # of no process
        self._me = VirtualProcess(loop, "world", plan.seed)
        self.host = self._me.host
        self.histories = Histories(journal, self._refuses)
        self.server = ObservedStoreServer(self.host.clock, journal, self.histories.appended)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.kafka = ObservedKafka(
            self.host.clock,
            journal,
            latency=lambda: self.host.randomness.uniform(0.0002, 0.002),
            lag=lambda: max(0.0, self.host.randomness.uniform(-0.5, 1.0)),
        )
        for name in (*plan.clusters, *((FOREIGN,) if plan.hostile else ())):
            made = self.kafka.add_cluster(name, brokers=plan.brokers)
            made.groups.metadata_max_units = plan.metadata_units or made.groups.metadata_max_units
        self.tokens = MemoryTokens(self.host.clock)
        directory = Directory(self._transport("operator"), self.host, ENDPOINTS)
        self.registry = ServiceClient(directory, "registry", self.host, principal="operator")
        self.assigner = ServiceClient(directory, "assigner", self.host, principal="operator")
        self.dlq = ServiceClient(directory, "dlq", self.host, principal="operator")

    # --- starting

    async def start(self) -> None:
        """Starts everything, and declares clusters and stream."""
        for name in SERVICES:
            self.start_process(name)
        for name in self.plan.clusters:
            health = cluster_pb2.HealthThresholds(**self.plan.thresholds) if self.plan.thresholds else None
            spec = cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092", zone=name, health=health)
            await self.registry.unary(
                "CreateCluster", api.CreateClusterRequest(name=name, spec=spec), cluster_pb2.Cluster
            )
        if self.plan.hostile:
            spec = cluster_pb2.ClusterSpec(bootstrap=f"{FOREIGN}:9092", zone=FOREIGN)
            foreign = api.CreateClusterRequest(name=FOREIGN, spec=spec)
            await self.registry.unary("CreateCluster", foreign, cluster_pb2.Cluster)
        partitions = {**LANES, LANE: self.plan.bulk_partitions}
        lanes = {lane: stream_pb2.LaneSpec(partitions=count) for lane, count in partitions.items()}
        declared = stream_pb2.StreamSpec(
            lanes=lanes, clusters=self.plan.clusters, replication_factor=1, ordered=self.plan.ordered
        )
        await self.registry.unary(
            "CreateStream", api.CreateStreamRequest(name=STREAM, spec=declared), stream_pb2.Stream
        )
        more = (*(DLQS if self.plan.replays else ()), *((FLOOD,) if self.plan.flood else ()))
        if self.plan.hostile:
            more = (*more, HOSTILE)
        for name in (*MEMBERS, *PRODUCERS, *more):
            self.start_process(name)

    def start_process(self, name: str) -> None:
        """Begins the process's next life, unless it is alive or stopped."""
        if name in self.stopped or (name in self.running and self.running[name].process.alive):
            return
        life = self._lives[name] = self._lives.get(name, 0) + 1
        process = VirtualProcess(
            self._loop, f"{name}.{life}", self.plan.seed, on_failure=lambda error: self._crashed(name, error)
        )
        if self.plan.one_host and name not in SERVICES:
            process.host = replace(process.host, name="application")
        process.on_kill(lambda: self.network.kill(name))
        running = self.running[name] = Running(process, self.kafka.process())
        self.journal.say(f"START {process.name}")
        match name.partition("-")[0]:
            case "member":
                mates = self.plan.mates if name in MEMBERS[: self.plan.mated] else 0
                running.member = Member(process, self._mesh(name, running), self.journal, self.plan, mates)
                process.tasks.spawn(running.member.run(), "application")
            case "late":
                running.member = Member(process, self._mesh(name, running), self.journal, self.plan, group=name)
                process.tasks.spawn(running.member.run(), "application")
            case "producer":
                running.producer = ProducerApplication(
                    process, self._mesh(name, running), self.journal, self.plan, lambda: self.quiet
                )
                running.producer.voices = self.plan.voices if name == PRODUCERS[0] else 1
                process.tasks.spawn(running.producer.run(), "application")
            case "mallory":
                victims = tuple(identity_of(each, SERVICES) for each in (*SERVICES, *MEMBERS, *PRODUCERS))
                liar = Liar(process, self.network, self.journal, self.tokens, ENDPOINTS, victims, STREAM)
                process.tasks.spawn(liar.run(), "application")
            case "flood":
                running.producer = Flood(
                    process,
                    self._mesh(name, running),
                    self.journal,
                    self.plan,
                    lambda: self.quiet or self.flooded[1],
                    lambda: self.flooded[0],
                    len(PRODUCERS),
                )
                process.tasks.spawn(running.producer.run(), "application")
            case _:
                self._start_service(name, running)

    def _start_service(self, name: str, running: Running) -> None:
        host = running.process.host
        running.store = ObservedStore(host, self.server, self.journal, self._network)
        running.store.latency = lambda operation: self._store_latency(running, operation)
        service = self._service(name, running)
        transport = self._transport(name)
        archive = Archive(self.archives.setdefault(name, MemoryArchive()), name) if self.plan.remembers else None
        access = AccessSettings(admins=(AUTHOR, ADMIN)) if self.plan.approvals or self.plan.tenants else None
        replica = Replica(
            service, host, running.store, transport, address=f"{name}:1", instance=name, archive=archive, access=access
        )
        replica.aggregates.subscribe(lambda change: self._folded(running.process, service.kinds, change))
        running.replica = replica
        running.process.tasks.spawn(replica.run(), "replica")

    def _service(self, name: str, running: Running) -> Service:
        match name.partition("-")[0]:
            case "registry":
                return RegistryService(running.kafka, TUNING)
            case "assigner":
                return Assigner(running.kafka)
            case _:
                service = ObservedDlq(running.kafka, self.journal)
                running.process.on_kill(service.forget)
                return service

    def _store_latency(self, running: Running, operation: str) -> float:
        slow = max((each.seconds for each in running.slow if each.concerned(operation)), default=0.003)
        return self.host.randomness.uniform(slow / 2, slow)

    def _mesh(self, name: str, running: Running) -> Mesh:
        return Mesh(running.process.host, running.kafka, self._transport(name), ENDPOINTS, client_id=name, zone="a")

    def _transport(self, name: str) -> MemoryTransport:
        """The way of a process to others, who know it by its certificate, or some by their tokens."""
        authenticator = CertificateOrToken(self.tokens)
        if self.plan.hostile and name in TOKEN_HOLDERS:
            bearer = fresh_token(self.tokens, name)
            return MemoryTransport(self.network, name, bearer=bearer, authenticator=authenticator)
        identity = identity_of(name, (*SERVICES, *DLQS))
        return MemoryTransport(self.network, name, identity, authenticator=authenticator)

    # --- ending

    def kill(self, name: str) -> None:
        """Kills a process, as `kill -9` would."""
        process = self.running[name].process
        if process.alive:
            self.journal.say(f"KILL {process.name}")
            process.kill()
            self.journal.note(facts.Killed(process.name))

    def _crashed(self, name: str, error: BaseException) -> None:
        """A task died of an error: its process is gone, which no fault of ours may bring about."""
        self.journal.note(facts.Killed(self.running[name].process.name))
        self.journal.fail("no crash", f"{name} died of {type(error).__name__}: {error}")
        self._loop.fail(error)

    # --- looking

    def leader(self, service: str) -> str:
        """The leader of a service, or ''."""
        for name, running in self.running.items():
            if name.startswith(service) and running.process.alive and running.replica and running.replica.leading():
                return name
        return ""

    def alive(self, names: Sequence[str]) -> list[str]:
        """Processes that are alive."""
        return [name for name in names if name in self.running and self.running[name].process.alive]

    def unowned(self) -> list[str]:
        """Leases that should be worked on by exactly one live member, and are not."""
        wanted = {
            f"{channel.id}/{partition}": 0
            for channel in self.histories.in_state("active", "draining")
            if channel.id.lane != "dlq" and channel.id.stream == STREAM
            for partition in range(channel.partitions)
        }
        for name in MEMBERS:
            member = self.running[name].member
            for lease in member.holds() if member else ():
                wanted[lease] = wanted.get(lease, 0) + 1
        return [lease for lease, holders in wanted.items() if holders != 1]

    def unsettled_sends(self) -> list[str]:
        """Producers that wait for the fate of a record."""
        senders = {name: self.running[name].producer for name in (*PRODUCERS, FLOOD) if name in self.running}
        return [name for name, sender in senders.items() if sender is not None and sender.waiting]

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether a condition came true within so many simulated seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self.host.clock.sleep(0.1)
        except TimeoutError:
            return False
        return True

    async def flood(self) -> None:
        """Lane bulk gets many times its records during the second half of the faults."""
        for begins in (True, False):
            await self.host.clock.sleep(self.plan.fault_seconds / 2)
            self.flooded = True, not begins
            self.journal.note(facts.Flooded(LANE, begins))

    async def move(self, cluster: str) -> None:
        """An operator moves the stream's traffic to a cluster, or is refused."""
        request = api.MoveStreamRequest(stream=STREAM, to_cluster=cluster, reason="planned")
        try:
            await self.registry.unary("MoveStream", request, api.MoveStreamResponse)
        except BraidError as error:
            self.journal.say(f"MOVE refused: {error}")

    def _refuses(self, topic: facts.Topic) -> bool:
        return self.kafka.observed[topic.cluster].refuses(topic.name)

    def _folded(self, process: VirtualProcess, kinds: object, change: Change | Reloaded) -> None:
        if isinstance(change, Change):
            state = self._bytes_of(change)
            self.journal.note(facts.Folded(process.name, change.history, change.events[-1].sequence, state))

    def _bytes_of(self, change: Change) -> bytes:
        """The state's bytes; those of the last replica that folded the history when its state was the same."""
        known = self._encoded.get(change.history)
        if known is None or known[0] != change.state:
            kind: AnyKind = KINDS[change.history.service, change.history.kind]
            known = (change.state, kind.erased().codec.encode_state(change.state))
            self._encoded[change.history] = known
        return known[1]
