"""A wire in memory whose server knows who calls: what mutual TLS does between processes, without certificates."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from braid.kernel.ports import (
    Caller,
    DuplexHandler,
    DuplexServing,
    RpcServer,
    RpcService,
    StreamHandler,
    UnaryHandler,
)
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport


class AuthenticatedTransport(MemoryTransport):
    """A `MemoryTransport` that verifies the principals of the processes it is told of, and of nobody else."""

    def __init__(self, network: MemoryNetwork, process: str, principals: Mapping[str, str]) -> None:
        """`principals` is by the name of the process that calls; it may grow."""
        super().__init__(network, process)
        self._principals = principals

    async def serve(self, address: str, service: RpcService) -> RpcServer:
        """See `RpcTransport.serve`."""
        verified = replace(
            service,
            unary={path: (kind, self._unary(each)) for path, (kind, each) in service.unary.items()},
            server_stream={path: (kind, self._stream(each)) for path, (kind, each) in service.server_stream.items()},
            duplex={path: (kind, self._duplex(each)) for path, (kind, each) in service.duplex.items()},
        )
        return await super().serve(address, verified)

    def _verified(self, caller: Caller) -> Caller:
        principal = self._principals.get(caller.peer)
        return caller if principal is None else replace(caller, principal=principal, authenticated=True)

    def _unary(self, handler: UnaryHandler) -> UnaryHandler:
        async def handle(request: object, caller: Caller) -> object:
            return await handler(request, self._verified(caller))

        return handle

    def _stream(self, handler: StreamHandler) -> StreamHandler:
        async def handle(request: object, caller: Caller) -> AsyncIterator[object]:
            async for response in handler(request, self._verified(caller)):
                yield response

        return handle

    def _duplex(self, handler: DuplexHandler) -> DuplexHandler:
        async def handle(stream: DuplexServing) -> None:
            await handler(_Verified(stream, self._verified(stream.caller)))

        return handle


class _Verified:
    """A stream whose caller is known."""

    def __init__(self, stream: DuplexServing, caller: Caller) -> None:
        self._stream = stream
        self.caller = caller

    @property
    def over(self) -> bool:
        """See `DuplexServing.over`."""
        return self._stream.over

    async def send(self, message: object) -> None:
        """See `DuplexServing.send`."""
        await self._stream.send(message)

    async def receive(self) -> object | None:
        """See `DuplexServing.receive`."""
        return await self._stream.receive()
