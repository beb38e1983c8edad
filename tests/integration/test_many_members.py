"""A thousand members on one real assigner over real gRPC, their heartbeats together by connection; and a rude client.

No Kafka: the group's channel appears after its registration, so that no start is to be written.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import beat_pb2, group_pb2, join_pb2
from braid.host.system import system_host
from braid.kernel.errors import BraidError, Exhausted, Unavailable
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.members.many_members import Members
from testbed.patience import until

ROOT = Path(__file__).parents[2]
MEMBERS, CONNECTIONS = 1_000, 10


class Edge:
    """An assigner and a registry as processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.told = directory / "channels.json"
        self.started: list[asyncio.subprocess.Process] = []
        self.host = system_host()
        self.address = ""
        self.directories: list[Directory] = []

    def tell(self, state: str) -> None:
        """Sets the registry's description of the channel."""
        part = self.told.with_suffix(".part")
        part.write_text(json.dumps([{"name": "logs/live/1", "partitions": MEMBERS, "state": state}]))
        part.replace(self.told)

    async def service(self, instance: str, module: str) -> str:
        """Starts a process; returns its address."""
        ready = self.directory / f"{instance}.json"
        settings = {"STORE": f"sqlite://{self.directory}/store.db", "INSTANCE": instance, "READY_FILE": str(ready)}
        settings["TOLD_CHANNELS"] = str(self.told)
        with (self.directory / f"{instance}.err").open("w") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module),
                cwd=ROOT,
                env={**os.environ, **{f"BRAID_{name}": value for name, value in settings.items()}},
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )
        self.started.append(process)
        await until(ready.exists, (self.directory / f"{instance}.err").read_text, 60.0)
        return str(json.loads(ready.read_text())["address"])

    def client(self) -> ServiceClient:
        """A client on a connection of its own."""
        self.directories.append(Directory(GrpcTransport(), self.host, [self.address]))
        return ServiceClient(self.directories[-1], "assigner", self.host)

    async def close(self) -> None:
        """Ends everything."""
        for directory in self.directories:
            await directory.close()
        for process in self.started:
            process.kill()
            await process.wait()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    """With the members' group registered."""
    made = Edge(tmp_path)
    try:
        made.tell("STANDBY")
        await made.service("registry-0", "testbed.members.told_registry")
        made.address = await made.service("assigner-0", "services.assigner")
        spec = group_pb2.GroupSpec(streams=["logs"], fencing=group_pb2.FENCING_NONE)
        request = api.CreateGroupRequest(name="group-0", spec=spec)
        await made.client().unary("CreateGroup", request, group_pb2.Group, timeout_seconds=20)
        yield made
    finally:
        await made.close()


async def ended(client: ServiceClient, method: str, messages: list[object], answer: type) -> BraidError:
    """The error that ends a stream that sends these messages, whatever it receives."""
    call = await client.duplex(method, answer)

    async def listen() -> BraidError:
        try:
            while await call.receive() is not None:
                pass
        except BraidError as error:
            return error
        raise AssertionError("the stream ended well")

    listening = asyncio.ensure_future(listen())
    try:
        for message in messages:
            await call.send(message)
    except BraidError:
        pass  # it is over already
    async with asyncio.timeout(30.0):
        return await listening


def hello(client_id: str) -> join_pb2.JoinRequest:
    """The hello of a member over a bare stream."""
    said = join_pb2.MemberHello(protocol_version=1, group="group-0", client_id=client_id, capabilities=["beats"])
    return join_pb2.JoinRequest(hello=said)


@pytest.mark.real
@pytest.mark.timeout(240)
async def test_a_thousand_members_beat_together_whatever_one_does(edge: Edge) -> None:
    members = Members(edge.address, CONNECTIONS, shared=True)
    try:
        members.join(MEMBERS, 1)
        await until(lambda: members.carried == MEMBERS, lambda: str(members.counts.welcomed), 90.0)
        edge.tell("ACTIVE")
        await until(lambda: members.counts.granted == MEMBERS, lambda: str(members.counts.granted), 30.0)
        members.take()
        process = psutil.Process(edge.started[-1].pid)
        before = process.cpu_times()
        await until(lambda: members.counts.heartbeats > 6 * MEMBERS, lambda: str(members.counts), 30.0)
        after, beaten = process.cpu_times(), members.counts.heartbeats
        cpu = after.user + after.system - before.user - before.system
        print(f"{beaten} heartbeats cost the assigner {cpu:.2f} s of CPU: {cpu / beaten * 1e6:.0f} µs each")
        assert cpu / beaten < 60e-6, "a heartbeat on a stream of its own costs about twice that"

        await rude(edge)
        await until(lambda: members.counts.heartbeats > beaten + 4 * MEMBERS, lambda: str(members.counts), 30.0)
        seen = members.take()
        assert (seen.again, seen.lost, seen.refused) == (0, 0, []), "neighbours of a rude client lost something"
        assert all(session.attached for session in members.sessions)
    finally:
        await members.close()


async def rude(edge: Edge) -> None:
    """Floods, messages that are too large, heartbeats of nobody: each has its error."""
    beats = [join_pb2.JoinRequest(heartbeat=join_pb2.Heartbeat(sequence=n)) for n in range(5_000)]
    flood = await ended(edge.client(), "Join", [hello("flood"), *beats], join_pb2.JoinResponse)
    assert isinstance(flood, Exhausted | Unavailable), "who writes on while it ends may miss why"

    many = [beat_pb2.BeatRequest(sequence=n, tickets=[1, 2, 3]) for n in range(1, 5_000)]
    flood = await ended(edge.client(), "Beat", [*many], beat_pb2.BeatResponse)
    assert isinstance(flood, Exhausted | Unavailable)

    load = join_pb2.LeaseLoad(lease="x" * 10_000_000)
    large = join_pb2.JoinRequest(heartbeat=join_pb2.Heartbeat(sequence=1, loads=[load]))
    refused = await ended(edge.client(), "Join", [hello("large"), large], join_pb2.JoinResponse)
    assert isinstance(refused, Exhausted)
    assert "10000" in refused.message

    larger = join_pb2.LeaseLoad(lease="x" * (17 << 20))
    news = beat_pb2.MemberNews(ticket=1, loads=[larger])
    call = ended(edge.client(), "Beat", [beat_pb2.BeatRequest(sequence=1, news=[news])], beat_pb2.BeatResponse)
    assert isinstance(await call, BraidError)

    stream = await edge.client().duplex("Beat", beat_pb2.BeatResponse)
    await stream.send(beat_pb2.BeatRequest(sequence=1, tickets=[7, 8]))
    answer = await stream.receive()
    assert isinstance(answer, beat_pb2.BeatResponse)
    assert list(answer.unheard) == [7, 8], "nobody has these tickets"
    await stream.close()
