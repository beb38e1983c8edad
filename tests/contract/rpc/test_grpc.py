"""Behaviour that only a real connection has: peers killed by the kernel, default deadlines, health, hostile bytes."""

import asyncio
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from typing import cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1 import health_pb2

from braid.kernel.errors import Exhausted, Invalid, Unavailable
from braid.kernel.limits.rpc import UNARY_DEADLINE_SECONDS
from braid.kernel.ports import Caller, CallOptions, DuplexServing
from braid.rpc.grpc import handlers
from braid.rpc.grpc.transport import GrpcTransport
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say, text

CLIENT = textwrap.dedent(
    """
    import asyncio, sys
    from google.protobuf.wrappers_pb2 import StringValue
    from braid.kernel.ports import CallOptions
    from braid.rpc.grpc.transport import GrpcTransport

    async def main() -> None:
        call = GrpcTransport().channel(sys.argv[1]).duplex(sys.argv[2], StringValue, CallOptions(5.0))
        await call.send(StringValue(value="here"))
        print((await call.receive()).value, flush=True)
        if sys.argv[3] == "close":
            await call.close()
            return
        await asyncio.Event().wait()

    asyncio.run(main())
    """
)


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """gRPC alone."""
    made = Mesh(GrpcTransport(), GrpcTransport())
    yield made
    await made.close()


class Watched:
    """How and when a stream ended, as its handler saw it."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[tuple[str, float]] = asyncio.get_running_loop().create_future()

    async def __call__(self, stream: DuplexServing) -> None:
        how = "clean"
        try:
            while (message := await stream.receive()) is not None:
                await stream.send(message)
        except Unavailable:
            how = "broken"
        self.ended.set_result((how, time.monotonic()))


def _raw_unary(channel: grpc.aio.Channel, method: str) -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
    return channel.unary_unary(path(method), bytes, bytes)


async def _client(address: str, then: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, address, path("Talk"), then, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 20) == b"here\n"
    return process


@pytest.mark.parametrize("attempt", range(3))
async def test_a_killed_client_is_noticed_in_milliseconds(mesh: Mesh, attempt: int) -> None:
    watched = Watched()
    server = await mesh.serve(duplexes={"Talk": watched})
    process = await _client(server.address, "stay")
    process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    how, ended = await asyncio.wait_for(watched.ended, 60)
    await process.wait()
    assert how == "broken"
    print(f"noticed after {(ended - killed) * 1000:.1f} ms")


async def test_a_client_process_that_closes_ends_well(mesh: Mesh) -> None:
    watched = Watched()
    server = await mesh.serve(duplexes={"Talk": watched})
    process = await _client(server.address, "close")
    how, _ = await asyncio.wait_for(watched.ended, 10)
    assert await process.wait() == 0
    assert how == "clean"


async def test_a_client_that_knows_no_end_mark_ends_well_too(mesh: Mesh) -> None:
    watched = Watched()
    server = await mesh.serve(duplexes={"Talk": watched})
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = channel.stream_stream(path("Talk"), bytes, bytes)()
        await call.write(say("hello").SerializeToString())
        await call.read()
        await call.done_writing()
        how, _ = await asyncio.wait_for(watched.ended, 60)
    assert how == "clean"


async def test_a_client_that_knows_no_end_mark_and_breaks_is_broken(mesh: Mesh) -> None:
    watched = Watched()
    server = await mesh.serve(duplexes={"Talk": watched})
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = channel.stream_stream(path("Talk"), bytes, bytes)()
        await call.write(say("hello").SerializeToString())
        await call.read()
    how, _ = await asyncio.wait_for(watched.ended, 60)
    assert how == "broken"


async def test_a_server_that_comes_back_is_reached_again_quickly(mesh: Mesh) -> None:
    async def echo(request: StringValue, caller: Caller) -> StringValue:
        return request

    server = await mesh.serve(unaries={"Echo": echo})
    channel = mesh.channel(server.address)
    await channel.unary(path("Echo"), say("x"), StringValue, OPTIONS)
    await server.stop(0.0)
    with pytest.raises(Unavailable):
        await channel.unary(path("Echo"), say("x"), StringValue, OPTIONS)
    await mesh.serve(unaries={"Echo": echo}, address=server.address)
    async with asyncio.timeout(5):
        while True:
            try:
                await channel.unary(path("Echo"), say("x"), StringValue, CallOptions(1.0))
            except Unavailable:
                await asyncio.sleep(0.02)
            else:
                break


async def test_a_call_without_a_deadline_gets_one(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "UNARY_DEADLINE_SECONDS", 0.1)

    async def hang(request: StringValue, caller: Caller) -> StringValue:
        await asyncio.Event().wait()
        return request

    server = await mesh.serve(unaries={"Hang": hang})
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await _raw_unary(channel, "Hang")(b"")
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert UNARY_DEADLINE_SECONDS > 0.1


async def test_bytes_that_are_no_message_are_invalid(mesh: Mesh) -> None:
    async def echo(stream: DuplexServing) -> None:
        await stream.send(say(text(await stream.receive())))

    async def same(request: StringValue, caller: Caller) -> StringValue:
        return request

    server = await mesh.serve(unaries={"Same": same}, duplexes={"Echo": echo})
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await _raw_unary(channel, "Same")(b"\xff\xff\xff", timeout=5)
        call = channel.stream_stream(path("Echo"), bytes, bytes)()
        await call.write(b"\xff\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as duplex:
            await call.read()
    assert unary.value.code() == duplex.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_received_message_over_the_limit_is_refused(mesh: Mesh) -> None:
    async def same(request: StringValue, caller: Caller) -> StringValue:
        return request

    server = await mesh.serve(unaries={"Same": same})
    async with grpc.aio.insecure_channel(server.address, options=[("grpc.max_send_message_length", -1)]) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await _raw_unary(channel, "Same")(b"x" * (20 << 20), timeout=10)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(Exhausted):
        await mesh.channel(server.address).unary(path("Same"), say("x" * (20 << 20)), StringValue, OPTIONS)


async def test_health_follows_serving(mesh: Mesh) -> None:
    server = await mesh.serve()
    async with grpc.aio.insecure_channel(server.address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        for serving, status in ((False, "NOT_SERVING"), (True, "SERVING"), (False, "NOT_SERVING")):
            server.set_serving(serving)
            answer = await check(health_pb2.HealthCheckRequest(), timeout=5)
            assert health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status) == status


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "127.0.0.1:port", ":7401"])
async def test_an_address_out_of_form_is_invalid(mesh: Mesh, address: str) -> None:
    with pytest.raises(Invalid, match="host:port"):
        await mesh.serve(address=address)


async def test_text_that_headers_cannot_carry_is_invalid(mesh: Mesh) -> None:
    with pytest.raises(Invalid) as error:
        await mesh.channel("127.0.0.1:1").unary(path("X"), say(""), StringValue, CallOptions(1.0, tenant="zoë"))
    assert error.value.field == "tenant"


async def test_a_write_to_a_caller_that_is_gone_asks_grpc_nothing_more() -> None:
    """grpc names the peer of a connection that is gone through a null pointer, and the whole process dies."""

    class Gone:
        """A call whose connection broke."""

        asked = 0

        async def write(self, message: bytes) -> None:
            raise grpc.aio.UsageError(f"{len(message)} bytes to nobody")

        def peer(self) -> str:
            self.asked += 1
            return ""

    gone, caller = Gone(), Caller("app", "default", "", "ipv4:127.0.0.1:7")
    with pytest.raises(Unavailable, match=r"the connection to ipv4:.* is gone"):
        await handlers._write(cast("handlers.Context", gone), caller, b"late")
    assert not gone.asked
