"""A hostile caller: calls one method after the other, unary or streaming, and notes what it is answered."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Final, Protocol

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from braid.kernel.errors import BraidError, Code
from braid.kernel.ports import CallOptions, DuplexCall, RpcChannel
from tests.simulation.fuzzing.coverage import OK, Coverage
from tests.simulation.fuzzing.mesh import hellos
from tests.simulation.fuzzing.samples import samples
from tests.simulation.fuzzing.values import Requests, fields_in
from tests.support.garbage import Garbage
from tests.unit.kernel.access.api import Method

CALL_SECONDS: Final = 30.0  # of virtual time; a handler that waits for topics takes 8
LISTEN_SECONDS: Final = 0.3
MESSAGES_MAX: Final = 8  # on one stream
SAMPLES_PART: Final = 0.5  # of calls that begin with what is accepted
GARBAGE_PART: Final = 0.02  # of calls whose bytes are no message at all


class Finding(Exception):
    """An answer that no caller may get, whatever it sends."""


class World(Protocol):
    """The mesh that is called: see `mesh.FuzzedMesh`."""

    def channel(self, service: str) -> RpcChannel:
        """A connection to the leader of a service."""
        ...


class Caller:
    """Calls methods with what its dice give.

    Args:
        world: What is called.
        dice: Every choice.
        requests: Makes requests.
        coverage: Told of every call.
        progressed: Called after each call.
    """

    def __init__(
        self,
        world: World,
        dice: random.Random,
        requests: Requests,
        coverage: Coverage,
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        self._world = world
        self._dice = dice
        self._requests = requests
        self._coverage = coverage
        self._progressed = progressed
        self._number = 0
        self.last: Message | Garbage | None = None
        self.made_seconds = 0.0  # of processor time, for requests

    async def call(self, method: Method) -> None:
        """Calls a method once. Raises `Finding` for an answer that says a program failed, and for none at all."""
        called = self._coverage.of(method)
        called.calls += 1
        channel = self._world.channel(method.service)
        try:
            if method.client_streams:
                await self._duplex(channel, method)
            elif method.server_streams:
                await self._listen(channel, method)
            else:
                request = self._request(method)
                await channel.unary(self._path(method), request, self._answer(method), CallOptions(CALL_SECONDS))
            called.answers[OK] += 1
        except BraidError as error:
            called.answers[error.code.name] += 1
            if error.code is Code.INTERNAL or "no answer within" in str(error):
                raise Finding(f"{type(error).__name__}: {error}") from error
        finally:
            await channel.close()
            self._progressed()

    async def _listen(self, channel: RpcChannel, method: Method) -> None:
        request = self._request(method)
        responses = channel.server_stream(self._path(method), request, self._answer(method), CallOptions(CALL_SECONDS))
        async with contextlib.aclosing(responses):  # type: ignore[type-var]  # it is an async generator
            with contextlib.suppress(TimeoutError, StopAsyncIteration):
                async with asyncio.timeout(LISTEN_SECONDS):
                    for _ in range(MESSAGES_MAX):
                        await anext(responses)

    async def _duplex(self, channel: RpcChannel, method: Method) -> None:
        stream = channel.duplex(self._path(method), self._answer(method), CallOptions(CALL_SECONDS))
        listening = asyncio.create_task(self._read(stream))
        try:
            self._number += 1
            hello = hellos(self._number).get(method.name)
            if hello is not None and self._dice.random() < 0.75:
                assert isinstance(hello, Message)
                await self._say(stream, method, self._spoiled(hello))
            for _ in range(self._dice.randint(0, MESSAGES_MAX)):
                await self._say(stream, method, self._request(method))
                if self._dice.random() < 0.3:
                    await asyncio.sleep(0.01)
            await asyncio.wait([listening], timeout=LISTEN_SECONDS)
        finally:
            if self._dice.random() < 0.7:
                await stream.close()
            if not listening.done():
                listening.cancel()
            await asyncio.wait([listening])
        if not listening.cancelled() and (error := listening.exception()) is not None:
            raise error

    async def _say(self, stream: DuplexCall, method: Method, message: Message | Garbage) -> None:
        self._visit(method, message)
        with contextlib.suppress(BraidError):  # how the stream ended is what its answers say
            await stream.send(message)

    def _spoiled(self, hello: Message) -> Message:
        if self._dice.random() < 0.4:
            self._requests.change(getattr(hello, "hello"))  # noqa: B009 - of several types
        return hello

    async def _read(self, stream: DuplexCall) -> None:
        while await stream.receive() is not None:
            pass

    def _request(self, method: Method) -> Message | Garbage:
        began = time.process_time()
        request = Garbage() if self._dice.random() < GARBAGE_PART else self._message(method)
        self._visit(method, request)
        self.made_seconds += time.process_time() - began
        return request

    def _message(self, method: Method) -> Message:
        known = samples(method)
        if not known or self._dice.random() > SAMPLES_PART:
            return self._requests.make(method.request)
        request = self._dice.choice(known)
        self._requests.change(request)
        return request

    def _visit(self, method: Method, message: Message | Garbage) -> None:
        self.last = message
        if isinstance(message, Message):
            self._coverage.of(method).visited.update(fields_in(message))

    def _path(self, method: Method) -> str:
        return method.path

    def _answer(self, method: Method) -> type[Message]:
        response: Descriptor = method.response
        return GetMessageClass(response)
