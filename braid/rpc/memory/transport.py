"""Control RPCs over a network in memory, for simulation and tests: gRPC's behaviour without sockets.

Every message is serialised and parsed, so that no object is shared. `memory.network` injects the faults.
"""

import asyncio
import contextvars
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from braid.kernel.errors import BraidError, DeadlineExceeded, Exhausted, Unavailable, Unsupported
from braid.kernel.limits.rpc import MESSAGE_BYTES_MAX, STREAM_CLOSE_SECONDS
from braid.kernel.ports import (
    Authenticator,
    Caller,
    CallOptions,
    CertificateNames,
    DuplexHandler,
    PeerCertificate,
    RpcChannel,
    RpcServer,
    RpcService,
    Shown,
    StreamHandler,
    UnaryHandler,
)
from braid.kernel.principals import DNS
from braid.rpc.authenticators import CertificateOrToken, call_metadata, caller_of, refused_caller
from braid.rpc.errors import from_status, to_status
from braid.rpc.memory.network import Call, Credentials, Listener, MemoryNetwork
from braid.rpc.messages import parser, serialize

T = TypeVar("T")


class MemoryTransport:
    """The control RPCs of one process on a `MemoryNetwork`."""

    def __init__(
        self,
        network: MemoryNetwork,
        process: str,
        identity: str = "",
        *,
        bearer: Callable[[], str] | None = None,
        claims: str = "",
        authenticator: Authenticator | None = None,
    ) -> None:
        """Prepares that of a process with a certificate that names `identity` as its principal, or without one.

        Args:
            network: What it is on.
            process: Its name.
            identity: Of its certificate; empty for none.
            bearer: Gives the token that it sends in place of a certificate.
            claims: Whom it says it is beside all it shows, as only a hostile caller does.
            authenticator: Says who calls it, when it serves.
        """
        self._network = network
        self._process = process
        self._identity = identity
        self._certificate = memory_certificate(identity) if identity else None
        self._bearer = bearer
        self._claims = claims
        self._authenticator = authenticator or CertificateOrToken()

    def show(self, certificate: PeerCertificate) -> None:
        """Shows another certificate of the same principal from now on, as a process does whose files are replaced."""
        self._certificate = certificate

    def channel(self, address: str, tls_address: str = "") -> RpcChannel:
        """A connection to an address; connects when used."""
        credentials = partial(self._credentials, self._certificate)  # a connection keeps its certificate
        return MemoryChannel(self._network, self._process, address, credentials)

    def _credentials(self, presented: PeerCertificate | None, options: CallOptions) -> Credentials:
        """Returns a call's proofs and claims: over TLS nothing but the proof says who calls, unless somebody lies."""
        bearer = self._bearer() if self._bearer is not None else ""
        certificate = _certificate(self._identity) if self._identity else None
        proved = certificate is not None or bool(bearer)
        metadata = call_metadata(
            replace(options, principal=self._claims or options.principal), claim=bool(self._claims) or not proved
        )
        return Credentials(Shown(proved, certificate, bearer), metadata, presented)

    async def serve(self, address: str, service: RpcService) -> RpcServer:
        """Serves at an address (port 0 chooses one). Raises `Unavailable` when it is taken."""
        listener = Listener(self._process, service, contextvars.copy_context(), self._authenticator)
        listener.start = _start(listener)
        return MemoryServer(self._network, self._network.listen(address, listener), listener)


class MemoryServer:
    """A replica that serves on a network in memory."""

    def __init__(self, network: MemoryNetwork, address: str, listener: Listener) -> None:
        self._network = network
        self._address = address
        self._listener = listener

    @property
    def address(self) -> str:
        """The address it can be reached at."""
        return self._address

    @property
    def tls_address(self) -> str:
        """Empty: callers with and without certificates use the same address."""
        return ""

    @property
    def health_address(self) -> str:
        """The address for health checks, which is the same."""
        return self._address

    def set_serving(self, serving: bool) -> None:
        """Sets what `MemoryNetwork.serving` returns."""
        self._listener.serving = serving

    async def stop(self, grace_seconds: float) -> None:
        """Ends streams with `Unavailable` at once; unary calls may finish within the grace period."""
        self._listener.serving = False
        self._network.unlisten(self._address, self._listener)
        stopping = Unavailable("the replica is stopping", remedy="ask another replica")
        unary = self._listener.service.unary
        for call in tuple(self._listener.calls.values()):
            if call.method not in unary:
                call.break_stream(stopping)
        handling = [call.task for call in self._listener.calls.values() if call.task is not None]
        if handling:
            await asyncio.wait(handling, timeout=grace_seconds)
        for call in tuple(self._listener.calls.values()):
            call.break_stream(stopping)


class MemoryChannel:
    """A connection to one replica on a network in memory."""

    def __init__(
        self, network: MemoryNetwork, process: str, address: str, credentials: Callable[[CallOptions], Credentials]
    ) -> None:
        self._network = network
        self._process = process
        self._address = address
        self._credentials = credentials
        self._calls: dict[int, Call] = {}
        self._closed = False

    async def unary(self, method: str, request: object, response_type: type[T], options: CallOptions) -> T:
        """Sends one request and returns the response; see `RpcChannel`."""
        call = self._open(method, options)
        try:
            async with asyncio.timeout(max(0.0, options.timeout_seconds)):
                await call.to_server.send(_bounded(serialize(request)))
                response = await call.to_client.receive()
        except TimeoutError as error:
            raise DeadlineExceeded(f"{self._address}: no answer within {options.timeout_seconds:.3f} s") from error
        finally:
            self._close(call)
        return parser(response_type)(cast("bytes", response))

    async def server_stream(
        self, method: str, request: object, response_type: type[T], options: CallOptions
    ) -> AsyncIterator[T]:
        """Sends one request and yields responses; see `RpcChannel`."""
        call = self._open(method, options)
        parse = parser(response_type)
        try:
            await call.to_server.send(_bounded(serialize(request)))
            while (data := await call.to_client.receive()) is not None:
                yield parse(cast("bytes", data))
        finally:
            self._close(call)

    def duplex(self, method: str, response_type: type[T], options: CallOptions) -> "MemoryDuplexCall":
        """Opens a bidirectional stream; see `RpcChannel`."""
        return MemoryDuplexCall(self._open(method, options), response_type)

    async def close(self) -> None:
        """Closes the connection; calls under way end with `Unavailable`."""
        self._closed = True
        for call in tuple(self._calls.values()):
            self._close(call)

    def _open(self, method: str, options: CallOptions) -> Call:
        if self._closed:
            raise Unavailable(f"{self._address}: the connection was closed here")
        call = self._network.open(self._process, self._address, method, self._credentials(options))
        self._calls = {number: each for number, each in self._calls.items() if not each.to_client.inbox.over()}
        self._calls[call.number] = call
        return call

    def _close(self, call: Call) -> None:
        self._calls.pop(call.number, None)
        call.give_up()


class MemoryDuplexCall:
    """The client's end of a bidirectional stream in memory."""

    def __init__(self, call: Call, response_type: type) -> None:
        self._call = call
        self._parse: Callable[[bytes], object] = parser(response_type)

    async def send(self, message: object) -> None:
        """Sends a message. Raises `Unavailable` once the stream is over."""
        await self._call.to_server.send(_bounded(serialize(message)))

    async def receive(self) -> object | None:
        """The next message, or None once the server ended the stream cleanly. Raises the error it ended with."""
        data = await self._call.to_client.receive()
        return None if data is None else self._parse(cast("bytes", data))

    async def close(self) -> None:
        """Ends the stream and waits briefly for the server to end its side."""
        call = self._call
        call.to_server.carry(call.to_server.inbox.end)
        call.to_server.close(Unavailable(f"{call.address}: the stream was closed here"))
        try:
            async with asyncio.timeout(STREAM_CLOSE_SECONDS):
                await call.to_client.inbox.ended()
        except TimeoutError:
            pass
        finally:
            call.give_up()


class MemoryDuplexServing:
    """The server's end of a bidirectional stream in memory."""

    def __init__(self, call: Call, parse: Callable[[bytes], object]) -> None:
        self._call = call
        self._parse = parse

    @property
    def caller(self) -> Caller:
        """The caller that opened the stream."""
        return self._call.caller

    @property
    def over(self) -> bool:
        """Whether the client ended the stream or is known to be gone; earlier messages may still be unread."""
        return self._call.to_server.inbox.over()

    async def send(self, message: object) -> None:
        """Sends a message. Raises `Unavailable` once the peer is gone."""
        await self._call.to_client.send(_bounded(serialize(message)))

    async def receive(self) -> object | None:
        """The next message; None once the client ended the stream cleanly. Raises `Unavailable` if the connection
        broke."""
        data = await self._call.to_server.receive()
        return None if data is None else self._parse(cast("bytes", data))


def memory_certificate(identity: str, number: int = 1) -> PeerCertificate:
    """A certificate of a principal, of which it may have several, by number. It does not end."""
    fingerprint = hashlib.sha256(f"{identity} {number}".encode()).hexdigest()
    return PeerCertificate(fingerprint, fingerprint[:16].lstrip("0"), 1 << 62)


def _start(listener: Listener) -> Callable[[Call], "asyncio.Task[None]"]:
    """Starts the handler of an arriving call, in the context of the serving process."""

    def start(call: Call) -> "asyncio.Task[None]":
        name = f"{listener.process} serves {call.method.rpartition('/')[2]} to {call.client}"
        loop = asyncio.get_running_loop()
        handling = _identified(listener, call)
        task = loop.create_task(handling, name=name, context=listener.context.copy())
        task.add_done_callback(lambda ended: call.end_at_server(_ending(ended)))
        return task

    return start


def _ending(task: "asyncio.Task[None]") -> BraidError | None:
    """The result of a handler, as it arrives at the client."""
    if task.cancelled():
        return Unavailable("the replica ended the call")
    error = task.exception()
    if error is None:
        return None
    if isinstance(error, BraidError):
        return from_status(to_status(error))
    facts = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
    asyncio.get_running_loop().call_exception_handler(facts)
    return BraidError(f"unexpected {type(error).__name__}: {error}")


async def _identified(listener: Listener, call: Call) -> None:
    """Handles a call of a caller that is known. Raises `Unauthenticated` where it proves nothing, or claims more."""
    credentials = call.credentials
    metadata, identity = credentials.metadata, None
    try:
        identity = await listener.authenticator.identify(credentials.shown)
        call.caller = caller_of(metadata, call.client, identity, credentials.certificate)
    except BraidError as error:
        listener.service.refused(call.method, refused_caller(metadata, call.client, identity), error)
        raise
    admission = await listener.service.admit(call.method, call.caller)
    call.caller = admission.caller
    expiry = call.expire_at(call.caller.expire_ms) if call.caller.expire_ms else None
    try:
        await _handle(listener.service, call)
    finally:
        admission.done()
        if expiry is not None:
            expiry.cancel()


def _handle(service: RpcService, call: Call) -> Coroutine[object, object, None]:
    if call.method in service.unary:
        request_type, unary = service.unary[call.method]
        return _unary(call, request_type, unary)
    if call.method in service.server_stream:
        request_type, stream = service.server_stream[call.method]
        return _server_stream(call, request_type, stream)
    if call.method in service.duplex:
        request_type, duplex = service.duplex[call.method]
        return _duplex(call, parser(request_type, service.bytes_max.get(call.method, MESSAGE_BYTES_MAX)), duplex)
    return _unknown(call)


async def _unary(call: Call, request_type: type, handler: UnaryHandler) -> None:
    request = await _request(call, request_type)
    await call.to_client.send(_bounded(serialize(await handler(request, call.caller))))


async def _server_stream(call: Call, request_type: type, handler: StreamHandler) -> None:
    request = await _request(call, request_type)
    responses = handler(request, call.caller)
    async with aclosing(responses):  # type: ignore[type-var]  # handlers are async generators
        async for response in responses:
            await call.to_client.send(_bounded(serialize(response)))


async def _duplex(call: Call, parse: Callable[[bytes], object], handler: DuplexHandler) -> None:
    await handler(MemoryDuplexServing(call, parse))


async def _unknown(call: Call) -> None:
    raise Unsupported(f"{call.address} does not serve {call.method}")


async def _request(call: Call, request_type: type) -> object:
    parse: Callable[[bytes], object] = parser(request_type)
    return parse(cast("bytes", await call.to_server.receive()))


def _certificate(identity: str) -> CertificateNames:
    if identity.startswith(DNS):
        return CertificateNames(dns_names=[identity.removeprefix(DNS)])
    return CertificateNames([identity])


def _bounded(data: bytes) -> bytes:
    if len(data) > MESSAGE_BYTES_MAX:
        raise Exhausted(f"a message of {len(data)} bytes exceeds {MESSAGE_BYTES_MAX}")
    return data
