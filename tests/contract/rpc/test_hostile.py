"""Peers that stall, send too much or compress: each connection and message is bounded before it is parsed."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1 import health_pb2, health_pb2_grpc

from braid.host.tls.files import TlsFiles
from braid.kernel.errors import DeadlineExceeded, Exhausted, Unavailable, Unsupported
from braid.kernel.limits.rpc import METADATA_BYTES_MAX
from braid.kernel.ports import Caller, CallOptions, DuplexServing, RpcServer, RpcService
from braid.rpc.grpc import handlers, wire
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import duplex, server_stream, unary
from braid.rpc.tls import TlsServing
from braid.runtime.access import authorized as authorized_module
from braid.runtime.access.authorized import authorized
from testbed.authority import Authority
from testbed.stalled import KINDS, Stalled
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say, text

CLOSED_SECONDS: Final = 10.0  # within it a connection that stalls is closed, where the bound is one second
LIMIT: Final = 10_000


async def same(request: StringValue, caller: Caller) -> StringValue:
    """Answers with what it was asked."""
    return request


async def some(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
    """Answers with what it was asked."""
    yield request


async def echo(stream: DuplexServing) -> None:
    """Answers the first message."""
    await stream.send(say(text(await stream.receive())))


def small(monkeypatch: pytest.MonkeyPatch, **options: int) -> None:
    """Has servers bound something more tightly, so that tests are short."""
    smaller = {f"grpc.{key}": value for key, value in options.items()}
    monkeypatch.setattr("braid.rpc.grpc.server.SERVER_OPTIONS", tuple({**dict(wire.SERVER_OPTIONS), **smaller}.items()))


@asynccontextmanager
async def serving(transport: GrpcTransport) -> AsyncIterator[RpcServer]:
    """A server with two methods."""
    unaries, streams = {path("Same"): unary(StringValue, same)}, {path("Some"): server_stream(StringValue, some)}
    service = RpcService("braid.test.v1.ExampleService", unaries, streams, {})
    server = await transport.serve("127.0.0.1:0", service)
    try:
        yield server
    finally:
        await server.stop(0.0)


async def refused(call: Awaitable[object]) -> tuple[grpc.StatusCode, str]:
    """How a call was refused."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or ""


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_stalls_is_closed_in_time(
    kind: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, server_handshake_timeout_ms=1_000, max_connection_idle_ms=1_000)
    client = authority.client(tmp_path / "client")
    async with serving(GrpcTransport(TlsFiles(authority.service(tmp_path / "server")))) as server:
        with Stalled(server.address, client) as stalled:
            await asyncio.to_thread(stalled.open, kind)
            assert await asyncio.to_thread(stalled.closed_within, CLOSED_SECONDS)


def test_the_options_that_close_them_are_set() -> None:
    options = dict(wire.SERVER_OPTIONS)
    assert options["grpc.server_handshake_timeout_ms"] == 10_000
    assert options["grpc.max_connection_idle_ms"] == 300_000
    assert options["grpc.max_concurrent_streams"] == 25_000
    assert dict(wire.HEALTH_OPTIONS)["grpc.max_connection_age_ms"] == 60_000


async def test_a_connection_too_many_is_closed_and_the_others_go_on() -> None:
    async with serving(GrpcTransport(serving=TlsServing(connections_max=5))) as server:
        host, _, port = server.address.rpartition(":")
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = raw_unary(channel)
            assert await call(b"", timeout=10) == b""
            many = [socket.create_connection((host, int(port))) for _ in range(20)]
            try:
                closed = await asyncio.gather(*(asyncio.to_thread(is_closed, each) for each in many))
                assert closed.count(True) == 16
                assert await call(b"", timeout=10) == b""
            finally:
                for each in many:
                    each.close()


def raw_unary(channel: grpc.aio.Channel, method: str = "Same") -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
    """A method as bytes."""
    return channel.unary_unary(path(method), bytes, bytes)


def raw_stream(channel: grpc.aio.Channel, method: str = "Same") -> "grpc.aio.StreamStreamMultiCallable[bytes, bytes]":
    """A method as bytes, whose request may be withheld: on the wire all methods look alike."""
    return channel.stream_stream(path(method), bytes, bytes)


def is_closed(connection: socket.socket) -> bool:
    """Whether the peer ends a connection soon; one that it keeps gets its settings of HTTP/2."""
    connection.settimeout(5.0)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


async def test_a_message_is_taken_up_to_the_limit_and_refused_above(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, max_receive_message_length=LIMIT)
    monkeypatch.setattr("braid.rpc.memory.transport.MESSAGE_BYTES_MAX", LIMIT)
    server = await mesh.serve(unaries={"Same": same}, duplexes={"Echo": echo})
    channel = mesh.channel(server.address)
    fits = LIMIT - 3  # the field's number and length
    assert await channel.unary(path("Same"), say("x" * fits), StringValue, OPTIONS) == say("x" * fits)
    with pytest.raises(Exhausted, match=str(LIMIT)):
        await channel.unary(path("Same"), say("x" * (fits + 1)), StringValue, OPTIONS)
    call = channel.duplex(path("Echo"), StringValue, OPTIONS)
    with pytest.raises((Exhausted, Unavailable)):  # over gRPC the stream is cut off
        await call.send(say("x" * (fits + 1)))
        await call.receive()
    await call.close()
    assert await channel.unary(path("Same"), say("x"), StringValue, OPTIONS) == say("x")


async def test_metadata_is_taken_up_to_the_limit_and_refused_above() -> None:
    async with serving(GrpcTransport()) as server:
        options = [("grpc.max_metadata_size", 1 << 20)]
        async with grpc.aio.insecure_channel(server.address, options=options) as channel:
            call = raw_unary(channel)
            for size in (METADATA_BYTES_MAX - 1_000, METADATA_BYTES_MAX // 2):
                assert await call(b"", metadata=[("x-fits", "x" * size)], timeout=10) == b""
            for size in (METADATA_BYTES_MAX, 1 << 18):
                code, details = await refused(call(b"", metadata=[("x-large", "x" * size)], timeout=10))
                assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert f"vs. {METADATA_BYTES_MAX})" in details


async def test_compressed_messages_are_refused_before_inflation() -> None:
    async with serving(GrpcTransport()) as server:
        unbounded = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(server.address, options=unbounded) as channel:
            for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                request = say("x" * (32 << 20)).SerializeToString()
                call = raw_unary(channel)(request, compression=compression, timeout=30)
                code, details = await refused(call)
                assert code is grpc.StatusCode.UNIMPLEMENTED
                assert "is disabled" in details


async def test_a_server_that_answers_with_a_bomb_is_refused() -> None:
    async def bomb(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        context.set_compression(grpc.Compression.Gzip)
        return say("x" * (32 << 20)).SerializeToString()

    hostile = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    handler = cast("grpc.RpcMethodHandler[object, object]", grpc.unary_unary_rpc_method_handler(bomb))
    table = grpc.method_handlers_generic_handler("braid.test.v1.ExampleService", {"Same": handler})
    hostile.add_generic_rpc_handlers([table])
    port = hostile.add_insecure_port("127.0.0.1:0")
    await hostile.start()
    channel = GrpcTransport().channel(f"127.0.0.1:{port}")
    try:
        with pytest.raises((Unsupported, Exhausted, Unavailable)):
            await channel.unary(path("Same"), say(""), StringValue, CallOptions(20.0))
    finally:
        await channel.close()
        await hostile.stop(0.0)


@pytest.mark.parametrize("method", ["Same", "Some"])
async def test_a_call_whose_request_never_comes_is_ended(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "REQUEST_SECONDS", 0.2)
    async with serving(GrpcTransport()) as server, grpc.aio.insecure_channel(server.address) as channel:
        call = raw_stream(channel, method)(timeout=3_600)
        with pytest.raises(grpc.aio.AioRpcError, match=r"no request came within 0\.2 s") as late:
            await call.read()
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        call = raw_stream(channel, method)(timeout=10)
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="the call ended without a request") as empty:
            await call.read()
        assert empty.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_who_calls_is_known_before_the_request_is_read() -> None:
    async with serving(GrpcTransport()) as server, grpc.aio.insecure_channel(server.address) as channel:
        call = raw_stream(channel)(metadata=[("authorization", "Bearer x")], timeout=10)
        with pytest.raises(grpc.aio.AioRpcError, match="a token in plaintext"):  # without a byte of the request
            await call.read()


async def test_calls_too_many_are_refused_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.rpc.grpc.server.CALLS_OPEN_MAX", 3)
    async with serving(GrpcTransport()) as server, grpc.aio.insecure_channel(server.address) as channel:
        waiting = [raw_stream(channel)() for _ in range(3)]
        for each in waiting:
            await each.wait_for_connection()
        code, details = await refused(raw_unary(channel)(b"", timeout=10))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "limit exceeded" in details
        waiting[0].cancel()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await raw_unary(channel)(b"", timeout=10) == b""
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.02)
        for each in waiting:
            each.cancel()


async def test_a_stream_that_says_nothing_is_ended(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorized_module, "HELLO_SECONDS", 0.2)
    service = RpcService("braid.test.v1.ExampleService", {}, {}, {path("Echo"): duplex(StringValue, echo)})
    server = await mesh.server_transport.serve("127.0.0.1:0", authorized(service, ()))
    mesh.servers.append(server)
    channel = mesh.channel(server.address)
    silent = channel.duplex(path("Echo"), StringValue, OPTIONS)
    with pytest.raises(DeadlineExceeded, match=r"no hello came within 0\.2 s"):
        await silent.receive()
    await silent.close()
    spoken = channel.duplex(path("Echo"), StringValue, OPTIONS)
    await spoken.send(say("hello"))
    assert text(await spoken.receive()) == "hello"
    await spoken.close()


async def test_watches_of_health_are_bounded_and_leave_room_for_checks(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.rpc.grpc.health.HEALTH_WATCHES_MAX", 2)
    transport = GrpcTransport(TlsFiles(authority.service(tmp_path)))
    async with serving(transport) as server, grpc.aio.insecure_channel(server.health_address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        watches = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(2)]
        for each in watches:
            assert await each.read()
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await stub.Watch(health_pb2.HealthCheckRequest(), timeout=10).read()
        assert late.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        for each in watches:
            each.cancel()
        large = health_pb2.HealthCheckRequest(service="x" * (5 << 10))
        code, _ = await refused(stub.Check(large, timeout=10))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
