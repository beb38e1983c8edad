"""The gRPC transport of control RPCs. Calls are in `grpc.calls`, serving in `grpc.server`."""

from braid.host.tls.files import TlsFiles
from braid.host.token_files import TokenFiles
from braid.kernel.ports import Authenticator, RpcChannel, RpcServer, RpcService
from braid.rpc.grpc.calls import GrpcChannel
from braid.rpc.grpc.server import serve_grpc
from braid.rpc.tls import TlsServing


class GrpcTransport:
    """Opens connections and serves over HTTP/2. Needs a running loop; a process that forks must not have one."""

    def __init__(
        self,
        files: TlsFiles | TokenFiles | None = None,
        serving: TlsServing | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        """Without `files` all is plaintext; with them both ends of each connection prove who they are.

        Args:
            files: This process's certificate and whom it trusts; or, of one that serves nothing, its token.
            serving: How it serves with them. Where it serves plaintext as well, others may not have changed over yet:
                then it calls in plaintext whoever does not say that it serves mutual TLS.
            authenticator: Says who calls; by default certificates alone do.
        """
        self._files = files
        self._serving = serving or TlsServing()
        self._authenticator = authenticator

    def channel(self, address: str, tls_address: str = "") -> RpcChannel:
        """A connection to `host:port`; connects when used, and again by itself."""
        if isinstance(self._files, TokenFiles):
            return GrpcChannel(address, self._files)
        if self._files is None or (self._serving.permissive_listen and not tls_address):
            return GrpcChannel(address)
        return GrpcChannel(tls_address or address, self._files)

    async def serve(self, address: str, service: RpcService) -> RpcServer:
        """Serves at `host:port` (port 0 picks a free one), with health checks (not serving yet).

        Raises:
            Invalid: `address` is not `host:port`.
            Unavailable: the address is in use, or not this machine's.
        """
        assert not isinstance(self._files, TokenFiles), "who serves has a certificate"
        return await serve_grpc(address, service, self._files, self._serving, self._authenticator)
