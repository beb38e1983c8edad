"""The port to control RPCs: calls to replicas, and serving them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol, TypeVar

from braid.kernel.errors import BraidError

T = TypeVar("T")


class TraceContext(NamedTuple):
    """W3C trace context beside a call: the span that it belongs to. A caller wrote it, and nobody has checked it.

    Attributes:
        parent: `traceparent`; empty without a trace.
        state: `tracestate`.
    """

    parent: str = ""
    state: str = ""


NO_TRACE: Final = TraceContext()


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Metadata that a caller sends beside a request."""

    timeout_seconds: float
    request_id: str = ""
    tenant: str = "default"
    principal: str = ""
    trace: TraceContext = NO_TRACE


class DuplexCall(Protocol):
    """The client's end of a bidirectional stream of protobuf messages."""

    async def send(self, message: object) -> None:
        """Sends a message. Raises `Unavailable` once the stream is broken."""
        ...

    async def receive(self) -> object | None:
        """Returns the next message; None when the server ended the stream well.

        Raises the server's error, or `Unavailable`.
        """
        ...

    async def close(self) -> None:
        """Ends the stream."""
        ...


class RpcChannel(Protocol):
    """A connection to one replica. Methods are full names: `/braid.api.registry.v1.RegistryService/MoveStream`.

    Response types come from the generated modules; errors arrive as the `BraidError` the server raised.
    """

    async def unary(self, method: str, request: object, response_type: type[T], options: CallOptions) -> T:
        """Sends one request and returns one response. Raises `Unavailable` when the replica cannot be reached."""
        ...

    def server_stream(
        self, method: str, request: object, response_type: type[T], options: CallOptions
    ) -> AsyncIterator[T]:
        """Sends one request and yields many responses; ends when the caller stops iterating."""
        ...

    def duplex(self, method: str, response_type: type[T], options: CallOptions) -> DuplexCall:
        """Opens a bidirectional stream."""
        ...

    async def close(self) -> None:
        """Closes the connection."""
        ...


class RpcTransport(Protocol):
    """Connects to replicas and serves them: over grpc.aio in processes, over a wire in memory in simulation."""

    def channel(self, address: str, tls_address: str = "") -> RpcChannel:
        """A connection to `host:port`; connects when used.

        `tls_address` is where the replica serves mutual TLS, if it said so; a transport with a certificate prefers it.
        """
        ...

    async def serve(self, address: str, service: "RpcService") -> "RpcServer":
        """Serves at `host:port` (port 0 chooses one).

        Raises `Unavailable` naming the address when another process has it.
        """
        ...


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificate that a caller's connection was opened with.

    Attributes:
        fingerprint: SHA-256 of its DER form, 64 lower-case hexadecimal digits.
        serial: Its serial number, lower-case hexadecimal without leading zeros.
        expire_ms: When it ends, milliseconds since the epoch.
        chain: PEM of it and of those that came with it.
    """

    fingerprint: str
    serial: str
    expire_ms: int
    chain: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and the metadata sent beside it.

    Attributes:
        principal: Who it is: of a certificate or token that was verified, else what the caller says, or empty.
        tenant: Whose data it works on, as the caller says.
        request_id: Names the request over all its attempts.
        peer: Where it comes from, as the transport names it.
        authenticated: Whether a certificate or a token proves the principal.
        expire_ms: When that proof ends, by the wall clock, milliseconds since the epoch; 0 for one that does not.
        certificate: The certificate that the call's connection was opened with; None where there is none.
        trace: The trace that the caller says the call belongs to, within bounds.
    """

    principal: str
    tenant: str
    request_id: str
    peer: str
    authenticated: bool = False
    expire_ms: int = 0
    certificate: PeerCertificate | None = None
    trace: TraceContext = field(default=NO_TRACE, repr=False, compare=False)


class DuplexServing(Protocol):
    """The server's end of a bidirectional stream."""

    @property
    def caller(self) -> Caller:
        """The client that opened the stream."""
        ...

    @property
    def over(self) -> bool:
        """Whether the client ended the stream or is known to be gone; messages sent before may still be unread."""
        ...

    async def send(self, message: object) -> None:
        """Sends a message; waits for the transport's flow control. Raises `Unavailable` once the peer is gone."""
        ...

    async def receive(self) -> object | None:
        """The next message; None when the client ended the stream well.

        Raises:
            StreamExpired: the stream lasted as long as one may; its client opens it again.
            Unavailable: it broke.
        """
        ...


def _pass_over(path: str, caller: Caller, error: BraidError) -> None:
    """Nobody asks about calls that the transport refuses."""


def _nothing() -> None:
    """Nobody counts the call."""


class Admitted(NamedTuple):
    """A call that may begin.

    Attributes:
        caller: Its caller, in the tenant that was found for it.
        done: Called once when the call has ended.
    """

    caller: Caller
    done: Callable[[], None] = _nothing


async def _admit(path: str, caller: Caller) -> Admitted:
    """Every call may begin."""
    return Admitted(caller)


AdmitHandler = Callable[[str, Caller], Awaitable[Admitted]]
RefusalHandler = Callable[[str, Caller, BraidError], None]
UnaryHandler = Callable[[object, Caller], Awaitable[object]]
StreamHandler = Callable[[object, Caller], AsyncIterator[object]]
DuplexHandler = Callable[[DuplexServing], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RpcService:
    """The methods that a replica serves, by full name, each with the type of its request and its handler.

    Attributes:
        bytes_max: The largest request, of both-ways methods that bound theirs more tightly than the transport does.
        refused: Hears of calls that the transport refuses because of who calls: the method, what is known of the
            caller, and why.
        admit: Asked with the method and the caller before a request is read. It raises for a call that may not begin.
    """

    name: str
    unary: Mapping[str, tuple[type, UnaryHandler]]
    server_stream: Mapping[str, tuple[type, StreamHandler]]
    duplex: Mapping[str, tuple[type, DuplexHandler]]
    bytes_max: Mapping[str, int] = field(default_factory=dict)
    refused: RefusalHandler = _pass_over
    admit: AdmitHandler = _admit

    def wrapped(
        self,
        unary: Callable[[str, UnaryHandler], UnaryHandler],
        stream: Callable[[str, StreamHandler], StreamHandler],
        duplex: Callable[[str, DuplexHandler], DuplexHandler],
    ) -> "RpcService":
        """Returns the same service with another handler for each method, made of its name and the present one."""
        return replace(
            self,
            unary={path: (kind, unary(path, each)) for path, (kind, each) in self.unary.items()},
            server_stream={path: (kind, stream(path, each)) for path, (kind, each) in self.server_stream.items()},
            duplex={path: (kind, duplex(path, each)) for path, (kind, each) in self.duplex.items()},
        )


class RpcServer(Protocol):
    """A server that answers calls to one replica."""

    @property
    def address(self) -> str:
        """The address at which clients reach the server."""
        ...

    @property
    def tls_address(self) -> str:
        """Where it can be reached over mutual TLS, which may be the same; empty when it serves none."""
        ...

    @property
    def health_address(self) -> str:
        """Where health checks are answered to callers without a certificate."""
        ...

    def set_serving(self, serving: bool) -> None:
        """Sets the answer to health checks (`grpc.health.v1`)."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Refuses new calls, gives running ones the grace period to finish, then ends them."""
        ...
