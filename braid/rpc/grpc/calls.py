"""Client side of control RPCs over grpc.aio. A pump task reads streams, because cancelling a read would cancel the
call."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

import grpc

from braid.host.tls.files import TlsFiles
from braid.host.token_files import TokenFiles
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.rpc import STREAM_CLOSE_SECONDS
from braid.kernel.ports import CallOptions
from braid.rpc.authenticators import call_metadata
from braid.rpc.grpc.connections import connections
from braid.rpc.grpc.tls_failures import HandshakeFailures
from braid.rpc.grpc.wire import END_MARK, END_MARK_KEY
from braid.rpc.inbox import Inbox
from braid.rpc.messages import parser, serialize

T = TypeVar("T")


class GrpcChannel:
    """The way to one replica: one HTTP/2 connection, and over TLS another one once the files change."""

    def __init__(self, address: str, files: TlsFiles | TokenFiles | None = None) -> None:
        """In plaintext, or over TLS with `files`: a certificate, or a token beside each call."""
        self._address = address
        self._claims = files is None  # over TLS the certificate or the token says who calls
        self._token = files if isinstance(files, TokenFiles) else None
        self._connections = connections(address, files)
        self._failures = HandshakeFailures(address, files, self._connections.renew)

    async def unary(self, method: str, request: object, response_type: type[T], options: CallOptions) -> T:
        """Sends one request and returns the response.

        Raises:
            Unavailable: the replica cannot be reached, or the connection was closed.
            BraidError: the server's answer is this error.
        """
        metadata = self._metadata(options)
        with self._connections.newest() as channel:
            call = channel.unary_unary(method, serialize, bytes)
            try:
                response = await call(request, timeout=max(0.0, options.timeout_seconds), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                raise await self._failures.error_of(error) from error
            except grpc.aio.UsageError as error:
                raise self._closed() from error
            except asyncio.CancelledError as error:
                if _cancelled_here():
                    raise
                raise self._closed() from error
        self._failures.answered()
        return parser(response_type)(response)

    async def server_stream(
        self, method: str, request: object, response_type: type[T], options: CallOptions
    ) -> AsyncIterator[T]:
        """One request, many responses; the timeout of `options` does not apply. Raises as `unary` does."""
        metadata = self._metadata(options)
        parse = parser(response_type)
        with self._connections.newest() as channel:
            make = channel.unary_stream(method, serialize, bytes)
            try:
                call = make(request, metadata=metadata)
            except grpc.aio.UsageError as error:
                raise self._closed() from error
            try:
                while True:
                    message = await call.read()
                    if not isinstance(message, bytes):  # grpc.aio.EOF
                        return
                    self._failures.answered()
                    yield parse(message)
            except grpc.aio.AioRpcError as error:
                raise await self._failures.error_of(error) from error
            except asyncio.CancelledError as error:
                if _cancelled_here():
                    raise
                raise self._closed() from error
            finally:
                call.cancel()

    def duplex(self, method: str, response_type: type[T], options: CallOptions) -> "GrpcDuplexCall":
        """Opens a bidirectional stream; the timeout of `options` does not apply. Raises `Unavailable` when closed."""
        metadata = (*self._metadata(options), (END_MARK_KEY, "1"))
        with ExitStack() as using:
            channel = using.enter_context(self._connections.newest())
            make = channel.stream_stream(method, _as_is, bytes)
            try:
                call = GrpcDuplexCall(make(metadata=metadata), parser(response_type), self._address, self._failures)
            except grpc.aio.UsageError as error:
                raise self._closed() from error
            call.on_end(using.pop_all().close)
        return call

    async def close(self) -> None:
        """Closes all connections; calls under way end with `Unavailable`."""
        await self._connections.close()

    def _metadata(self, options: CallOptions) -> Sequence[tuple[str, str]]:
        bearer = "" if self._token is None else self._token.bearer()
        return call_metadata(options, claim=self._claims, bearer=bearer)

    def _closed(self) -> Unavailable:
        return Unavailable(f"{self._address}: the connection was closed here")


class GrpcDuplexCall:
    """The client's end of a bidirectional stream over gRPC."""

    def __init__(
        self,
        call: "grpc.aio.StreamStreamCall[bytes, bytes]",
        parse: Callable[[bytes], object],
        address: str,
        failures: HandshakeFailures,
    ) -> None:
        self._call = call
        self._failures = failures
        self._parse = parse
        self._address = address
        self._inbox = Inbox()
        self._writing = asyncio.Lock()  # grpc refuses a second write while one is under way, and is of no use then
        self._pump = asyncio.get_running_loop().create_task(self._read(), name=f"stream of {address}")

    def on_end(self, then: Callable[[], None]) -> None:
        """Calls `then` once nothing more will be received."""
        self._pump.add_done_callback(lambda _: then())

    async def send(self, message: object) -> None:
        """Sends a message after those of other senders. Cancelling a send breaks the stream.

        Raises:
            Unavailable: the stream is over; `receive` raises the cause.
        """
        try:
            async with self._writing:
                await self._call.write(serialize(message))
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise self._broken("the stream is over") from error
        except asyncio.CancelledError as error:
            if _cancelled_here():
                raise
            raise self._broken("the stream is over") from error

    async def receive(self) -> object | None:
        """The next message, or None once the server ended the stream cleanly. Safe to cancel.

        Raises:
            BraidError: the server ended the stream with this error; `Unavailable` if the stream broke.
        """
        return await self._inbox.get()

    async def close(self) -> None:
        """Ends the stream and waits briefly for the server to end its side."""
        try:
            async with asyncio.timeout(STREAM_CLOSE_SECONDS), self._writing:
                await self._call.write(END_MARK)
                await self._call.done_writing()
                await asyncio.wait((self._pump,))
        except (TimeoutError, grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self._inbox.fail(self._broken("the stream broke: its end marker did not arrive"))
        finally:
            self._call.cancel()
            self._pump.cancel()
            self._inbox.fail(self._broken("the stream was closed here"))

    async def _read(self) -> None:
        try:
            while isinstance(message := await self._call.read(), bytes):  # else grpc.aio.EOF
                self._failures.answered()
                await self._inbox.put(self._parse(message), len(message))
            self._inbox.end()
        except grpc.aio.AioRpcError as error:
            self._inbox.fail(await self._failures.error_of(error))
        except BraidError as error:  # a message that does not parse
            self._inbox.fail(error)
            self._call.cancel()
        except asyncio.CancelledError:
            self._inbox.fail(self._broken("the connection was closed here"))
            raise

    def _broken(self, message: str) -> Unavailable:
        return Unavailable(f"{self._address}: {message}")


def _as_is(data: bytes) -> bytes:
    return data


def _cancelled_here() -> bool:
    """Whether this task was cancelled; grpc.aio also raises CancelledError when a channel is closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
