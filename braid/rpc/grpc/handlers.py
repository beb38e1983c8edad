"""Adapts the handlers of an `RpcService` to grpc.aio: caller identity, errors as statuses, bounded streams."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Final, TypeAlias, cast

import grpc

from braid.kernel.errors import BraidError, DeadlineExceeded, Invalid, StreamExpired, Unavailable
from braid.kernel.limits.rpc import (
    BROKEN_STREAM_NOTICE_SECONDS,
    BROKEN_STREAM_NOTICES_MAX,
    MESSAGE_BYTES_MAX,
    REQUEST_SECONDS,
    UNARY_DEADLINE_SECONDS,
)
from braid.kernel.ports import Authenticator, Caller, DuplexHandler, RpcService, StreamHandler, UnaryHandler
from braid.rpc.authenticators import bearer_of, caller_of, refused_caller
from braid.rpc.grpc.stream_lifetimes import StreamLifetimes
from braid.rpc.grpc.wire import END_MARK, marks_its_end, trailers_of
from braid.rpc.inbox import Inbox
from braid.rpc.messages import parser, serialize
from braid.rpc.tls import certificate_of, shown

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
Parse: TypeAlias = Callable[[bytes], object]
Admit: TypeAlias = Callable[[Context], AbstractAsyncContextManager[Caller]]

_log: Final = logging.getLogger("braid.rpc")


class Streams:
    """The open streams of a server. It ends them when the server stops, or when their certificate has become old."""

    def __init__(self, lifetimes: StreamLifetimes | None = None) -> None:
        """Streams of callers with certificates end when their `lifetimes` do."""
        self._lifetimes = lifetimes or StreamLifetimes()
        self._inboxes: set[Inbox] = set()
        self._responding: set[asyncio.Task[None]] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._ends: dict[Inbox, Callable[[], None]] = {}
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        for inbox in tuple(self._inboxes):
            inbox.fail(_stopping())
        for task in tuple(self._responding):
            task.cancel()

    async def ended(self) -> None:
        """Cancels handlers that outlived their broken streams."""
        if not self._handling:
            return
        for task in self._handling:
            task.cancel()
        await asyncio.wait(tuple(self._handling))

    async def respond(self, caller: Caller, writing: Callable[[], Awaitable[None]]) -> None:
        """Runs the handler of a server stream as its own task, so that stopping can be told from a broken call."""
        responding = asyncio.ensure_future(writing())
        expiring = asyncio.get_running_loop().create_future()
        end = self._lifetimes.begin(caller, lambda: expiring.set_result(None))
        self._responding.add(responding)
        try:
            await asyncio.wait((responding, expiring), return_when=asyncio.FIRST_COMPLETED)
            expired = not responding.done()
        finally:
            end()
            self._responding.discard(responding)
            responding.cancel()
        if expired:
            await asyncio.wait((responding,))  # it tidies up before its caller comes again
            if not responding.cancelled():
                responding.result()
            raise _expired()
        if responding.cancelled():
            raise _stopping()
        responding.result()

    def open(self, inbox: Inbox, caller: Caller) -> None:
        if self._stopping:
            inbox.fail(_stopping())
        self._inboxes.add(inbox)
        self._ends[inbox] = self._lifetimes.begin(caller, lambda: inbox.fail(_expired()))

    def handle(self, handling: asyncio.Task[None], inbox: Inbox) -> None:
        self._handling.add(handling)

        def ended(task: asyncio.Task[None]) -> None:
            self._handling.discard(task)
            self._inboxes.discard(inbox)
            self._ends.pop(inbox)()
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, BraidError):
                _log.error("the handler of a stream failed", exc_info=error)

        handling.add_done_callback(ended)


def _expired() -> StreamExpired:
    return StreamExpired("the stream lasted as long as one may", remedy="open it again")


def _stopping() -> Unavailable:
    return Unavailable("the replica is stopping", remedy="ask another replica")


def handlers_of(service: RpcService, streams: Streams, authenticator: Authenticator) -> list[grpc.GenericRpcHandler]:
    """The service's methods, grouped by the gRPC service their paths name, for callers whom `authenticator` knows.

    To grpc all of them are streams of requests, also where there is one: it would wait without end for a request that
    never comes, and read it before it is known who calls. On the wire there is no difference.
    """
    grouped: dict[str, dict[str, MethodHandler]] = {}

    def add(path: str, handler: MethodHandler) -> None:
        name, _, method = path.removeprefix("/").partition("/")
        grouped.setdefault(name, {})[method] = handler

    for path, (request, unary) in service.unary.items():
        admit = admitting(authenticator, service, path)
        add(path, grpc.stream_unary_rpc_method_handler(_serve_unary(unary, parser(request), admit)))
    for path, (request, stream) in service.server_stream.items():
        admit = admitting(authenticator, service, path)
        add(path, grpc.stream_stream_rpc_method_handler(_serve_stream(stream, parser(request), streams, admit)))
    for path, (request, duplex) in service.duplex.items():
        parse: Parse = parser(request, service.bytes_max.get(path, MESSAGE_BYTES_MAX))
        admit = admitting(authenticator, service, path)
        add(path, grpc.stream_stream_rpc_method_handler(_serve_duplex(duplex, parse, streams, admit)))
    return [grpc.method_handlers_generic_handler(name, methods) for name, methods in grouped.items()]


async def _abort(context: Context, error: BraidError) -> None:
    """Ends a call with an error. Does nothing if the caller is gone: the call has ended then.

    The caller of this returns, and grpc raises its `AbortError` again. It keeps that error with the call. So an error
    that remembered the frames it went through, which know the call, would make a cycle of each refused call. A flood of
    them, freed together by the garbage collector, held up everybody for a tenth of a second.
    """
    try:
        await context.abort(*trailers_of(error))
    except grpc.aio.AbortError as aborted:
        aborted.__traceback__ = aborted.__context__ = None
    except grpc.aio.BaseError as gone:  # ExecuteBatchError, which grpc would log as a failure of ours
        raise asyncio.CancelledError from gone


async def _write(context: Context, caller: Caller, message: bytes) -> None:
    """Sends a message and waits for flow control.

    The peer is not read from the context: for a closed connection, grpc would read its name through a null pointer.

    Raises:
        Unavailable: the call had ended; grpc may report that much later on an event loop that runs late.
    """
    try:
        await context.write(message)
    except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
        raise Unavailable(f"the connection to {caller.peer} is gone") from error


def admitting(authenticator: Authenticator, service: RpcService, path: str) -> Admit:
    """Surrounds each call of a method: says who calls, and counts the call while it lasts.

    It raises before a request is parsed: `Unauthenticated` where nothing proves who calls, or another is claimed, and
    what `service.admit` raises. `service.refused` hears of those who are not known.
    """
    return lambda context: _Admission(authenticator, service, path, context)


class _Admission(AbstractAsyncContextManager[Caller]):
    """One call from its beginning to its end. It is a class because a generator costs each refused call twice this."""

    __slots__ = ("_authenticator", "_context", "_done", "_path", "_service")

    def __init__(self, authenticator: Authenticator, service: RpcService, path: str, context: Context) -> None:
        self._authenticator = authenticator
        self._service = service
        self._path = path
        self._context = context

    async def __aenter__(self) -> Caller:
        metadata, peer = self._context.invocation_metadata(), self._context.peer()
        authentication, identity = self._context.auth_context(), None
        try:
            identity = await self._authenticator.identify(shown(authentication, bearer_of(metadata)))
            caller = caller_of(metadata, peer, identity, certificate_of(authentication))
        except BraidError as error:
            self._service.refused(self._path, refused_caller(metadata, peer, identity), error)
            raise
        admitted, self._done = await self._service.admit(self._path, caller)
        return admitted

    async def __aexit__(self, *_: object) -> None:
        self._done()


async def _request(context: Context) -> bytes:
    """The request of a call that has one.

    Raises:
        DeadlineExceeded: it did not come in time.
        Invalid: the call ended without it.
        Unavailable: the connection broke.
    """
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await context.read()
    except TimeoutError:
        text, remedy = f"no request came within {REQUEST_SECONDS:g} s", "send the request together with the call"
        raise DeadlineExceeded(text, remedy=remedy) from None
    except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
        raise Unavailable("the connection of the call is gone") from error
    if not isinstance(request, bytes):  # grpc.aio.EOF
        raise Invalid("the call ended without a request")
    return request


def _serve_unary(handler: UnaryHandler, parse: Parse, admit: Admit) -> Callable[[object, Context], Awaitable[bytes]]:
    async def serve(_: object, context: Context) -> bytes:
        try:
            # grpc itself ends a call at the caller's deadline; this one is for callers that set none.
            async with asyncio.timeout(None if _has_deadline(context) else UNARY_DEADLINE_SECONDS):
                async with admit(context) as caller:
                    return serialize(await handler(parse(await _request(context)), caller))
        except BraidError as error:
            await _abort(context, error)
        except TimeoutError:
            await _abort(context, DeadlineExceeded(f"no answer within {UNARY_DEADLINE_SECONDS} s"))
        return b""

    return serve


def _has_deadline(context: Context) -> bool:
    remaining = cast("float | None", context.time_remaining())
    return remaining is not None and remaining != float("inf")


def _serve_stream(
    handler: StreamHandler, parse: Parse, streams: Streams, admit: Admit
) -> Callable[[object, Context], Awaitable[None]]:
    async def serve(_: object, context: Context) -> None:
        async def write(request: object, caller: Caller) -> None:
            responses = handler(request, caller)
            async with aclosing(responses):  # type: ignore[type-var]  # handlers are async generators
                async for response in responses:
                    await _write(context, caller, serialize(response))

        try:
            async with admit(context) as caller:
                request = parse(await _request(context))
                await streams.respond(caller, partial(write, request, caller))
        except BraidError as error:
            await _abort(context, error)

    return serve


def _serve_duplex(
    handler: DuplexHandler, parse: Parse, streams: Streams, admit: Admit
) -> Callable[[object, Context], Awaitable[None]]:
    """Serves a duplex call: the call's own task waits for the handler, which is a separate task.

    If grpc cancels the call because the connection broke, the handler receives `Unavailable` and can clean up.
    """

    async def handle(context: Context, caller: Caller) -> None:
        stream = GrpcDuplexServing(context, parse, caller)
        streams.open(stream.inbox, stream.caller)
        handling = asyncio.get_running_loop().create_task(_awaited(handler(stream)), name="stream handler")
        streams.handle(handling, stream.inbox)
        pump = asyncio.get_running_loop().create_task(stream.pump(), name="stream reader")
        try:
            await asyncio.wait((handling,))
        except asyncio.CancelledError:
            stream.broke()
            raise
        finally:
            pump.cancel()
        handling.result()

    async def serve(_: object, context: Context) -> None:
        try:
            async with admit(context) as caller:
                await handle(context, caller)
        except BraidError as error:  # also of a caller that nobody knows
            await _abort(context, error)

    return serve


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable


class GrpcDuplexServing:
    """The server's end of a bidirectional stream over gRPC."""

    def __init__(self, context: Context, parse: Parse, caller: Caller) -> None:
        self.inbox = Inbox()
        self._context = context
        self._parse = parse
        self._caller = caller
        self._marks_its_end = marks_its_end(context.invocation_metadata())
        self._broken = asyncio.Event()
        self._writing = asyncio.Lock()  # as in `GrpcDuplexCall`

    @property
    def caller(self) -> Caller:
        """The caller that opened the stream."""
        return self._caller

    @property
    def over(self) -> bool:
        """Whether the client ended the stream or is known to be gone; earlier messages may still be unread."""
        return self.inbox.over()

    async def send(self, message: object) -> None:
        """Sends a message after those of other senders; waits for flow control.

        Cancelling a send breaks the stream.

        Raises:
            Unavailable: the peer is gone.
        """
        if self._broken.is_set():
            raise self._gone()
        try:
            async with self._writing:
                await _write(self._context, self._caller, serialize(message))
        except asyncio.CancelledError:
            self.broke()
            raise

    async def receive(self) -> object | None:
        """The next message; None once the client ended the stream cleanly. Safe to cancel.

        Raises:
            StreamExpired: the stream reached its maximum lifetime.
            Unavailable: the connection broke, or the replica is stopping.
        """
        return await self.inbox.get()

    def broke(self) -> None:
        """Notes that the connection is gone."""
        self._broken.set()
        self.inbox.fail(self._gone())

    async def pump(self) -> None:
        """Reads messages until the client ends the stream, or the connection breaks."""
        try:
            while isinstance(message := await self._context.read(), bytes):  # else grpc.aio.EOF
                if message == END_MARK:
                    self.inbox.end()
                else:
                    await self.inbox.put(self._parse(message), len(message))
        except (grpc.aio.BaseError, asyncio.InvalidStateError):
            self.broke()
        except BraidError as error:  # a message that does not parse
            self.inbox.fail(error)
        if self.inbox.over():
            return
        if self._marks_its_end or await self._breaks():
            self.broke()
        else:
            self.inbox.end()

    async def _breaks(self) -> bool:
        """Whether an end without an end marker is a break: grpc cancels the call soon, or later on a busy event
        loop."""
        loop = asyncio.get_running_loop()
        for _ in range(BROKEN_STREAM_NOTICES_MAX):
            begun = loop.time()
            try:
                async with asyncio.timeout(BROKEN_STREAM_NOTICE_SECONDS):
                    await self._broken.wait()
            except TimeoutError:
                if loop.time() - begun < 1.5 * BROKEN_STREAM_NOTICE_SECONDS:
                    break
        return self._broken.is_set()

    def _gone(self) -> Unavailable:
        return Unavailable(f"the connection to {self._caller.peer} is gone")
