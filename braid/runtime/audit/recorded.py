"""Handlers whose calls are recorded: one wrapper for all methods of a replica, outside of the one that decides."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import cast

from braid.kernel.errors import BraidError, StreamExpired, Unavailable
from braid.kernel.ports import Caller, DuplexHandler, DuplexServing, RpcService, StreamHandler, UnaryHandler
from braid.runtime.audit.recorder import Recorder


def recorded(service: RpcService, recorder: Recorder) -> RpcService:
    """The same service, whose calls are recorded; also those that the transport refuses because of who calls."""

    def refused(path: str, caller: Caller, error: BraidError) -> None:
        recorder.failed(_short(path), None, caller, error, stream=path not in service.unary)

    handlers = service.wrapped(partial(_unary, recorder), partial(_stream, recorder), partial(_duplex, recorder))
    return replace(handlers, refused=refused)


def _unary(recorder: Recorder, path: str, handler: UnaryHandler) -> UnaryHandler:
    rpc = _short(path)

    async def handle(request: object, caller: Caller) -> object:
        try:
            response = await handler(request, caller)
        except BaseException as error:
            recorder.failed(rpc, request, caller, error, stream=False)
            raise
        recorder.done(rpc, request, caller)
        return response

    return handle


def _stream(recorder: Recorder, path: str, handler: StreamHandler) -> StreamHandler:
    rpc = _short(path)

    async def handle(request: object, caller: Caller) -> AsyncIterator[object]:
        opened = False
        try:
            async with aclosing(cast("AsyncGenerator[object]", handler(request, caller))) as responses:
                async for response in responses:
                    if not opened:
                        opened = True
                        recorder.opened(rpc, request, caller)
                    yield response
        except Exception as error:
            opened = True
            if not _is_an_end(error):
                recorder.failed(rpc, request, caller, error, stream=True)
            raise
        finally:
            if not opened:  # it was let in, and there was nothing to tell
                recorder.opened(rpc, request, caller)

    return handle


def _duplex(recorder: Recorder, path: str, handler: DuplexHandler) -> DuplexHandler:
    rpc = _short(path)

    async def handle(stream: DuplexServing) -> None:
        overheard = _Overheard(recorder, rpc, stream)
        try:
            await handler(overheard)
        except Exception as error:
            if not _is_an_end(error):
                recorder.failed(rpc, overheard.first, stream.caller, error, stream=True)
            raise

    return handle


class _Overheard:
    """A stream that is recorded as opened once it goes on after its first message, which says what it is about."""

    def __init__(self, recorder: Recorder, rpc: str, stream: DuplexServing) -> None:
        self._recorder = recorder
        self._rpc = rpc
        self._stream = stream
        self._opened = False
        self.first: object | None = None

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
        self._goes_on()
        await self._stream.send(message)

    async def receive(self) -> object | None:
        """See `DuplexServing.receive`."""
        if self.first is not None:
            self._goes_on()
            return await self._stream.receive()
        self.first = await self._stream.receive()
        return self.first

    def _goes_on(self) -> None:
        if not self._opened:
            self._opened = True
            self._recorder.opened(self._rpc, self.first, self._stream.caller)


def _is_an_end(error: Exception) -> bool:
    """Whether an error only says that a stream is over: its connection, its time, or the replica's."""
    return isinstance(error, StreamExpired | Unavailable)


def _short(path: str) -> str:
    return path.rpartition("/")[2]
