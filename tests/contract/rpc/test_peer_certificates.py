"""Certificates of callers: servers know them, also in resumed sessions, and go by what is trusted now."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.host.tls.peers import peer_certificate
from braid.kernel.errors import CertificateUntrusted, StreamExpired, Unavailable
from braid.kernel.ports import Caller, DuplexCall, DuplexServing, RpcChannel, RpcServer
from braid.rpc.grpc.stream_lifetimes import StreamLifetimes
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.tls import TlsServing
from testbed.authority import ALICE, Authority, write_files
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say, text
from tests.support import resumed_tls

QUICK = TlsServing(distrust_look_seconds=0.05, distrust_grace_seconds=0.2)


async def which(request: StringValue, caller: Caller) -> StringValue:
    """Says which certificate it takes the caller to have."""
    certificate = caller.certificate
    return say(f"{certificate.fingerprint} {certificate.serial}" if certificate is not None else "none")


async def talk(stream: DuplexServing) -> None:
    """Says everything back."""
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def forever(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
    """Says one thing, and goes on."""
    yield say("first")
    await asyncio.Event().wait()


def shown(tls: Tls) -> str:
    """Returns the answer of `which` to a client with these files."""
    found = peer_certificate(tls.certificate.read_bytes())
    assert found is not None
    return f"{found.fingerprint} {found.serial}"


class Server:
    """A server whose authorities change, and clients of it."""

    def __init__(self, mesh: Mesh, server: RpcServer, tls: Tls, directory: Path) -> None:
        self.address = server.address
        self.mesh = mesh
        self.tls = tls
        self.directory = directory

    def trust(self, *authorities: Authority) -> None:
        """The server trusts these alone, and its clients it as before."""
        part = self.directory / "part"
        part.write_bytes(b"".join(each.pem for each in authorities))
        part.replace(self.tls.ca)

    def files(self, name: str, signer: Authority, own: Authority, chain: bytes = b"", days: float = 30) -> Tls:
        """Files of a client with a certificate of `signer`; `own` is the server's authority."""
        certificate, key = signer.issue(uris=[ALICE], lifetime=timedelta(days=days))
        return write_files(self.directory / name, certificate + chain, key, own.pem, reload_seconds=1e-9)

    def channel(self, tls: Tls) -> RpcChannel:
        """A client."""
        channel = GrpcTransport(TlsFiles(tls)).channel(self.address)
        self.mesh.channels.append(channel)
        return channel


@asynccontextmanager
async def serving(directory: Path, authority: Authority, quick: TlsServing = QUICK) -> AsyncIterator[Server]:
    tls = authority.service(directory / "server", reload_seconds=1e-9)
    transport = GrpcTransport(TlsFiles(tls), quick)
    mesh = Mesh(transport, transport)
    try:
        server = await mesh.serve(unaries={"Which": which}, duplexes={"Talk": talk}, streams={"Forever": forever})
        yield Server(mesh, server, tls, directory)
    finally:
        await mesh.close()


async def asked(channel: RpcChannel) -> str:
    return text(await channel.unary(path("Which"), say(""), StringValue, OPTIONS))


async def opened(channel: RpcChannel) -> DuplexCall:
    call = channel.duplex(path("Talk"), StringValue, OPTIONS)
    await call.send(say("hello"))
    assert text(await call.receive()) == "hello"
    return call


async def test_each_transport_gives_a_certificate_with_an_identity(mesh: Mesh) -> None:
    async def say_which(stream: DuplexServing) -> None:
        await stream.send(await which(say(""), stream.caller))

    async def stream_which(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
        yield await which(request, caller)

    server = await mesh.serve(unaries={"Which": which}, duplexes={"Say": say_which}, streams={"Stream": stream_which})
    channel = mesh.channel(server.address)
    told = {await asked(channel)}
    call = channel.duplex(path("Say"), StringValue, OPTIONS)
    told.add(text(await call.receive()))
    await call.close()
    told |= {text(each) async for each in channel.server_stream(path("Stream"), say(""), StringValue, OPTIONS)}
    assert len(told) == 1, "each kind of call shows the same"
    assert (told == {"none"}) == (not mesh.identity)


async def test_the_certificate_is_the_one_in_the_client_s_file(authority: Authority, tmp_path: Path) -> None:
    async with serving(tmp_path, authority) as server:
        for name in ("one", "two"):
            tls = server.files(name, authority, authority)
            assert await asked(server.channel(tls)) == shown(tls)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_resumed_session_ends_with_the_ca_of_its_certificate(
    version: ssl.TLSVersion, authority: Authority, tmp_path: Path
) -> None:
    async with serving(tmp_path, authority) as server:
        tls = server.files("client", authority, authority)
        made = resumed_tls.context(tls, version)
        address = server.address.replace("127.0.0.1", "localhost")
        answers: list[resumed_tls.Answer] = []

        async def call() -> resumed_tls.Answer:
            session = answers[-1].session if answers else None
            answers.append(await asyncio.to_thread(resumed_tls.call, made, address, path("Which"), session))
            return answers[-1]

        await call()
        for _ in range(2):
            answer = await call()
            assert answer.resumed, "else this test shows nothing"
            assert StringValue.FromString(answer.data).value == shown(tls)
        server.trust(Authority.make("Other CA"))
        answer = await call()
        assert not answer.resumed and not answer.data


async def test_streams_of_a_removed_ca_end_and_a_new_leaf_reopens_them(authority: Authority, tmp_path: Path) -> None:
    other = Authority.make("Other CA")
    async with serving(tmp_path, authority) as server:
        server.trust(authority, other)
        old, new = server.files("client", authority, authority), server.files("new", other, authority)
        channel, kept = server.channel(old), await opened(server.channel(new))
        lost = await opened(channel)
        told = channel.server_stream(path("Forever"), say(""), StringValue, OPTIONS)
        assert text(await anext(told)) == "first"
        server.trust(other)
        async with asyncio.timeout(20):
            with pytest.raises(StreamExpired):
                await lost.receive()
            with pytest.raises(StreamExpired):
                await anext(told)
        with pytest.raises(CertificateUntrusted, match=f"the certificate of {ALICE} is signed by an authority that is"):
            await asked(channel)
        with pytest.raises(Unavailable, match="the server does not trust the authority that signed"):
            await asked(channel)  # over another connection, whose handshake shows the file as it is now
        for name in ("tls.key", "tls.crt"):
            (new.certificate.parent / name).replace(old.certificate.parent / name)
        async with asyncio.timeout(20):
            await opened(channel)
        await kept.send(say("still here"))
        assert text(await kept.receive()) == "still here"


async def test_an_intermediate_cas_certificate_ends_with_its_root(authority: Authority, tmp_path: Path) -> None:
    root, other = Authority.make("Root"), Authority.make("Other CA")
    lower = root.intermediate("Lower")
    async with serving(tmp_path, authority) as server:
        server.trust(authority, root)
        call = await opened(server.channel(server.files("client", lower, authority, lower.pem)))
        server.trust(other, root)
        await asyncio.sleep(4 * QUICK.distrust_grace_seconds)
        await call.send(say("still here"))
        assert text(await call.receive()) == "still here"
        server.trust(other)
        async with asyncio.timeout(20):
            with pytest.raises(StreamExpired):
                await call.receive()


async def test_a_stream_does_not_outlive_its_certificate(authority: Authority, tmp_path: Path) -> None:
    async with serving(tmp_path, authority) as server:
        channel = server.channel(server.files("client", authority, authority, days=3 / 86_400))
        call = await opened(channel)
        async with asyncio.timeout(20):
            with pytest.raises(StreamExpired):
                await call.receive()
        with pytest.raises(CertificateUntrusted, match=f"the certificate of {ALICE} has ended"):
            await asked(channel)


async def test_a_mutant_that_does_not_look_at_open_streams_is_found(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamLifetimes, "look", lambda self: None)
    async with serving(tmp_path, authority) as server:
        call = await opened(server.channel(server.files("client", authority, authority)))
        server.trust(Authority.make("Other CA"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10 * QUICK.distrust_grace_seconds):
                await call.receive()
