"""Behaviour of mutual TLS: principals of certificates, claims, worded refusals, two ports, bounded connections."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.kernel.access.refusals import REFUSAL_FACT
from braid.kernel.errors import BraidError, StreamExpired, Unauthenticated, Unavailable
from braid.kernel.ports import Caller, DuplexServing, RpcServer, RpcService
from braid.rpc.grpc import tls_failures
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.grpc.wire import error_of
from braid.rpc.methods import duplex, unary
from braid.rpc.tls import TlsServing, channel_credentials
from testbed.authority import ALICE, SERVICE, Authority, write_files
from tests.contract.rpc.conftest import OPTIONS, Mesh, grpc_mesh, path, say, text


async def who(request: StringValue, caller: Caller) -> StringValue:
    """Says whom it takes the caller for."""
    return say(f"{caller.principal} {caller.authenticated}")


async def talk(stream: DuplexServing) -> None:
    """Says everything back."""
    while (message := await stream.receive()) is not None:
        await stream.send(message)


@asynccontextmanager
async def serving(transport: GrpcTransport) -> AsyncIterator[RpcServer]:
    """A server that tells its callers who they are."""
    mesh = Mesh(transport, transport)
    server = await mesh.serve(unaries={"Who": who}, duplexes={"Talk": talk})
    try:
        yield server
    finally:
        await mesh.close()


async def asked(transport: GrpcTransport, address: str, tls_address: str = "") -> str:
    """A server's answer to a client."""
    channel = transport.channel(address, tls_address)
    try:
        return text(await channel.unary(path("Who"), say("me"), StringValue, OPTIONS))
    finally:
        await channel.close()


@pytest.fixture
async def server(authority: Authority, tmp_path: Path) -> AsyncIterator[RpcServer]:
    """Mutual TLS alone."""
    async with serving(GrpcTransport(TlsFiles(authority.service(tmp_path / "server")))) as server:
        yield server


# --- principals


async def test_a_dns_name_is_a_principal_where_no_spiffe_id_is(
    server: RpcServer, authority: Authority, tmp_path: Path
) -> None:
    client = authority.write(tmp_path / "client", dns=["app.example", "b.example"])
    assert await asked(GrpcTransport(TlsFiles(client)), server.address) == "dns:app.example True"


@pytest.mark.parametrize("uris", [[], [ALICE, SERVICE]], ids=["none", "two"])
async def test_a_certificate_of_nobody_is_refused_by_name(
    uris: list[str], server: RpcServer, authority: Authority, tmp_path: Path
) -> None:
    transport = GrpcTransport(TlsFiles(authority.write(tmp_path / "client", uris=uris, name="bob")))
    with pytest.raises(Unauthenticated, match="the certificate of CN=bob names"):
        await asked(transport, server.address)
    call = transport.channel(server.address).duplex(path("Talk"), StringValue, OPTIONS)
    with pytest.raises(Unauthenticated, match="the certificate of CN=bob names"):
        await call.receive()
    await call.close()


@pytest.mark.parametrize(("claim", "refused"), [("mallory", True), (ALICE, False)])
async def test_a_claim_must_be_what_the_certificate_says(
    claim: str, refused: bool, server: RpcServer, authority: Authority, tmp_path: Path
) -> None:
    credentials = channel_credentials(TlsFiles(authority.client(tmp_path / "client")).current())
    async with grpc.aio.secure_channel(server.address, credentials) as channel:
        call = channel.unary_unary(path("Who"), bytes, StringValue.FromString)
        if not refused:
            answer = await call(b"", metadata=(("braid-principal", claim),))
            assert answer.value == f"{ALICE} True"
            return
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(b"", metadata=(("braid-principal", claim),))
        error = error_of(raised.value, server.address)
    assert isinstance(error, Unauthenticated)
    assert error.message == f"the call claims to come from 'mallory', but its certificate is that of {ALICE}"


async def test_a_server_learns_of_refused_callers_but_not_their_claims(authority: Authority, tmp_path: Path) -> None:
    heard: list[tuple[str, Caller, str]] = []

    def refused(path: str, caller: Caller, error: BraidError) -> None:
        heard.append((path, caller, error.metadata.get(REFUSAL_FACT, "")))

    service = RpcService("x", {path("Who"): unary(StringValue, who)}, {}, {path("Talk"): duplex(StringValue, talk)})
    transport = GrpcTransport(TlsFiles(authority.service(tmp_path / "server")))
    server = await transport.serve("127.0.0.1:0", replace(service, refused=refused))
    credentials = channel_credentials(TlsFiles(authority.client(tmp_path / "client")).current())
    claim = (("braid-principal", "mallory"), ("braid-request-id", "r-1"))
    try:
        async with grpc.aio.secure_channel(server.address, credentials) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary(path("Who"), bytes, bytes)(b"", metadata=claim)
            stream = channel.stream_stream(path("Talk"), bytes, bytes)(metadata=claim)
            with pytest.raises(grpc.aio.AioRpcError):
                await stream.read()
    finally:
        await server.stop(0.0)
    assert [method for method, _, _ in heard] == [path("Who"), path("Talk")]
    for _, caller, reason in heard:
        assert (caller.principal, caller.authenticated, caller.request_id, reason) == (
            ALICE,
            True,
            "r-1",
            "false_claim",
        )


# --- refusals in words


def untrusted(own: Authority, other: Authority, directory: Path) -> Tls:
    """A client that trusts the server, which does not trust it."""
    return write_files(directory, *other.issue(uris=[ALICE]), own.pem)


def distrusting(own: Authority, other: Authority, directory: Path) -> Tls:
    """A client that does not trust the server."""
    return write_files(directory, *own.issue(uris=[ALICE]), other.pem)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (untrusted, "the server does not trust the authority that signed .*tls.crt"),
        (distrusting, "the server's certificate is not signed by an authority in .*ca.crt"),
    ],
)
async def test_whom_either_side_does_not_trust_is_told(
    make: Callable[[Authority, Authority, Path], Tls],
    said: str,
    server: RpcServer,
    authority: Authority,
    tmp_path: Path,
) -> None:
    client = make(authority, Authority.make("Other CA"), tmp_path / "client")
    with pytest.raises(Unavailable, match=rf"^{server.address}: no connection \({said}\)$"):
        await asked(GrpcTransport(TlsFiles(client)), server.address)


async def test_a_command_whose_server_is_foreign_says_so_once(server: RpcServer, tmp_path: Path) -> None:
    """Nothing stands beside its error: grpc's own log says the same for each attempt."""
    tls = Authority.make("Other CA").client(tmp_path / "client")
    named = {"CERTIFICATE": tls.certificate, "KEY": tls.key, "CA": tls.ca}
    environment = {**os.environ, **{f"BRAID_TLS_{name}": str(path) for name, path in named.items()}}
    environment.pop("GRPC_VERBOSITY", None)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from braid.cli import main; main()"),
        *("get", "streams", "--endpoint", server.address),
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 3
    error, remedy = said.decode().splitlines()
    assert "the server's certificate is not signed by an authority in" in error
    assert remedy.strip() == "try: something answers there: check BRAID_TLS_CERTIFICATE, BRAID_TLS_KEY and BRAID_TLS_CA"


async def test_a_client_without_a_certificate_is_told_what_to_set(server: RpcServer) -> None:
    with pytest.raises(Unavailable, match="the server wants mutual TLS: set BRAID_TLS_CERTIFICATE, BRAID_TLS_KEY and"):
        await asked(GrpcTransport(), server.address)


async def test_a_plaintext_server_is_told(authority: Authority, tmp_path: Path) -> None:
    async with serving(GrpcTransport()) as server:
        with pytest.raises(Unavailable, match="the server speaks plaintext"):
            await asked(GrpcTransport(TlsFiles(authority.client(tmp_path))), server.address)


async def test_a_server_at_another_name_is_told(authority: Authority, tmp_path: Path) -> None:
    elsewhere = authority.write(tmp_path / "server", uris=[SERVICE], dns=["elsewhere"])
    async with serving(GrpcTransport(TlsFiles(elsewhere))) as server:
        with pytest.raises(Unavailable, match=r"the server's certificate is not for 127\.0\.0\.1"):
            await asked(GrpcTransport(TlsFiles(authority.client(tmp_path / "client"))), server.address)


async def test_expired_certificates_of_both_sides_are_told(authority: Authority, tmp_path: Path) -> None:
    short = timedelta(seconds=2)
    server_files = TlsFiles(authority.write(tmp_path / "server", uris=[SERVICE], ips=["127.0.0.1"], lifetime=short))
    client_files = TlsFiles(authority.write(tmp_path / "old", uris=[ALICE], lifetime=short))
    fresh = TlsFiles(authority.client(tmp_path / "client"))
    # A certificate is valid to the end of the second that it names (RFC 5280, section 4.1.2.5), and the loop's clock
    # may wake a little early.
    ended = max(server_files.current().expires_at, client_files.current().expires_at) + 1.1
    await asyncio.sleep(ended - time.time())
    async with serving(GrpcTransport(server_files)) as server:
        with pytest.raises(Unavailable, match="the server's certificate has expired"):
            await asked(GrpcTransport(fresh), server.address)
    async with serving(GrpcTransport(TlsFiles(authority.service(tmp_path / "other")))) as server:
        with pytest.raises(Unavailable, match=r"the certificate .*old/tls.crt has expired"):
            await asked(GrpcTransport(client_files), server.address)


async def test_a_server_that_closes_connections_is_asked_once(
    server: RpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_of: list[str] = []

    def probe(address: str, tls: Tls | None) -> str:
        asked_of.append(address)
        return "as it said"

    monkeypatch.setattr(tls_failures, "probe", probe)
    channel = GrpcTransport().channel(server.address)
    for _ in range(3):
        with pytest.raises(Unavailable, match="as it said"):
            await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)
    await channel.close()
    assert asked_of == [server.address]


# --- ports


async def test_a_permissive_server_serves_both(authority: Authority, tmp_path: Path) -> None:
    permissive = GrpcTransport(
        TlsFiles(authority.service(tmp_path / "server")), TlsServing(permissive_listen="127.0.0.1:0")
    )
    client = GrpcTransport(TlsFiles(authority.client(tmp_path / "client")))
    async with serving(permissive) as server:
        assert server.address != server.tls_address
        assert server.health_address == server.address
        assert await asked(GrpcTransport(), server.address, server.tls_address) == "alice False"
        assert await asked(client, server.address, server.tls_address) == f"{ALICE} True"
        assert await asked(permissive, server.address, server.tls_address) == f"{SERVICE} True"
        assert await asked(permissive, server.address) == "alice False"  # who tells no other address


async def test_a_plaintext_server_may_answer_health_checks_elsewhere() -> None:
    async with serving(GrpcTransport(serving=TlsServing(health_listen="127.0.0.1:0"))) as server:
        assert not server.tls_address
        async with grpc.aio.insecure_channel(server.health_address) as channel:
            answer = await HealthStub(channel).Check(HealthCheckRequest())
    assert server.health_address != server.address
    assert answer.status == HealthCheckResponse.NOT_SERVING


async def test_health_is_told_without_a_certificate(server: RpcServer) -> None:
    assert server.tls_address == server.address != server.health_address
    server.set_serving(True)
    async with grpc.aio.insecure_channel(server.health_address) as channel, asyncio.timeout(20):
        answers = HealthStub(channel).Watch(HealthCheckRequest())
        while (await answers.read()).status != HealthCheckResponse.SERVING:
            pass
        answers.cancel()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(path("Who"), bytes, bytes)(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


# --- connections in time


async def test_a_stream_ends_in_time_and_its_successor_is_served(authority: Authority, tmp_path: Path) -> None:
    server_tls, client_tls = authority.service(tmp_path / "server"), authority.client(tmp_path / "client")
    ended: list[BraidError] = []

    async def until_the_end(stream: DuplexServing) -> None:
        try:
            await talk(stream)
        except BraidError as error:
            ended.append(error)
            await stream.send(say("bye"))
            raise

    async def forever(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
        yield say("first")
        await asyncio.Event().wait()

    transport = GrpcTransport(TlsFiles(server_tls), TlsServing(connection_seconds=0.5))
    async with AsyncExitStack() as stack:
        mesh = Mesh(transport, GrpcTransport(TlsFiles(client_tls)))
        stack.push_async_callback(mesh.close)
        server = await mesh.serve(duplexes={"Talk": until_the_end}, streams={"Forever": forever})
        channel = mesh.channel(server.address)
        for _ in range(2):
            call = channel.duplex(path("Talk"), StringValue, OPTIONS)
            await call.send(say("hello"))
            assert text(await call.receive()) == "hello"
            assert text(await call.receive()) == "bye"
            with pytest.raises(StreamExpired):
                await call.receive()
            await call.close()
        assert [type(error) for error in ended] == [StreamExpired, StreamExpired]
        heard: list[str] = []
        with pytest.raises(StreamExpired):
            async for message in channel.server_stream(path("Forever"), say(""), StringValue, OPTIONS):
                heard.append(text(message))
        assert heard == ["first"]


async def test_streams_of_callers_without_certificates_do_not_end() -> None:
    async with serving(GrpcTransport(serving=TlsServing(connection_seconds=0.05))) as server:
        channel = GrpcTransport().channel(server.address)
        call = channel.duplex(path("Talk"), StringValue, OPTIONS)
        for _ in range(4):
            await asyncio.sleep(0.05)
            await call.send(say("hello"))
            assert text(await call.receive()) == "hello"
        await call.close()
        await channel.close()


async def test_a_new_certificate_is_shown_by_the_next_call(authority: Authority, tmp_path: Path) -> None:
    mesh = grpc_mesh(authority, tmp_path)
    client = authority.client(tmp_path / "client", reload_seconds=1e-9)
    mesh.client_transport = GrpcTransport(TlsFiles(client))
    server = await mesh.serve(unaries={"Who": who}, duplexes={"Talk": talk})
    channel = mesh.channel(server.address)
    stream = channel.duplex(path("Talk"), StringValue, OPTIONS)
    for name in ("alice", "bob", "carol"):
        authority.client(tmp_path / "client", f"spiffe://test.local/user/{name}")
        answer = await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)
        assert text(answer) == f"spiffe://test.local/user/{name} True"
        await stream.send(say("still here"))
        assert text(await stream.receive()) == "still here"
    await stream.close()
    await mesh.close()


async def test_an_authority_that_was_removed_opens_no_connection(authority: Authority, tmp_path: Path) -> None:
    other = Authority.make("Other CA")
    server_tls = authority.service(tmp_path / "server", reload_seconds=1e-9)
    old = TlsFiles(authority.client(tmp_path / "old"))
    new = TlsFiles(write_files(tmp_path / "new", *other.issue(uris=[ALICE]), authority.pem))
    async with serving(GrpcTransport(TlsFiles(server_tls))) as server:
        assert await asked(GrpcTransport(old), server.address) == f"{ALICE} True"
        part = tmp_path / "part"
        part.write_bytes(other.pem)
        shutil.move(part, server_tls.ca)
        with pytest.raises(Unavailable, match="does not trust the authority"):
            await asked(GrpcTransport(old), server.address)
        assert await asked(GrpcTransport(new), server.address) == f"{ALICE} True"
