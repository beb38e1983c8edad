"""Control RPCs over grpc.aio: the transport. Calls are in `grpc_calls`, serving in `grpc_server`."""

from braid.kernel.ports import RpcChannel, RpcServer, RpcService
from braid.rpc.grpc_calls import GrpcChannel
from braid.rpc.grpc_server import serve_grpc


class GrpcTransport:
    """Opens connections and serves over HTTP/2. Needs a running loop; no instance may exist in a process that forks."""

    def channel(self, address: str) -> RpcChannel:
        """A connection to `host:port`; connects when used, and again by itself."""
        return GrpcChannel(address)

    async def serve(self, address: str, service: RpcService) -> RpcServer:
        """Serves at `host:port` (port 0 chooses one), with health checks (not serving yet) and reflection.

        Raises:
            Invalid: `address` is not `host:port`.
            Unavailable: the address is taken or not this machine's.
        """
        return await serve_grpc(address, service)
