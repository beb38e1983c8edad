"""The four services in one process on virtual time, with a stream, groups, members and dead letters to call them about.

What dies or is logged as an error of the program is kept, not raised: a caller is blamed for it later.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from braid.api.assigner.v1 import assigner_service_pb2, group_pb2, join_pb2
from braid.api.registry.v1 import approval_pb2, route_pb2, witness_pb2
from braid.archive.memory import MemoryArchive
from braid.client.membership.lease_session import CAPABILITIES
from braid.kafka.memory import MemoryProcess
from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.errors import ApprovalRequired, BraidError
from braid.kernel.ports import CallOptions, RpcChannel
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from braid.runtime.access.settings import AccessSettings
from braid.runtime.archive.serving import Archive
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from services.lagmon.servicer.service import Lagmon
from tests.simulation.fuzzing.values import Names
from tests.support.virtual_time import VirtualProcess, VirtualTimeLoop, running_loop
from tests.unit.dlq.mesh import Mesh

SERVING: Final = {"registry": "registry-0", "assigner": "assigner-0", "dlq": "dlq-0", "lagmon": "lagmon-0"}
STREAMS: Final = ("logs", "orders", "clicks")
GROUPS: Final = ("indexer", "billing")
LETTERS: Final = 5
STRANGER: Final = "spiffe://braid.local/app/stranger"


class FuzzedLoop(VirtualTimeLoop):
    """A loop that keeps what asyncio would log; the run goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def fail(self, error: BaseException) -> None:
        """See the class."""
        self.errors.append(error)


class ErrorLog(logging.Handler):
    """Keeps what the services log with an exception that is none of Braid's own."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        facts = record.msg if isinstance(record.msg, Mapping) else {}
        told = record.exc_info or facts.get("exc_info")
        error = told[1] if isinstance(told, tuple) else told
        if isinstance(error, BaseException) and not isinstance(error, BraidError | OSError):
            self.errors.append(error)


class FuzzedMesh(Mesh):
    """A mesh to be called by strangers. Clusters east and west; what else there is stands in `names`."""

    services: dict[str, Service]

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self.services = {}
        self.replays: Sequence[str] = ()
        self.approvals: Sequence[str] = ()
        self.log = ErrorLog()
        self.access = AccessSettings(admins=(STRANGER,))
        self.archive = Archive(MemoryArchive(), "memory")
        self.kafka.add_cluster("north")
        for name in ("east", "west", "north"):
            self.kafka.named(name).create_topic(OFFSETS_TOPIC, 2, 1, {})

    async def start(self) -> "FuzzedMesh":
        """Starts everything, and makes what calls are about."""
        await super().start()
        await self.run_service(SERVING["lagmon"])
        for stream in STREAMS[1:]:
            await self.create(stream, "live", "bulk")
        assigner = self.client.service("assigner")
        for group in GROUPS:
            spec = group_pb2.GroupSpec(streams=["logs", "orders"])
            request = assigner_service_pb2.CreateGroupRequest(name=group, spec=spec)
            await assigner.unary("CreateGroup", request, group_pb2.Group)
        await self.park(LETTERS)
        self.replays = ((await self.replay()).id,)
        self.approvals = (await self._waiting(),)
        await self.host.clock.sleep(2.0)
        return self

    async def _waiting(self) -> str:
        """Has a deletion of the stranger wait for a second person. Returns the approval's id."""
        policy = approval_pb2.ApprovalPolicySpec(
            verbs=[approval_pb2.GUARDED_VERB_DELETE_GROUP], resource="group/billing"
        )
        request = approval_pb2.SetApprovalPolicyRequest(name="waiting", spec=policy)
        options = CallOptions(30.0)
        path = method_path("registry", "SetApprovalPolicy")
        await self.channel("registry").unary(path, request, approval_pb2.ApprovalPolicy, options)
        await self.host.clock.sleep(1.0)
        delete = assigner_service_pb2.DeleteGroupRequest(name="billing")
        path = method_path("assigner", "DeleteGroup")
        try:
            await self.channel("assigner").unary(path, delete, group_pb2.Group, options)
        except ApprovalRequired as error:
            return error.metadata["approval"]
        raise AssertionError("it was deleted by one person")

    def channel(self, service: str) -> RpcChannel:
        """A connection of a stranger to the leader of a service, in the form of a process of its own."""
        return MemoryTransport(self.network, "stranger", STRANGER).channel(self.address(service))

    def address(self, service: str) -> str:
        """The address of the replica that leads a service."""
        leader = self.leader() if service == "dlq" else ""
        return f"{leader or SERVING[service]}:1"

    def errors(self) -> list[BaseException]:
        """Takes what went wrong since it was asked last."""
        loop = running_loop()
        assert isinstance(loop, FuzzedLoop)
        found = [*loop.errors, *self.failures, *self.log.errors]
        for each in (loop.errors, self.failures, self.log.errors):
            each.clear()
        return found

    async def twin(self, service: str) -> Replica:
        """Another replica of a service that reads the same store from the beginning."""
        name = f"{service}-9"
        process = VirtualProcess(running_loop(), name, self.seed)
        replica = Replica(
            self._service(name, self.kafka.process()),
            process.host,
            MemoryStore(process.host, self.server),
            MemoryTransport(self.network, name),
            address=f"{name}:1",
            instance=name,
        )
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        return replica

    async def close(self) -> None:
        """Ends the client; processes end with their loop."""
        await asyncio.wait_for(self.client.__aexit__(None, None, None), 10.0)

    def _service(self, name: str, kafka: MemoryProcess) -> Service:
        service = Lagmon(kafka) if name.startswith("lagmon") else super()._service(name, kafka)
        self.services[name] = service
        return service


def names(replays: Sequence[str], approvals: Sequence[str]) -> Names:
    """Returns the names that exist in a `FuzzedMesh` with these replays and approvals, by the fields that name it."""
    channels = [f"logs/{lane}/{number}" for lane in ("live", "dlq") for number in (1, 2)]
    channels += ["orders/live/1", "orders/bulk/1"]
    clusters, members = ("east", "west", "north"), ("member-1", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "ada")
    leases = [f"{channel}/0" for channel in channels]
    streams, groups, lanes = (*STREAMS, "fresh"), (*GROUPS, "fresh"), ("live", "bulk", "dlq")
    paths = ("logs", "logs/live", *channels, *leases)
    letters = ("braid.logs.dlq.1/0/0", "east/braid.logs.dlq.1/0/0", "logs/1/0/0", "logs/dlq/1/0/0")
    histories = (
        "",
        "stream",
        "stream/logs",
        "cluster/east",
        "group/indexer",
        "replay",
        "registry/stream/logs",
        "dlq/replay/x",
    )
    by_field: dict[str, Sequence[object]] = {
        **_PLAIN,
        **dict.fromkeys(("stream", "streams"), streams),
        **dict.fromkeys(("group", "groups"), groups),
        **dict.fromkeys(("lane", "lanes", "stopped"), lanes),
        **dict.fromkeys(
            ("cluster", "clusters", "to_cluster", "away_from_cluster", "lost_clusters", "unreachable_clusters"),
            clusters,
        ),
        **dict.fromkeys(("channel", "channels"), channels),
        **dict.fromkeys(("lease",), leases),
        **dict.fromkeys(("member", "members", "member_id", "client_id", "leaving_members", "capacities"), members),
        "path": paths,
        "history": histories,
        "id": (*replays, "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    }
    by_message: dict[str, Sequence[object]] = {
        **{f"{verb}ClusterRequest.name": clusters for verb in _VERBS},
        **{f"{verb}StreamRequest.name": streams for verb in _VERBS},
        **{f"{verb}GroupRequest.name": groups for verb in _VERBS},
        "GetDeadLetterRequest.name": letters,
        "ClustersRead.names": clusters,
        "DecideApprovalRequest.id": approvals,
        "DeleteApprovalPolicyRequest.name": ("waiting", "careful"),
        "DeleteTenantRequest.name": ("acme",),
        "LiftRevocationRequest.identity": ("dns:eve",),
    }
    return Names(by_field, by_message)


_PLAIN: Final[Mapping[str, Sequence[object]]] = {
    "bootstrap": ("east:9092", "west:9092", "north:9092"),
    "topic": ("braid.logs.live.1", "braid.orders.live.1"),
    "etag": ("", "1", "2"),
    "page_token": ("", "logs", "stream/logs:1", "indexer"),
    "page_size": (0, 1, 10),
    "protocol_version": (1,),
    "capabilities": CAPABILITIES,
    "principal": ("dns:ada", "spiffe://braid.local/app/me"),
    "role": ("viewer", "producer", "operator", "admin"),
    "action": ("view", "produce", "move"),
    "partitions": (1, 2, 3),
    "retention_hours": (0, 24),
    "max_record_bytes": (0, 1 << 20),
    "replication_factor": (0, 1),
    "filter": ("", "group = 'indexer'", "lane = 'live' and partition = 0"),
    "topic_config": ("min.insync.replicas", "segment.bytes", "compression.type", "x"),
    "at_ms": (0, 1_767_225_601_000),
    "lease_ms": (0, 10_000),
    "ticket": (1, 2),
    "tickets": (1, 2),
    "sequence": (1, 2, 3),
}
_VERBS: Final = ("Get", "Create", "Update", "Delete", "Cordon", "Decommission")


def hellos(number: int) -> Mapping[str, object]:
    """By duplex method, a first message that is accepted."""
    member = join_pb2.MemberHello(
        protocol_version=1,
        capabilities=CAPABILITIES,
        group=GROUPS[number % 2],
        spec=group_pb2.GroupSpec(streams=["logs", "orders"]),
        client_id=f"client-{number}",
        zone="east",
        capacity=1.0,
    )
    producer = route_pb2.ProducerHello(
        protocol_version=1, producer_id=f"producer-{number}", client_id="ada", zone="east", stream="logs"
    )
    witness = witness_pb2.WitnessHello(
        protocol_version=1, client_id="ada", host="ada", clusters=witness_pb2.ClustersRead(names=["east"])
    )
    return {
        "Join": join_pb2.JoinRequest(hello=member),
        "WatchRoutes": route_pb2.WatchRoutesRequest(hello=producer),
        "WatchClusters": witness_pb2.WatchClustersRequest(hello=witness),
    }
