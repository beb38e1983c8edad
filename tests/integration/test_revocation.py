"""Revoked certificates and removed authorities over real processes: every replica refuses them, and streams end."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.api.mesh.v1.event_pb2 import EventRecord, WatchEventsRequest
from braid.api.registry.v1 import revocation_pb2 as revocations
from braid.certs.revocable import read_certificate
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.kernel.errors import BraidError, IdentityRevoked, StreamExpired, Unavailable
from braid.kernel.ports import CallOptions, RpcChannel
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import method_path
from testbed.authority import ALICE, Authority
from testbed.patience import until
from tests.integration.test_access import ANN, Processes, client

pytestmark = [pytest.mark.timeout(400), pytest.mark.untimed]
BOB = "spiffe://test.local/user/bob"
INSTANCES = ("registry-0", "registry-1", "assigner-0", "lagmon-0", "dlq-0")
OUT_SECONDS = 60.0  # what is promised; what is measured is printed
OPTIONS = CallOptions(20.0)


class Connections:
    """One client's connections to every replica, with a stream open on each."""

    def __init__(self, stack: AsyncExitStack, processes: Processes, tls: Tls) -> None:
        self._transport = GrpcTransport(TlsFiles(tls))
        self._stack = stack
        self._processes = processes
        self.channels: dict[str, RpcChannel] = {}
        self.watches: dict[str, asyncio.Task[EventRecord]] = {}
        self.ended_at: dict[str, float] = {}

    def open(self, *instances: str) -> None:
        """Connects, and watches the events of each replica; none comes."""
        for instance in instances:
            channel = self.channels[instance] = self._transport.channel(self._processes.ready[instance]["address"])
            self._stack.push_async_callback(channel.close)
            watch = self.watches[instance] = asyncio.create_task(self._watch(instance, channel))
            watch.add_done_callback(
                lambda over: over.cancelled() or over.exception()
            )  # else asyncio complains at the end

    async def _watch(self, instance: str, channel: RpcChannel) -> EventRecord:
        path = method_path(service_of(instance), "WatchEvents")
        try:
            return await anext(channel.server_stream(path, WatchEventsRequest(), EventRecord, OPTIONS))
        finally:
            self.ended_at[instance] = time.monotonic()

    async def endings(self) -> Mapping[str, BaseException | None]:
        """How the streams ended, once all have."""
        await asyncio.wait(self.watches.values(), timeout=OUT_SECONDS)
        return {name: each.exception() if each.done() else None for name, each in self.watches.items()}

    async def ask(self, instance: str) -> BraidError | None:
        """Returns a replica's answer to an ordinary call."""
        path = method_path(service_of(instance), "ListEndpoints")
        try:
            await self.channels[instance].unary(path, ListEndpointsRequest(), ListEndpointsResponse, OPTIONS)
        except BraidError as error:
            return error
        return None


def service_of(instance: str) -> str:
    return instance.partition("-")[0]


async def test_a_stolen_certificate_is_out_everywhere_despite_a_crash(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        processes = Processes(tmp_path, Authority.make(), ACCESS="open")
        stack.push_async_callback(processes.close)
        for instance in INSTANCES:
            await processes.start(instance)
        ann = await client(stack, processes, "registry", ANN)
        stolen = processes.authority.client(tmp_path / "stolen", ALICE)
        renewed = processes.authority.client(tmp_path / "renewed", ALICE)
        thief, alice = Connections(stack, processes, stolen), Connections(stack, processes, renewed)
        for each in (thief, alice):
            each.open(*INSTANCES)
            assert {await each.ask(instance) for instance in INSTANCES} == {None}
        await asyncio.sleep(1.0)
        assert not thief.ended_at
        identity, principal, expire_ms = read_certificate(stolen.certificate, "certificate")
        assert principal == ALICE
        request = revocations.RevokeIdentityRequest(identity=identity, reason="stolen", expire_time_ms=expire_ms)
        answer = revocations.RevokeIdentityResponse
        asked_at = time.monotonic()
        await ann.unary("RevokeIdentity", request, answer, timeout_seconds=20.0)
        endings = await thief.endings()
        assert {name: type(error) for name, error in endings.items()} == dict.fromkeys(INSTANCES, IdentityRevoked)
        took = {name: round(at - asked_at, 3) for name, at in thief.ended_at.items()}
        print(f"streams ended after {took} s")
        assert max(took.values()) < OUT_SECONDS
        for instance in INSTANCES:
            assert isinstance(await thief.ask(instance), IdentityRevoked)
            assert await alice.ask(instance) is None, "another certificate of the same principal"
        assert not alice.ended_at

        processes.running["registry-1"].kill()
        await processes.running["registry-1"].wait()
        (tmp_path / "registry-1.json").unlink()
        await processes.start("registry-1")
        again = Connections(stack, processes, stolen)
        again.open("registry-1")
        assert isinstance(await again.ask("registry-1"), IdentityRevoked)

        lift = revocations.LiftRevocationRequest(identity=identity)
        await ann.unary("LiftRevocation", lift, revocations.Revocation, timeout_seconds=20.0)

        async def served() -> bool:
            return {await thief.ask(instance) for instance in ("assigner-0", "lagmon-0", "dlq-0")} == {None}

        await until(served, "who is lifted is served", 20.0)


async def test_a_removed_ca_is_out_in_time_on_connections_kept_open(tmp_path: Path) -> None:
    """With the settings that processes have by default."""
    async with AsyncExitStack() as stack:
        processes = Processes(tmp_path, Authority.make(), ACCESS="open")
        stack.push_async_callback(processes.close)
        await processes.start("registry-0")
        other = Authority.make("Other CA")
        ca = tmp_path / "registry-0" / "ca.crt"
        both = processes.authority.pem + other.pem
        _replace(ca, both)
        certificate, key = other.issue(uris=[BOB])
        bob_tls = processes.authority.client(tmp_path / "bob", BOB)
        _replace(bob_tls.certificate, certificate)
        _replace(bob_tls.key, key)
        bob = Connections(stack, processes, bob_tls)
        alice = Connections(stack, processes, processes.authority.client(tmp_path / "alice", ALICE))
        alice.open("registry-0")
        bob.open("registry-0")

        async def trusted() -> bool:
            return await bob.ask("registry-0") is None

        await until(trusted, "the server reads that it trusts both", 60.0)
        bob.open("registry-0")
        await asyncio.sleep(1.0)
        assert await bob.ask("registry-0") is None and await alice.ask("registry-0") is None
        bob.ended_at.clear()
        removed_at = time.monotonic()
        _replace(ca, processes.authority.pem)
        (ending,) = (await bob.endings()).values()
        assert isinstance(ending, StreamExpired)
        took = bob.ended_at["registry-0"] - removed_at
        print(f"the stream ended after {took:.1f} s")
        assert took < OUT_SECONDS
        assert isinstance(await bob.ask("registry-0"), Unavailable)
        assert await alice.ask("registry-0") is None and not alice.ended_at


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}")
    part.touch(mode=0o600)
    part.write_bytes(content)
    part.replace(path)
