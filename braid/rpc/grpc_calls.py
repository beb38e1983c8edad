"""The client's end of control RPCs over grpc.aio. A pump reads streams, because cancelling a read cancels the call."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import grpc

from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.rpc import STREAM_CLOSE_SECONDS
from braid.kernel.ports import CallOptions
from braid.rpc.grpc_wire import CLIENT_OPTIONS, END_MARK, END_MARK_KEY, call_metadata, error_of
from braid.rpc.inbox import Inbox
from braid.rpc.messages import parser, serialize

T = TypeVar("T")


class GrpcChannel:
    """One HTTP/2 connection to one replica."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel = grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)

    async def unary(self, method: str, request: object, response_type: type[T], options: CallOptions) -> T:
        """One request, one response.

        Raises:
            Unavailable: the replica cannot be reached, or the connection was closed.
            BraidError: what the server answered.
        """
        call = self._channel.unary_unary(method, serialize, bytes)
        try:
            timeout = max(0.0, options.timeout_seconds)
            response = await call(request, timeout=timeout, metadata=call_metadata(options))
        except grpc.aio.AioRpcError as error:
            raise error_of(error, self._address) from error
        except grpc.aio.UsageError as error:
            raise self._closed() from error
        except asyncio.CancelledError as error:
            if _cancelled_here():
                raise
            raise self._closed() from error
        return parser(response_type)(response)

    async def server_stream(
        self, method: str, request: object, response_type: type[T], options: CallOptions
    ) -> AsyncIterator[T]:
        """One request, many responses; the timeout of `options` does not apply. Raises as `unary` does."""
        make = self._channel.unary_stream(method, serialize, bytes)
        parse = parser(response_type)
        try:
            call = make(request, metadata=call_metadata(options))
        except grpc.aio.UsageError as error:
            raise self._closed() from error
        try:
            while True:
                message = await call.read()
                if not isinstance(message, bytes):  # grpc.aio.EOF
                    return
                yield parse(message)
        except grpc.aio.AioRpcError as error:
            raise error_of(error, self._address) from error
        except asyncio.CancelledError as error:
            if _cancelled_here():
                raise
            raise self._closed() from error
        finally:
            call.cancel()

    def duplex(self, method: str, response_type: type[T], options: CallOptions) -> "GrpcDuplexCall":
        """Opens a bidirectional stream; the timeout of `options` does not apply. Raises `Unavailable` when closed."""
        make = self._channel.stream_stream(method, _as_is, bytes)
        metadata = (*call_metadata(options), (END_MARK_KEY, "1"))
        try:
            return GrpcDuplexCall(make(metadata=metadata), parser(response_type), self._address)
        except grpc.aio.UsageError as error:
            raise self._closed() from error

    async def close(self) -> None:
        """Closes the connection; what is under way on it ends with `Unavailable`."""
        await self._channel.close()

    def _closed(self) -> Unavailable:
        return Unavailable(f"{self._address}: the connection was closed here")


class GrpcDuplexCall:
    """The client's end of a bidirectional stream."""

    def __init__(
        self, call: "grpc.aio.StreamStreamCall[bytes, bytes]", parse: Callable[[bytes], object], address: str
    ) -> None:
        self._call = call
        self._parse = parse
        self._address = address
        self._inbox = Inbox()
        self._writing = asyncio.Lock()  # grpc refuses a second write while one is under way, and is of no use then
        self._pump = asyncio.get_running_loop().create_task(self._read(), name=f"stream of {address}")

    async def send(self, message: object) -> None:
        """Sends a message, after those that others send. A send that is cancelled breaks the stream.

        Raises:
            Unavailable: the stream is over; `receive` tells why.
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
        """The next message, or None when the server ended the stream well. Safe to cancel.

        Raises:
            BraidError: what the server ended the stream with; `Unavailable` when it broke.
        """
        return await self._inbox.get()

    async def close(self) -> None:
        """Ends the stream and waits a moment for the server to end its side."""
        try:
            async with asyncio.timeout(STREAM_CLOSE_SECONDS), self._writing:
                await self._call.write(END_MARK)
                await self._call.done_writing()
                await asyncio.wait((self._pump,))
        except (TimeoutError, grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self._inbox.fail(self._broken("the stream ended before its end was heard"))
        finally:
            self._call.cancel()
            self._pump.cancel()
            self._inbox.fail(self._broken("the stream was closed here"))

    async def _read(self) -> None:
        try:
            while isinstance(message := await self._call.read(), bytes):  # else grpc.aio.EOF
                await self._inbox.put(self._parse(message))
            self._inbox.end()
        except grpc.aio.AioRpcError as error:
            self._inbox.fail(error_of(error, self._address))
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
    """Whether this task was asked to end; grpc.aio also raises CancelledError when a channel is closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
