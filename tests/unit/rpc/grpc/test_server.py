"""How the serving end ends a call with an error, where its caller is there to hear it and where it is not."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import Exhausted, Unavailable
from braid.kernel.ports import Admitted, Caller, CallOptions, RpcService
from braid.rpc.authenticators import CertificateOrToken
from braid.rpc.grpc.handlers import Context, Streams, _abort, _awaited, _serve_stream, admitting
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.grpc.wire import error_of
from braid.rpc.methods import unary


class BatchFailedError(grpc.aio.BaseError):
    """A stand-in for grpc's own `ExecuteBatchError`, which it does not export."""


class Aborting:
    """A context whose `abort` ends as told."""

    def __init__(self, ends: BaseException) -> None:
        self._ends = ends
        self.code: grpc.StatusCode | None = None

    async def abort(self, code: grpc.StatusCode, *_: object) -> None:
        """Raises, as grpc's own always does."""
        self.code = code
        raise self._ends


def abort(ends: BaseException) -> Aborting:
    """Ends a call with an error."""
    context = Aborting(ends)
    asyncio.run(_abort(cast("Context", context), Exhausted("too much")))
    return context


def test_an_error_reaches_a_caller_that_is_there() -> None:
    assert abort(grpc.aio.AbortError("as grpc's own")).code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_refused_call_is_freed_without_the_collector() -> None:
    """A flood's calls, freed together by the garbage collector, stop everything in the process meanwhile."""

    async def refuse(path: str, caller: Caller) -> Admitted:
        raise Exhausted("too much")

    async def aborted_calls() -> int:
        service = RpcService("any", {"/any/Get": unary(StringValue, echo)}, {}, {}, admit=refuse)
        transport = GrpcTransport()
        server = await transport.serve("127.0.0.1:0", service)
        channel = transport.channel(server.address)
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                with pytest.raises(Exhausted):
                    await channel.unary("/any/Get", StringValue(), StringValue, CallOptions(10.0))
            left = sum(isinstance(each, grpc.aio.AbortError) for each in gc.get_objects())
        finally:
            gc.enable()
        await channel.close()
        await server.stop(0)
        return left

    assert asyncio.run(aborted_calls()) < 10, "only the last calls may be ending still"


def test_a_caller_that_is_gone_is_no_failure_of_the_handler() -> None:
    """grpc could not send the status: `ExecuteBatchError`, of which it would log a trace for each such stream."""
    with pytest.raises(asyncio.CancelledError):
        abort(BatchFailedError("the call is over"))


class Gone(Aborting):
    """The context of a server stream whose caller is gone, which grpc has not told yet."""

    async def read(self) -> bytes:
        """The request, which had come before."""
        return b""

    async def write(self, _: object) -> None:
        """Fails, as grpc's own does after the call."""
        raise BatchFailedError("the call is over")

    def peer(self) -> str:
        """Whose it is."""
        return "host:1"

    def invocation_metadata(self) -> tuple[()]:
        """None."""
        return ()

    def auth_context(self) -> dict[str, list[bytes]]:
        """That of plaintext."""
        return {}


async def endless(_: object, caller: object) -> AsyncIterator[StringValue]:
    """A handler of a server stream."""
    while True:
        yield StringValue(value=str(caller))


async def echo(request: StringValue, caller: Caller) -> StringValue:
    """A handler that no call reaches."""
    return request


def test_a_server_stream_ends_quietly_if_its_caller_left_early() -> None:
    context = Gone(BatchFailedError("the call is over"))
    admit = admitting(CertificateOrToken(), RpcService("any", {}, {}, {}), "/any/Endless")
    serve = _serve_stream(endless, StringValue.FromString, Streams(), admit)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_awaited(serve(b"", cast("Context", context))))
    assert context.code is grpc.StatusCode.UNAVAILABLE


def test_a_status_that_grpc_lost_is_a_stream_that_broke() -> None:
    """A client that writes while the server ends the call is told of an internal error by its own grpc."""
    lost = grpc.aio.AioRpcError(
        grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), grpc.aio.Metadata(), "Internal error from Core"
    )
    assert isinstance(error_of(lost, "host:1"), Unavailable)
