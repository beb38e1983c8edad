"""Server side of control RPCs over grpc.aio: its ports (plaintext, mutual TLS) and health checks.

`grpc.handlers` connects calls to an `RpcService`.
"""

import asyncio
from typing import TYPE_CHECKING, Final

import grpc

from braid.host.tls.files import TlsFiles
from braid.kernel.errors import Invalid, Unavailable
from braid.kernel.limits.rpc import CALLS_OPEN_MAX, HEALTH_CALLS_MAX
from braid.kernel.ports import Authenticator, RpcService
from braid.rpc.authenticators import CertificateOrToken
from braid.rpc.grpc.handlers import Streams, handlers_of
from braid.rpc.grpc.peer_trust import PeerTrust, trusted_only
from braid.rpc.grpc.stream_lifetimes import StreamLifetimes
from braid.rpc.grpc.wire import HEALTH_OPTIONS, SERVER_OPTIONS, connections_option
from braid.rpc.tls import TlsServing, connection_options, server_credentials

if TYPE_CHECKING:
    from braid.rpc.grpc.health import HealthChecks

_ANY_LOCAL_PORT: Final = "127.0.0.1:0"


async def serve_grpc(
    address: str,
    service: RpcService,
    files: TlsFiles | None = None,
    serving: TlsServing | None = None,
    authenticator: Authenticator | None = None,
) -> "GrpcServer":
    """Starts serving; see `GrpcTransport.serve`."""
    # Lazy: applications that only call have no need for the packages of the `mesh` extra.
    from braid.rpc.grpc.health import HealthChecks

    serving = serving or TlsServing()
    server = _server(files, serving)
    trust = None if files is None else PeerTrust(files, grace_seconds=serving.distrust_grace_seconds)
    if trust is not None:
        service = trusted_only(service, trust)
    lifetimes = StreamLifetimes(serving.connection_seconds, trust, serving.distrust_look_seconds)
    streams = Streams(lifetimes)
    handlers = handlers_of(service, streams, authenticator or CertificateOrToken())
    server.add_generic_rpc_handlers(handlers)
    checks = HealthChecks(service.name)
    server.add_generic_rpc_handlers([checks.handler()])
    servers = [server]
    if serving.mutual_listen and files is not None:
        # Without health checks, which have a server of their own then.
        signing_in = _server(files, serving)
        signing_in.add_generic_rpc_handlers(handlers)
        bound = _add_port(signing_in, address, files, certificates=False)
        tls_bound = _add_port(server, serving.mutual_listen, files)
        servers.append(signing_in)
    else:
        bound, tls_bound = _listen(server, address, files, serving)
    health_bound = bound
    if serving.health_listen or bound == tls_bound or serving.mutual_listen:
        options = (*HEALTH_OPTIONS, connections_option(serving.health_connections_max))
        checking = grpc.aio.server(options=options, maximum_concurrent_rpcs=HEALTH_CALLS_MAX)
        checking.add_generic_rpc_handlers([checks.handler()])
        health_bound = _add_port(checking, serving.health_listen or _ANY_LOCAL_PORT, None)
        servers.append(checking)
    running = GrpcServer(servers, (bound, tls_bound, health_bound), streams, lifetimes, checks)
    for each in servers:
        await each.start()
    return running


def _server(files: TlsFiles | None, serving: TlsServing) -> grpc.aio.Server:
    """A server for calls. What it bounds is said in `wire`."""
    aging = () if files is None else connection_options(serving.connection_seconds)
    options = (*SERVER_OPTIONS, *aging, connections_option(serving.connections_max))
    return grpc.aio.server(options=options, maximum_concurrent_rpcs=CALLS_OPEN_MAX)


def _listen(server: grpc.aio.Server, address: str, files: TlsFiles | None, serving: TlsServing) -> tuple[str, str]:
    """Opens the server's ports. Returns its address, and the address of mutual TLS: empty, the same, or a second
    one."""
    if files is None:
        return _add_port(server, address, None), ""
    if serving.permissive_listen:
        return _add_port(server, address, None), _add_port(server, serving.permissive_listen, files)
    bound = _add_port(server, address, files)
    return bound, bound


def _add_port(server: grpc.aio.Server, address: str, files: TlsFiles | None, *, certificates: bool = True) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise Invalid(f"{address!r} is not host:port", field="address")
    try:
        if files is None:
            bound = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, server_credentials(files, certificates=certificates))
    except RuntimeError as error:
        raise Unavailable(f"cannot listen on {address}", remedy="is the port in use?") from error
    return f"{host}:{bound}"


class GrpcServer:
    """A replica that serves over gRPC."""

    def __init__(
        self,
        servers: list[grpc.aio.Server],
        addresses: tuple[str, str, str],
        streams: Streams,
        lifetimes: StreamLifetimes,
        health: "HealthChecks",
    ) -> None:
        """Its addresses are those of `address`, `tls_address` and `health_address`."""
        self._servers = servers
        self._address, self._tls_address, self._health_address = addresses
        self._streams = streams
        self._health = health
        self._looking = asyncio.get_running_loop().create_task(lifetimes.run(), name="lifetimes of streams")

    @property
    def address(self) -> str:
        """The address it listens on, `host:port`."""
        return self._address

    @property
    def tls_address(self) -> str:
        """The address it serves mutual TLS on, which may be the same; empty if it serves none."""
        return self._tls_address

    @property
    def health_address(self) -> str:
        """The address for health checks without a certificate."""
        return self._health_address

    def set_serving(self, serving: bool) -> None:
        """Sets the answer to health checks."""
        self._health.set_serving(serving)

    async def stop(self, grace_seconds: float) -> None:
        """Ends streams with `Unavailable` at once; unary calls may finish within the grace period."""
        self._health.set_serving(False)
        self._looking.cancel()
        self._streams.stop()
        await asyncio.gather(*(server.stop(grace_seconds) for server in self._servers))
        await self._streams.ended()
