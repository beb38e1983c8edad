"""Access over real mutual TLS: processes that enforce it, a first admin by a setting, and certificates for the rest."""

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from braid.api.assigner.v1.assigner_service_pb2 import ListGroupsRequest, ListGroupsResponse
from braid.api.mesh.v1.event_pb2 import EventRecord, WatchEventsRequest
from braid.api.registry.v1 import grant_pb2 as grants
from braid.api.registry.v1.registry_service_pb2 import ListStreamsRequest, ListStreamsResponse
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.kernel.errors import AccessDenied, BraidError, Unauthenticated
from braid.kernel.ports import CallOptions
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import method_path
from testbed.authority import ALICE, Authority
from testbed.patience import in_time, until
from tests.support.service_process import ServiceProcess, start_service

pytestmark = [pytest.mark.timeout(300), pytest.mark.untimed]
ANN = "spiffe://test.local/user/ann"
READY_SECONDS = 60.0


class Processes:
    """A registry and an assigner over SQLite, each with a certificate of its own."""

    def __init__(self, directory: Path, authority: Authority, **settings: str) -> None:
        self.directory = directory
        self.authority = authority
        self.settings = {"ACCESS": "enforced", "ADMINS": ANN, **settings}
        self.running: dict[str, ServiceProcess] = {}
        self.ready: dict[str, dict[str, str]] = {}

    async def start(self, instance: str) -> None:
        """Starts a process and waits until it serves."""
        await self.begin(instance)
        file = self.directory / f"{instance}.json"

        async def serves() -> bool:
            return file.exists()

        await until(serves, f"{instance} does not serve", READY_SECONDS)
        self.ready[instance] = json.loads(file.read_text())

    async def begin(self, instance: str) -> ServiceProcess:
        """Starts a process."""
        uri = f"spiffe://test.local/service/{instance}"
        tls = self.authority.service(self.directory / instance, uri)
        ready = self.directory / f"{instance}.json"
        settings = {"STORE": f"sqlite://{self.directory}/store.db", "INSTANCE": instance, "READY_FILE": str(ready)}
        settings |= {"TLS_CERTIFICATE": str(tls.certificate), "TLS_KEY": str(tls.key), "TLS_CA": str(tls.ca)}
        settings |= {"PARENT_PID": str(os.getpid()), **self.settings}
        environment = {**os.environ, **{f"BRAID_{name}": value for name, value in settings.items()}}
        module = f"services.{instance.partition('-')[0]}"
        self.running[instance] = start_service(module, self.directory / f"{instance}.log", environment)
        return self.running[instance]

    def log(self, instance: str) -> str:
        """The output of a process so far."""
        return (self.directory / f"{instance}.log").read_text()

    async def refusals(self, instance: str) -> str:
        """Metrics on refusals of a process."""

        def read() -> str:
            with urllib.request.urlopen(self.ready[instance]["metrics"], timeout=10) as answer:
                return str(answer.read().decode())

        lines = (await asyncio.to_thread(read)).splitlines()
        return "\n".join(line for line in lines if line.startswith("braid_access_refusals_total"))

    async def close(self) -> None:
        """Ends every process."""
        for process in self.running.values():
            if process.returncode is None:
                process.terminate()
            await in_time(process.wait(), "it ends")


@asynccontextmanager
async def mesh(directory: Path) -> AsyncIterator[Processes]:
    processes = Processes(directory, Authority.make())
    try:
        await processes.start("registry-0")
        await processes.start("assigner-0")
        yield processes
    finally:
        await processes.close()


async def client(stack: AsyncExitStack, processes: Processes, service: str, uri: str) -> ServiceClient:
    """A client of a service with a certificate for a name."""
    tls = processes.authority.client(processes.directory / uri.rpartition("/")[2], uri)
    addresses = [each["address"] for each in processes.ready.values()]
    directory = Directory(GrpcTransport(TlsFiles(tls)), system_host(), addresses)
    stack.push_async_callback(directory.close)
    return ServiceClient(directory, service, system_host())


async def streams(registry: ServiceClient) -> ListStreamsResponse:
    return await registry.unary("ListStreams", ListStreamsRequest(), ListStreamsResponse, timeout_seconds=20.0)


async def test_certificates_and_grants_decide_over_real_connections(tmp_path: Path) -> None:
    async with mesh(tmp_path) as processes, AsyncExitStack() as stack:
        ann = await client(stack, processes, "registry", ANN)
        alice = await client(stack, processes, "registry", ALICE)
        alice_at_assigner = await client(stack, processes, "assigner", ALICE)
        with pytest.raises(AccessDenied) as refused:
            await streams(alice)
        assert refused.value.remedy == f"an admin can allow it: braid grant viewer --to {ALICE} --on 'stream/*'"
        spec = grants.GrantSpec(principal=ALICE, role=grants.ACCESS_ROLE_VIEWER, reason="looks")
        with pytest.raises(AccessDenied):
            await alice.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant)
        given = await ann.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant, timeout_seconds=20.0)
        assert (given.spec, given.granted_by) == (spec, ANN)
        assert not (await streams(alice)).streams

        async def learnt() -> bool:
            try:
                await alice_at_assigner.unary("ListGroups", ListGroupsRequest(), ListGroupsResponse)
            except AccessDenied:
                return False
            return True

        await until(learnt, "the assigner learns of the grant", 20.0)
        assert "WatchChannels" not in await processes.refusals("registry-0"), "the assigner is a service"
        assert 'method="GrantAccess",reason="denied"' in await processes.refusals("registry-0")


async def test_a_revoked_right_ends_a_stream_over_a_real_connection(tmp_path: Path) -> None:
    async with mesh(tmp_path) as processes, AsyncExitStack() as stack:
        ann = await client(stack, processes, "registry", ANN)
        spec = grants.GrantSpec(principal=ALICE, role=grants.ACCESS_ROLE_VIEWER)
        await ann.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant, timeout_seconds=20.0)
        address = processes.ready["registry-0"]["address"]
        tls = processes.authority.client(tmp_path / "alice", ALICE)
        channel = GrpcTransport(TlsFiles(tls)).channel(address)
        stack.push_async_callback(channel.close)
        events = channel.server_stream(
            method_path("registry", "WatchEvents"), WatchEventsRequest(), EventRecord, CallOptions(60.0)
        )
        watching = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait({watching}, timeout=1.0)
        assert not done
        revoke = grants.RevokeAccessRequest(principal=ALICE, role=grants.ACCESS_ROLE_VIEWER)
        await ann.unary("RevokeAccess", revoke, grants.Grant, timeout_seconds=20.0)
        with pytest.raises(AccessDenied, match="may not view the mesh"):
            await in_time(watching, "the stream ends")


async def test_a_caller_without_a_certificate_gets_nothing(tmp_path: Path) -> None:
    processes = Processes(tmp_path, Authority.make(), TLS_MODE="permissive")
    try:
        await processes.start("registry-0")
        directory = Directory(GrpcTransport(), system_host(), [processes.ready["registry-0"]["address"]])
        try:
            with pytest.raises(Unauthenticated, match="takes a caller that has proved who it is"):
                await streams(ServiceClient(directory, "registry", system_host()))
        finally:
            await directory.close()
    except BraidError as error:
        pytest.fail(f"{error}\n{processes.log('registry-0')}")
    finally:
        await processes.close()


async def test_enforcement_without_mutual_tls_does_not_start(tmp_path: Path) -> None:
    processes = Processes(tmp_path, Authority.make(), TLS_MODE="off")
    process = await processes.begin("registry-0")
    assert await in_time(process.wait(), "it ends") == 2
    assert "BRAID_ACCESS: enforced needs mutual TLS" in processes.log("registry-0")
