"""Handlers behind authorizers: one wrapper for all methods of a replica. It knows no roles.

All authorizers agree to a call, in their order, before its handler runs.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from typing import cast

from braid.kernel.errors import BraidError, DeadlineExceeded
from braid.kernel.limits.rpc import HELLO_SECONDS
from braid.kernel.ports import (
    Authorizer,
    Caller,
    DuplexHandler,
    DuplexServing,
    RpcService,
    StreamHandler,
    UnaryHandler,
)


def authorized(service: RpcService, authorizers: Sequence[Authorizer]) -> RpcService:
    """The same service, where no handler runs before all authorizers that guard its method have agreed.

    A stream that says nothing for long is ended, whether its method is guarded or not.
    """

    def door(path: str) -> _Door:
        return _Door(path, authorizers)

    return service.wrapped(
        lambda path, handler: _unary(door(path), handler),
        lambda path, handler: _stream(door(path), handler),
        lambda path, handler: _duplex(door(path), handler),
    )


class _Door:
    """The authorizers before the handler of one method."""

    def __init__(self, path: str, authorizers: Sequence[Authorizer]) -> None:
        self._path = path
        self._guards = tuple(each for each in authorizers if each.guards(path))
        self._by_caller = tuple(each for each in self._guards if not each.waits_for_hello(path))
        self._by_hello = tuple(each for each in self._guards if each.waits_for_hello(path))

    def authorize(self, request: object, caller: Caller) -> None:
        """Asks all authorizers about a request."""
        for each in self._guards:
            each.authorize(self._path, request, caller)

    def authorize_caller(self, caller: Caller) -> None:
        """Asks all authorizers what can be said of a duplex call before its hello."""
        for each in self._by_caller:
            each.authorize(self._path, None, caller)
        for each in self._by_hello:
            each.authenticate(self._path, caller)

    def authorize_hello(self, hello: object, caller: Caller) -> None:
        """Asks the authorizers that wait for the hello of a duplex call."""
        for each in self._by_hello:
            each.authorize(self._path, hello, caller)

    def check_later(self, hello: object, message: object, caller: Caller) -> None:
        """Asks the same authorizers about a later message."""
        for each in self._by_hello:
            each.check_later(self._path, hello, message, caller)

    def opened(self, request: object, caller: Caller, work: "_Work", call: ExitStack) -> None:
        """Has all authorizers look after an open stream, until `call` is closed."""
        for each in self._guards:
            call.callback(each.opened(self._path, request, caller, work.end))

    def opened_by_caller(self, caller: Caller, work: "_Work", call: ExitStack) -> None:
        """Has those look after a duplex call that need no hello."""
        for each in self._by_caller:
            call.callback(each.opened(self._path, None, caller, work.end))

    def opened_by_hello(self, hello: object, caller: Caller, work: "_Work", call: ExitStack) -> None:
        """Has the others look after it."""
        for each in self._by_hello:
            call.callback(each.opened(self._path, hello, caller, work.end))


def _unary(door: _Door, handler: UnaryHandler) -> UnaryHandler:
    async def handle(request: object, caller: Caller) -> object:
        door.authorize(request, caller)
        return await handler(request, caller)

    return handle


def _stream(door: _Door, handler: StreamHandler) -> StreamHandler:
    async def handle(request: object, caller: Caller) -> AsyncIterator[object]:
        door.authorize(request, caller)
        work = _Work()
        with ExitStack() as call:
            door.opened(request, caller, work, call)
            async with aclosing(cast("AsyncGenerator[object]", handler(request, caller))) as responses:
                while True:
                    with work.going_on():
                        try:
                            response = await anext(responses)
                        except StopAsyncIteration:
                            return
                    yield response

    return handle


def _duplex(door: _Door, handler: DuplexHandler) -> DuplexHandler:
    async def handle(stream: DuplexServing) -> None:
        caller, work = stream.caller, _Work()
        door.authorize_caller(caller)
        with ExitStack() as call:
            door.opened_by_caller(caller, work, call)
            with work.going_on():
                hello = await _first_message(stream)
                if hello is None:  # it ended before it asked for anything
                    return
                door.authorize_hello(hello, caller)
                door.opened_by_hello(hello, caller, work, call)
                await handler(_Checked(door, hello, stream))

    return handle


async def _first_message(stream: DuplexServing) -> object | None:
    """The message that says what a stream is for; None when it ended. Raises `DeadlineExceeded` when none comes."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            return await stream.receive()
    except TimeoutError:
        text, remedy = f"no hello came within {HELLO_SECONDS:g} s", "send the first message when the stream is open"
        raise DeadlineExceeded(text, field="hello", remedy=remedy) from None


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

    def __init__(self, door: _Door, hello: object, stream: DuplexServing) -> None:
        self._door = door
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
            self._door.check_later(self._hello, message, self._stream.caller)
        return message
