"""Which address of a replica is dialled where it has one for plaintext and one for mutual TLS."""

from collections.abc import Sequence

from braid.host.system import system_host
from braid.kernel.ports import RpcChannel
from braid.rpc.directory import Directory, KnownEndpoint
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport


class Dialling(MemoryTransport):
    """A transport that notes what it is asked for."""

    def __init__(self) -> None:
        host = system_host()
        super().__init__(MemoryNetwork(host.clock, host.randomness), "client")
        self.dialled: list[tuple[str, str]] = []

    def channel(self, address: str, tls_address: str = "") -> RpcChannel:
        """Notes the addresses, then opens a channel as `RpcTransport.channel` does."""
        self.dialled.append((address, tls_address))
        return super().channel(address, tls_address)


async def test_a_replica_is_dialled_where_it_serves_mutual_tls() -> None:
    listed = [KnownEndpoint("registry", "registry-0", "r0:1", True, "r0:2")]

    async def source() -> Sequence[KnownEndpoint]:
        return listed

    transport = Dialling()
    directory = Directory(transport, system_host(), source=source)
    directory.channel("r0:1")
    await directory.refresh()
    directory.channel("r0:1")
    directory.forget("r0:1")  # it did not answer once; it serves where it did
    directory.channel("r0:1")
    listed[0] = listed[0]._replace(tls_address="")
    await directory.refresh()
    directory.channel("r0:1")
    await directory.close()
    assert transport.dialled == [("r0:1", ""), ("r0:1", "r0:2")]
