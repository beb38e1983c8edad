"""Callers with tokens, over both transports: who they are, what ends their streams, and what reaches nobody."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.token_files import TokenFiles
from braid.host.tokens import Token
from braid.kernel.errors import Invalid, StreamExpired, Unauthenticated, Unavailable
from braid.kernel.ports import Caller, DuplexServing, RpcServer
from braid.rpc.authenticators import CertificateOrToken
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.grpc.wire import error_of
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.tokens import MemoryTokens
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.tls import TlsServing, channel_credentials
from braid.runtime.tokens.authenticator import Tokens
from braid.runtime.tokens.keys import IssuerKeys
from braid.runtime.tokens.settings import TokenSettings
from testbed.authority import ALICE, SERVICE, Authority
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say, text
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, write_private

_LEEWAY = 0.5


async def who(request: StringValue, caller: Caller) -> StringValue:
    """Says whom it takes the caller for."""
    return say(f"{caller.principal} {caller.authenticated}")


async def talk(stream: DuplexServing) -> None:
    """Says everything back."""
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def forever(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
    """Says one thing, and waits."""
    yield say(caller.principal)
    await asyncio.Event().wait()


@dataclass
class TokenMesh:
    """A server that takes tokens, and a client that shows the one that it was given last."""

    mesh: Mesh
    server: RpcServer
    issue: Callable[[str, float], str]
    show: Callable[[str], None]

    async def asked(self) -> str:
        """Returns the identity that the server gives the client."""
        channel = self.mesh.channel(self.server.address)
        return text(await channel.unary(path("Who"), say("me"), StringValue, OPTIONS))


async def grpc_tokens(authority: Authority, directory: Path, *, as_text: bool = False) -> TokenMesh:
    """Signed tokens over TLS, from a file; or as a text that the client replaces."""
    issuer, host = TokenIssuer(), system_host()
    tls = authority.service(directory / "server")

    async def read() -> bytes:
        return issuer.keys

    settings = TokenSettings(ISSUER, AUDIENCE, "unused", leeway_seconds=_LEEWAY)
    tokens = Tokens(settings, IssuerKeys(read, host.clock, host.tasks, lambda _: None), host.clock)
    serving = TlsServing(mutual_listen="127.0.0.1:0")
    file = write_private(directory / "token", issuer.token())
    text_files = TokenFiles(Token(text=issuer.token(), ca=tls.ca))
    files = text_files if as_text else TokenFiles(Token(file, ca=tls.ca, reload_seconds=1e-9))
    mesh = Mesh(GrpcTransport(TlsFiles(tls), serving, CertificateOrToken(tokens)), GrpcTransport(files))
    server = await mesh.serve(unaries={"Who": who}, duplexes={"Talk": talk}, streams={"Forever": forever})
    return TokenMesh(
        mesh,
        server,
        lambda name, seconds: issuer.token(name, seconds=seconds - _LEEWAY),
        text_files.replace if as_text else partial(write_token, file),
    )


async def grpc_texts(authority: Authority, directory: Path) -> TokenMesh:
    """Signed tokens over TLS, each a text in the place of the one before."""
    return await grpc_tokens(authority, directory, as_text=True)


def write_token(file: Path, token: str) -> None:
    """Writes a token where a client reads it."""
    write_private(file, token)


async def memory_tokens(authority: Authority, directory: Path) -> TokenMesh:
    """The twins."""
    host = system_host()
    tokens = MemoryTokens(host.clock, leeway_seconds=_LEEWAY)
    shown = [tokens.issue("alice", 300)]
    network = MemoryNetwork(host.clock, host.randomness)
    server_transport = MemoryTransport(network, "server", authenticator=CertificateOrToken(tokens))
    mesh = Mesh(server_transport, MemoryTransport(network, "client", bearer=lambda: shown[-1]))
    server = await mesh.serve(unaries={"Who": who}, duplexes={"Talk": talk}, streams={"Forever": forever})
    return TokenMesh(mesh, server, lambda name, seconds: tokens.issue(name, seconds - _LEEWAY), shown.append)


@pytest.fixture(params=[grpc_tokens, grpc_texts, memory_tokens], ids=["grpc", "texts", "memory"])
async def mesh(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> AsyncIterator[TokenMesh]:
    """Each transport."""
    async with asyncio.timeout(30):
        made = await request.param(authority, tmp_path)
        yield made
        await made.mesh.close()


async def test_a_token_says_who_calls_whatever_the_call_says(mesh: TokenMesh) -> None:
    assert await mesh.asked() == "jwt:alice True"
    mesh.show(mesh.issue("bob", 300))
    assert await mesh.asked() == "jwt:bob True"


async def test_a_token_that_is_none_is_refused_by_calls_and_streams(mesh: TokenMesh) -> None:
    mesh.show("none-of-those")
    with pytest.raises(Unauthenticated):
        await mesh.asked()
    channel = mesh.mesh.channel(mesh.server.address)
    call = channel.duplex(path("Talk"), StringValue, OPTIONS)
    with pytest.raises(Unauthenticated):
        await call.receive()
    await call.close()
    with pytest.raises(Unauthenticated):
        await anext(channel.server_stream(path("Forever"), say(""), StringValue, OPTIONS))


async def test_streams_end_with_their_token_and_go_on_with_the_next(mesh: TokenMesh) -> None:
    channel = mesh.mesh.channel(mesh.server.address)
    for name in ("alice", "bob"):
        mesh.show(mesh.issue(name, 1.0))
        before = time.monotonic()
        call = channel.duplex(path("Talk"), StringValue, OPTIONS)
        await call.send(say("hello"))
        assert text(await call.receive()) == "hello"
        with pytest.raises(StreamExpired):
            await call.receive()
        await call.close()
        assert time.monotonic() - before < 10
    mesh.show(mesh.issue("carol", 1.0))
    heard: list[str] = []
    with pytest.raises(StreamExpired):
        async for message in channel.server_stream(path("Forever"), say(""), StringValue, OPTIONS):
            heard.append(text(message))
    assert heard == ["jwt:carol"]


# --- what only real connections have


@pytest.fixture
async def real(authority: Authority, tmp_path: Path) -> AsyncIterator[TokenMesh]:
    """Signed tokens over TLS."""
    async with asyncio.timeout(30):
        made = await grpc_tokens(authority, tmp_path)
        yield made
        await made.mesh.close()


async def test_certificates_are_taken_beside_tokens(real: TokenMesh, authority: Authority, tmp_path: Path) -> None:
    assert real.server.address != real.server.tls_address
    for tls, principal in (
        (authority.client(tmp_path / "client"), ALICE),
        (authority.service(tmp_path / "other"), SERVICE),
    ):
        channel = GrpcTransport(TlsFiles(tls)).channel(real.server.address, real.server.tls_address)
        answer = await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)
        assert text(answer) == f"{principal} True"
        await channel.close()
    channel = GrpcTransport(TlsFiles(authority.client(tmp_path / "client"))).channel(real.server.address)
    with pytest.raises(Unauthenticated, match="no certificate is asked for at this address"):
        await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)
    await channel.close()


async def test_an_expired_token_is_retried_when_its_file_may_change(real: TokenMesh) -> None:
    real.show(real.issue("alice", -60))
    with pytest.raises(Unavailable, match=r"the token in .*/token has expired"):
        await real.asked()
    real.show(real.issue("alice", 60))
    assert await real.asked() == "jwt:alice True"


async def test_a_token_that_nothing_renews_is_refused_for_good(real: TokenMesh, tmp_path: Path) -> None:
    ca = tmp_path / "server" / "ca.crt"
    channel = GrpcTransport(TokenFiles(Token(text=real.issue("alice", -60), ca=ca))).channel(real.server.address)
    with pytest.raises(Unauthenticated, match="the token has expired") as refused:
        await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)
    assert refused.value.metadata["problem"] == "token_expired"
    await channel.close()


async def test_who_claims_another_name_beside_its_token_is_refused(real: TokenMesh, tmp_path: Path) -> None:
    ca = TokenFiles(Token(text="x", ca=tmp_path / "server" / "ca.crt")).current()
    async with grpc.aio.secure_channel(real.server.address, channel_credentials(ca)) as channel:
        call = channel.unary_unary(path("Who"), bytes, StringValue.FromString)
        bearer = ("authorization", f"bearer {real.issue('alice', 60)}")
        assert (await call(b"", metadata=(bearer, ("braid-principal", "jwt:alice")))).value == "jwt:alice True"
        for metadata, said in (
            ((bearer, ("braid-principal", "jwt:bob")), "its token is that of jwt:alice"),
            ((bearer, bearer), "given several times"),
            ((("authorization", "Basic YTpi"),), "is no `Bearer TOKEN`"),
            ((), "shows no token"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call(b"", metadata=metadata)
            error = error_of(raised.value, real.server.address)
            assert isinstance(error, Unauthenticated)
            assert said in error.message


async def test_a_token_in_plaintext_is_refused_on_both_ends(authority: Authority, tmp_path: Path) -> None:
    mesh = Mesh(GrpcTransport(), GrpcTransport(TokenFiles(Token(text="secret-of-alice"))))
    server = await mesh.serve(unaries={"Who": who})
    with pytest.raises(Unavailable, match="the server speaks plaintext"):
        await mesh.channel(server.address).unary(path("Who"), say("me"), StringValue, OPTIONS)
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = channel.unary_unary(path("Who"), bytes, StringValue.FromString)
        with pytest.raises(grpc.aio.AioRpcError, match="sends a token in plaintext"):
            await call(b"", metadata=(("authorization", "Bearer secret-of-alice"),))
    await mesh.close()


async def test_a_client_that_meets_mutual_tls_alone_is_told(real: TokenMesh) -> None:
    channel = real.mesh.channel(real.server.tls_address)
    with pytest.raises(Unavailable, match="give the address at which it takes tokens"):
        await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)


async def test_whom_a_client_with_a_token_does_not_trust_gets_none(real: TokenMesh, tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    other.write_bytes(Authority.make("Other CA").pem)
    channel = GrpcTransport(TokenFiles(Token(text="x", ca=other))).channel(real.server.address)
    with pytest.raises(Unavailable, match=r"not signed by an authority in .*other\.crt"):
        await channel.unary(path("Who"), say("me"), StringValue, OPTIONS)
    await channel.close()


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("x" * (1 << 20), 0o600, "has 1048576 characters"),
        ("", 0o600, "is no token"),
        ("a b", 0o600, "is no token"),
        ("two\nlines", 0o600, "is no token"),
        ("a.b.c", 0o644, "is open to other users"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_file_that_holds_no_token_is_refused_by_name(
    content: str | None, mode: int, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        write_private(file, content)
        file.chmod(mode)
    with pytest.raises(Invalid, match=said) as refused:
        TokenFiles(Token(file))
    assert refused.value.field == "token_file"
    assert not content or len(content) > 100 or content not in str(refused.value)


def test_an_unusable_token_file_leaves_the_token_it_held(tmp_path: Path) -> None:
    file = write_private(tmp_path / "token", "a.b.c\n")
    files = TokenFiles(Token(file, reload_seconds=1e-9))
    assert files.bearer() == "a.b.c"
    file.unlink()
    assert files.bearer() == "a.b.c"
    write_private(file, "d.e.f")
    assert files.bearer() == "d.e.f"
    assert "d.e.f" not in repr(files.token)
    assert "secret" not in repr(Token(text="secret"))
