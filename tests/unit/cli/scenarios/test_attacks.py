"""Attacks on a mesh: each does its harm where access is open and plain, and is refused and recorded by default.

The rows of "Attacks that were played" in `docs/explanation/security.md` are these. `start` makes the same mesh twice:
as `braid dev --insecure` runs one, and as it runs one by default, where the attacker has a certificate and no rights.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.api.dlq.v1 import dead_letter_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.registry.v1 import cluster_pb2, route_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.client.mesh import Mesh
from braid.client.records.record import Record
from braid.kafka.memory.world import MemoryKafka, MemoryProcess
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import AccessDenied
from braid.kernel.ports import Clock, DuplexCall, KafkaCluster, TopicPartition
from braid.runtime.audit.settings import AuditSettings
from services.assigner.domain.admission import GENERATIONS
from tests.unit.cli.access.test_verbs import ANN, ENFORCED
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import TOPIC, consumed, produced, user
from tests.unit.cli.scenarios.test_dead_letters import letter

MALLORY: Final = "spiffe://braid.local/app/mallory"
WEB: Final = "spiffe://braid.local/app/web"
APP: Final = "spiffe://braid.local/app/app"
GRANTS: Final = (
    ("producer", WEB, "stream/logs"),
    ("consumer", APP, "stream/logs"),
    ("consumer", APP, "group/g"),
)
HOSTS: Final = 3  # that complain: as many as outweigh the registry's own probe
COMPLAINTS: Final = 40  # of each of them, four a second


class Attack(NamedTuple):
    """A harm, how it is done, and by which method it is refused first.

    Attributes:
        harm: In a few words.
        rpc: The method whose refusal is recorded.
        play: Does it with a connection of the attacker's, and adds the loot; raises `AccessDenied` if it is refused.
        done: Whether the harm is done, as the mesh or the loot shows.
    """

    harm: str
    rpc: str
    play: Callable[[Mesh, list[object]], Awaitable[None]]
    done: Callable[[Shell, Sequence[object]], Awaitable[bool]]


class ProfiledProcess(MemoryProcess):
    """A process with a security profile, which notes the addresses that its password is sent to."""

    def __init__(self, world: MemoryKafka, clock: Clock, sent: list[str]) -> None:
        super().__init__(world, clock, None)
        self._sent = sent

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """See `Kafka.cluster`."""
        if security_profile:
            self._sent.append(bootstrap)
        return super().cluster(bootstrap, "")

    def check_profile(self, bootstrap: str, security_profile: str) -> Sequence[str]:
        """See `Kafka.check_profile`. The profile names no hosts, so it may be sent to any."""
        return ()


class ProfiledKafka(MemoryKafka):
    """Clusters in memory, used by services that have a security profile."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.passwords_sent_to: list[str] = []

    def process(self) -> MemoryProcess:
        """Returns the view of one service."""
        return ProfiledProcess(self, self.clock, self.passwords_sent_to)


async def start(secure: bool) -> Shell:
    """A mesh with two clusters, a stream with records, a group with progress, and a dead letter."""
    shell = Shell()
    shell.kafka = ProfiledKafka(shell.me.host.clock)
    shell.audit = AuditSettings()
    if secure:
        shell.access = ENFORCED
        services = {name: f"spiffe://braid.local/service/{name}" for name in ("registry-0", "assigner-0", "dlq-0")}
        shell.principals |= {"cli": ANN, "mallory": MALLORY, "web": WEB, "app": APP, **services}
    await shell.start("east", "west")
    shell.kafka.add_cluster("evil")
    await shell.replica("dlq-0")
    shell.dlq.contents = [letter(5)]
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    for role, principal, resource in GRANTS if secure else ():
        assert (await shell.braid("grant", role, "--to", principal, "--on", resource)).code == 0
    await asyncio.sleep(2.0)
    await produced(shell, b"1", b"2", b"3")
    await consumed(shell, 3)
    return shell


@contextlib.asynccontextmanager
async def member(shell: Shell) -> AsyncIterator[None]:
    """A member of the group, which holds its lease."""

    async def handle(record: Record) -> None: ...

    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="g") as consumer:
        running = asyncio.ensure_future(consumer.run(handle))
        await asyncio.sleep(2.0)
        yield
    await running


async def received(call: DuplexCall, kind: str) -> join_pb2.JoinResponse:
    """The next message of a kind on a member's stream."""
    while True:
        message = await call.receive()
        assert isinstance(message, join_pb2.JoinResponse), "the stream ended"
        if message.WhichOneof("message") == kind:
            return message


async def refusals(shell: Shell) -> list[str]:
    """Methods that the attacker was refused, as `braid events` lists them."""
    listed = await shell.braid("events", "--refused", "--actor", MALLORY, "-o", "json")
    return [each["rpc"] for each in json.loads(listed.out)["items"]]


async def delete_a_stream(mesh: Mesh, loot: list[object]) -> None:
    request = registry_api.DeleteStreamRequest(name="logs")
    await mesh.service("registry").unary("DeleteStream", request, stream_pb2.Stream)


async def is_deleted(shell: Shell, loot: Sequence[object]) -> bool:
    return "stream/logs" not in (await shell.braid("get", "streams", "-o", "name")).out


async def reset_progress(mesh: Mesh, loot: list[object]) -> None:
    to = group_pb2.StartPosition(earliest=True)
    request = assigner_api.ResetProgressRequest(group="g", stream="logs", to=to)
    await mesh.service("assigner").unary("ResetProgress", request, assigner_api.ResetProgressResponse)


async def is_reset(shell: Shell, loot: Sequence[object]) -> bool:
    place = TopicPartition(TOPIC, 0)
    return (await shell.kafka.cluster("east:9092", "").offsets().committed("g", [place]))[place].offset == 0


async def move_traffic(mesh: Mesh, loot: list[object]) -> None:
    request = registry_api.MoveStreamRequest(stream="logs", to_cluster="west")
    await mesh.service("registry").unary("MoveStream", request, registry_api.MoveStreamResponse)


async def is_moved(shell: Shell, loot: Sequence[object]) -> bool:
    return any("west" in line and "ACTIVE" in line for line in (await shell.braid("get", "channels")).out.splitlines())


async def read_a_dead_letter(mesh: Mesh, loot: list[object]) -> None:
    request = dlq_api.GetDeadLetterRequest(name="logs/1/0/5")
    found = await mesh.service("dlq").unary("GetDeadLetter", request, dead_letter_pb2.DeadLetterContent)
    loot.append(found.value)


async def is_read(shell: Shell, loot: Sequence[object]) -> bool:
    return b"hello" in loot


async def take_a_members_leases(mesh: Mesh, loot: list[object]) -> None:
    """Joins the group, and drains every other member of it."""
    call = await mesh.service("assigner").duplex("Join", join_pb2.JoinResponse)
    hello = join_pb2.MemberHello(protocol_version=1, capabilities=[GENERATIONS], group="g", client_id="mallory")
    hello.spec.streams.append("logs")
    await call.send(join_pb2.JoinRequest(hello=hello))
    welcome = await received(call, "welcome")
    assigner = mesh.service("assigner")
    listed = await assigner.unary(
        "ListMembers", assigner_api.ListMembersRequest(group="g"), assigner_api.ListMembersResponse
    )
    for each in listed.members:
        if each.id != welcome.welcome.member_id:
            drain = assigner_api.DrainMemberRequest(group="g", member=each.id, drained=True)
            await assigner.unary("DrainMember", drain, group_pb2.Group)
    delta = await received(call, "delta")
    loot.extend(lease.lease for cluster in delta.delta.clusters for lease in cluster.granted)


async def are_taken(shell: Shell, loot: Sequence[object]) -> bool:
    return "logs/live/1/0" in loot


async def invent_complaints(mesh: Mesh, loot: list[object]) -> None:
    """Complains of the stream's cluster, again and again, in the name of several hosts."""
    calls = [await producer(mesh, f"host-{number}") for number in range(HOSTS)]
    for _ in range(COMPLAINTS):
        for call in calls:
            errors = route_pb2.SendErrors(cluster="east", channel="logs/live/1", count=1, reason="a lie")
            await call.send(route_pb2.WatchRoutesRequest(send_errors=errors))
        await asyncio.sleep(0.25)


async def producer(mesh: Mesh, host: str) -> DuplexCall:
    """A producer's session, of any host that the attacker names, once it has its route."""
    call = await mesh.service("registry").duplex("WatchRoutes", route_pb2.WatchRoutesResponse)
    hello = route_pb2.ProducerHello(
        protocol_version=1, capabilities=[KNOWS_DENIALS], producer_id=host, stream="logs", host=host
    )
    await call.send(route_pb2.WatchRoutesRequest(hello=hello))
    while True:
        message = await call.receive()
        assert isinstance(message, route_pb2.WatchRoutesResponse), "the stream ended"
        if message.HasField("route"):
            return call


async def are_down(shell: Shell, loot: Sequence[object]) -> bool:
    return "DOWN" in (await shell.braid("get", "clusters")).out


async def have_a_password_sent(mesh: Mesh, loot: list[object]) -> None:
    """Registers a broker of the attacker's own under the name of the services' security profile."""
    spec = cluster_pb2.ClusterSpec(bootstrap="evil:9092", security_profile="vault")
    request = registry_api.CreateClusterRequest(name="evil", spec=spec)
    await mesh.service("registry").unary("CreateCluster", request, cluster_pb2.Cluster)


async def is_sent(shell: Shell, loot: Sequence[object]) -> bool:
    assert isinstance(shell.kafka, ProfiledKafka)
    return "evil:9092" in shell.kafka.passwords_sent_to


ATTACKS: Final = (
    Attack("a stream is deleted", "DeleteStream", delete_a_stream, is_deleted),
    Attack("progress is reset", "ResetProgress", reset_progress, is_reset),
    Attack("traffic is moved", "MoveStream", move_traffic, is_moved),
    Attack("a dead letter is read", "GetDeadLetter", read_a_dead_letter, is_read),
    Attack("leases are taken", "Join", take_a_members_leases, are_taken),
    Attack("a cluster is brought down", "WatchRoutes", invent_complaints, are_down),
    Attack("a password is sent", "CreateCluster", have_a_password_sent, is_sent),
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.rpc)
def test_an_attack_does_its_harm_in_a_plaintext_mesh(attack: Attack) -> None:
    @virtual
    async def scenario() -> None:
        shell, loot = await start(secure=False), list[object]()
        async with member(shell) if attack.rpc == "Join" else contextlib.nullcontext(), user(shell, "mallory") as mesh:
            assert not await attack.done(shell, loot), "nothing is done yet"
            await attack.play(mesh, loot)
            await asyncio.sleep(2.0)
            assert await attack.done(shell, loot)

    scenario()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.rpc)
def test_an_attack_is_refused_and_recorded_by_default(attack: Attack) -> None:
    @virtual
    async def scenario() -> None:
        shell, loot = await start(secure=True), list[object]()
        async with member(shell) if attack.rpc == "Join" else contextlib.nullcontext(), user(shell, "mallory") as mesh:
            with pytest.raises(AccessDenied, match=MALLORY):
                await attack.play(mesh, loot)
            await asyncio.sleep(2.0)
            assert attack.rpc in await refusals(shell)
            assert not await attack.done(shell, loot)

    scenario()
