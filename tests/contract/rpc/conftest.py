"""Both transports, behind one fixture: what the suite says holds for either."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.host.system import system_host
from braid.kernel.ports import (
    Caller,
    CallOptions,
    DuplexHandler,
    DuplexServing,
    RpcChannel,
    RpcServer,
    RpcService,
    RpcTransport,
)
from braid.rpc.grpc_transport import GrpcTransport
from braid.rpc.memory_network import MemoryNetwork
from braid.rpc.memory_transport import MemoryTransport
from braid.rpc.methods import duplex, server_stream, unary

OPTIONS = CallOptions(60.0, "request-1", "acme", "alice")

Unary = Callable[[StringValue, Caller], Awaitable[StringValue]]
Stream = Callable[[StringValue, Caller], AsyncIterator[StringValue]]


def path(method: str) -> str:
    """A method of the example service."""
    return f"/braid.test.v1.ExampleService/{method}"


def text(message: object) -> str:
    """What a message says; anything but a message fails the test."""
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
    servers: list[RpcServer] = field(default_factory=list)
    channels: list[RpcChannel] = field(default_factory=list)

    async def serve(
        self,
        *,
        unaries: Mapping[str, Unary] | None = None,
        streams: Mapping[str, Stream] | None = None,
        duplexes: Mapping[str, Callable[[DuplexServing], Awaitable[None]]] | None = None,
        address: str = "127.0.0.1:0",
    ) -> RpcServer:
        """Serves handlers by method."""
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


@pytest.fixture(params=["grpc", "memory"])
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Either transport."""
    if request.param == "grpc":
        made = Mesh(GrpcTransport(), GrpcTransport())
    else:
        host = system_host()
        network = MemoryNetwork(host.clock, host.randomness)
        made = Mesh(MemoryTransport(network, "server"), MemoryTransport(network, "client"))
    async with asyncio.timeout(30):
        yield made
        await made.close()
