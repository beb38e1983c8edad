"""The transports, with certificates and without, behind one fixture: what the suite says holds for each."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.kernel.ports import (
    AdmitHandler,
    Caller,
    CallOptions,
    DuplexHandler,
    DuplexServing,
    RpcChannel,
    RpcServer,
    RpcService,
    RpcTransport,
)
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import duplex, server_stream, unary
from testbed.authority import ALICE, Authority

OPTIONS = CallOptions(60.0, "request-1", "acme", "alice")

Unary = Callable[[StringValue, Caller], Awaitable[StringValue]]
Stream = Callable[[StringValue, Caller], AsyncIterator[StringValue]]


def path(method: str) -> str:
    """A method of the example service."""
    return f"/braid.test.v1.ExampleService/{method}"


def text(message: object) -> str:
    """The text of a message; anything but a message fails the test."""
    assert isinstance(message, StringValue)
    return message.value


def say(value: str) -> StringValue:
    """A message."""
    return StringValue(value=value)


@dataclass
class Mesh:
    """A server, and a client that reaches it."""

    server_transport: RpcTransport
    client_transport: RpcTransport
    identity: str = ""  # of the client's certificate
    servers: list[RpcServer] = field(default_factory=list)
    channels: list[RpcChannel] = field(default_factory=list)

    def principal(self, claimed: str = OPTIONS.principal) -> str:
        """The principal that a server assigns to a client that claims one: a certificate takes precedence."""
        return self.identity or claimed

    async def serve(
        self,
        *,
        unaries: Mapping[str, Unary] | None = None,
        streams: Mapping[str, Stream] | None = None,
        duplexes: Mapping[str, Callable[[DuplexServing], Awaitable[None]]] | None = None,
        address: str = "127.0.0.1:0",
        admit: AdmitHandler | None = None,
    ) -> RpcServer:
        """Serves handlers by method; `admit` is asked before each call."""
        table: dict[str, tuple[type, DuplexHandler]] = {
            path(name): duplex(StringValue, handler) for name, handler in (duplexes or {}).items()
        }
        service = RpcService(
            name="braid.test.v1.ExampleService",
            unary={path(name): unary(StringValue, handler) for name, handler in (unaries or {}).items()},
            server_stream={
                path(name): server_stream(StringValue, handler) for name, handler in (streams or {}).items()
            },
            duplex=table,
        )
        if admit is not None:
            service = replace(service, admit=admit)
        server = await self.server_transport.serve(address, service)
        self.servers.append(server)
        return server

    def channel(self, address: str) -> RpcChannel:
        """A client's connection."""
        channel = self.client_transport.channel(address)
        self.channels.append(channel)
        return channel

    async def close(self) -> None:
        """Ends everything."""
        for channel in self.channels:
            await channel.close()
        for server in self.servers:
            await server.stop(0.0)


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Signs all certificates of a run."""
    return Authority.make()


def grpc_mesh(authority: Authority, directory: Path) -> Mesh:
    """Mutual TLS."""
    server, client = authority.service(directory / "server"), authority.client(directory / "client")
    return Mesh(GrpcTransport(TlsFiles(server)), GrpcTransport(TlsFiles(client)), ALICE)


def memory_mesh(identity: str = "") -> Mesh:
    """A wire in memory, for a client with an identity or without one."""
    host = system_host()
    network = MemoryNetwork(host.clock, host.randomness)
    return Mesh(MemoryTransport(network, "server"), MemoryTransport(network, "client", identity), identity)


@pytest.fixture(params=["grpc", "grpc-mtls", "memory", "memory-identity"])
async def mesh(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> AsyncIterator[Mesh]:
    """Each transport."""
    match request.param:
        case "grpc":
            made = Mesh(GrpcTransport(), GrpcTransport())
        case "grpc-mtls":
            made = grpc_mesh(authority, tmp_path)
        case "memory":
            made = memory_mesh()
        case _:
            made = memory_mesh(ALICE)
    async with asyncio.timeout(30):
        yield made
        await made.close()
