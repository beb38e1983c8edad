"""The gRPC transport of control RPCs. Calls are in `grpc_calls`, serving in `grpc_server`."""

from braid.host.tls_files import TlsFiles
from braid.kernel.ports import RpcChannel, RpcServer, RpcService
from braid.rpc.grpc_calls import GrpcChannel
from braid.rpc.grpc_server import serve_grpc
from braid.rpc.tls import TlsServing


class GrpcTransport:
    """Opens connections and serves over HTTP/2. Needs a running loop; a process that forks must not have one."""

    def __init__(self, files: TlsFiles | None = None, serving: TlsServing | None = None) -> None:
        """Prepares a transport. Without `files` everything is plaintext; with them both sides present a certificate.

        Args:
            files: This process's certificate, key and trusted authorities.
            serving: How it serves with them. If it also serves plaintext, other replicas may not have migrated yet: it
                then
                calls replicas in plaintext that do not announce mutual TLS.
        """
        self._files = files
        self._serving = serving or TlsServing()

    def channel(self, address: str, tls_address: str = "") -> RpcChannel:
        """A connection to `host:port`; it connects on first use, and reconnects by itself."""
        if self._files is None or (self._serving.permissive_listen and not tls_address):
            return GrpcChannel(address)
        return GrpcChannel(tls_address or address, self._files)

    async def serve(self, address: str, service: RpcService) -> RpcServer:
        """Serves at `host:port` (port 0 picks a free one), with health checks (not serving yet) and reflection.

        Raises:
            Invalid: `address` is not `host:port`.
            Unavailable: the address is in use, or not this machine's.
        """
        return await serve_grpc(address, service, self._files, self._serving)
