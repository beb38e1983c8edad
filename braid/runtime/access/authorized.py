"""Handlers behind an authorizer: one wrapper for all methods of a replica. It knows no roles and no methods."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TypeVar, cast

from braid.kernel.errors import BraidError, DeadlineExceeded
from braid.kernel.limits.leases import HELLO_SECONDS
from braid.kernel.ports import (
    Authorizer,
    Caller,
    DuplexHandler,
    DuplexServing,
    RpcService,
    StreamHandler,
    UnaryHandler,
)

H = TypeVar("H")


def authorized(service: RpcService, authorizer: Authorizer) -> RpcService:
    """The same service, where no guarded handler runs before the authorizer has agreed."""

    def where_guarded(wrap: Callable[[Authorizer, str, H], H]) -> Callable[[str, H], H]:
        return lambda path, handler: wrap(authorizer, path, handler) if authorizer.guards(path) else handler

    return service.wrapped(where_guarded(_unary), where_guarded(_stream), where_guarded(_duplex))


def _unary(authorizer: Authorizer, path: str, handler: UnaryHandler) -> UnaryHandler:
    async def handle(request: object, caller: Caller) -> object:
        authorizer.authorize(path, request, caller)
        return await handler(request, caller)

    return handle


def _stream(authorizer: Authorizer, path: str, handler: StreamHandler) -> StreamHandler:
    async def handle(request: object, caller: Caller) -> AsyncIterator[object]:
        authorizer.authorize(path, request, caller)
        work = _Work()
        close = authorizer.opened(path, request, caller, work.end)
        try:
            async with aclosing(cast("AsyncGenerator[object]", handler(request, caller))) as responses:
                while True:
                    with work.going_on():
                        try:
                            response = await anext(responses)
                        except StopAsyncIteration:
                            return
                    yield response
        finally:
            close()

    return handle


def _duplex(authorizer: Authorizer, path: str, handler: DuplexHandler) -> DuplexHandler:
    waits = authorizer.waits_for_hello(path)

    async def handle(stream: DuplexServing) -> None:
        authorizer.authenticate(path, stream.caller)
        hello: object | None = None
        if waits:
            hello = await _first_message(stream)
            if hello is None:  # it ended before it asked for anything
                return
        authorizer.authorize(path, hello, stream.caller)
        serving = stream if hello is None else _Checked(authorizer, path, hello, stream)
        work = _Work()
        close = authorizer.opened(path, hello, stream.caller, work.end)
        try:
            with work.going_on():
                await handler(serving)
        finally:
            close()

    return handle


async def _first_message(stream: DuplexServing) -> object | None:
    """The message that says what a stream is for; None when it ended. Raises `DeadlineExceeded` when none comes."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            return await stream.receive()
    except TimeoutError:
        raise DeadlineExceeded(f"no hello came within {HELLO_SECONDS:g} s", field="hello") from None


class _Work:
    """A handler that can be ended with an error wherever it waits, as `asyncio.timeout` ends a block."""

    def __init__(self) -> None:
        self._error: BraidError | None = None
        self._task: asyncio.Task[object] | None = None

    def end(self, error: BraidError) -> None:
        """Ends the handler with an error: where it waits now, or before it goes on."""
        if self._error is None:
            self._error = error
            if self._task is not None:
                self._task.cancel()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Surrounds what may be ended. Raises the error that `end` was given."""
        self._raise_error()
        task = self._task = asyncio.current_task()
        assert task is not None, "handlers run in tasks"
        before = task.cancelling()
        try:
            yield
        except asyncio.CancelledError:
            if not self._ended() or task.uncancel() > before:
                raise  # somebody else cancelled it, too
            self._raise_error()
        finally:
            self._task = None
        if self._ended():  # the handler ended by itself although it was cancelled
            task.uncancel()
            self._raise_error()

    def _ended(self) -> bool:
        return self._error is not None

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error from None


class _Checked:
    """A stream whose first message was read to decide on it; later ones must be about the same."""

    def __init__(self, authorizer: Authorizer, path: str, hello: object, stream: DuplexServing) -> None:
        self._authorizer = authorizer
        self._path = path
        self._hello = hello
        self._stream = stream
        self._read = False

    @property
    def caller(self) -> Caller:
        """See `DuplexServing.caller`."""
        return self._stream.caller

    @property
    def over(self) -> bool:
        """See `DuplexServing.over`."""
        return self._stream.over

    async def send(self, message: object) -> None:
        """See `DuplexServing.send`."""
        await self._stream.send(message)

    async def receive(self) -> object | None:
        """See `DuplexServing.receive`. Raises `AccessDenied` for a message about something else than the first."""
        if not self._read:
            self._read = True
            return self._hello
        message = await self._stream.receive()
        if message is not None:
            self._authorizer.check_later(self._path, self._hello, message, self._stream.caller)
        return message
