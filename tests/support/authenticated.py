"""A wire in memory whose server knows who calls: what mutual TLS does between processes, without certificates."""

from collections.abc import Mapping
from dataclasses import replace

from braid.kernel.ports import Caller, RpcServer, RpcService
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
        verified = replace(service, admit=lambda path, caller: service.admit(path, self._verified(caller)))
        return await super().serve(address, verified)

    def _verified(self, caller: Caller) -> Caller:
        principal = self._principals.get(caller.peer)
        return caller if principal is None else replace(caller, principal=principal, authenticated=True)
