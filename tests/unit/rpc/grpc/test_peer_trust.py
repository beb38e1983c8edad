"""Which certificates are trusted no more, by files and time alone. Over a wire: `tests/contract/rpc`."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from braid.host.tls.files import TlsFiles
from braid.host.tls.peers import peer_certificate
from braid.kernel.ports import Caller
from braid.rpc.grpc.peer_trust import PeerTrust
from braid.rpc.grpc.stream_lifetimes import StreamLifetimes
from testbed.authority import ALICE, Authority, write_files

GRACE_SECONDS = 20.0


class Server:
    """The files of a server whose authorities change, and clocks that a test moves."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.leaf = authority.issue(uris=["spiffe://test.local/service/registry-0"])
        self.directory = directory
        self.passed = 0.0
        files = TlsFiles(write_files(directory, *self.leaf, authority.pem, reload_seconds=1e-9))
        self.began = 1_700_000_000.0
        self.trust = PeerTrust(
            files, grace_seconds=GRACE_SECONDS, now=lambda: self.began + self.passed, elapsed=lambda: self.passed
        )

    def trusts(self, *authorities: Authority) -> None:
        write_files(self.directory, *self.leaf, b"".join(each.pem for each in authorities))

    def distrusts(self, caller: Caller) -> str:
        error = self.trust.distrust(caller)
        return "" if error is None else error.message


def caller(pem: bytes) -> Caller:
    return Caller(ALICE, "default", "", "peer", True, certificate=peer_certificate(pem, b""))


def issued(authority: Authority) -> Caller:
    return caller(authority.issue(uris=[ALICE])[0])


def test_an_authority_that_is_added_or_renewed_ends_nothing(tmp_path: Path) -> None:
    old, new = Authority.make("Old"), Authority.make("New")
    server, alice = Server(tmp_path, old), issued(old)
    server.trusts(old, new)
    assert not server.distrusts(alice)
    server.passed = 10 * GRACE_SECONDS
    assert not server.distrusts(alice) and not server.distrusts(issued(new))


def test_a_removed_authority_ends_what_it_signed_after_a_grace(tmp_path: Path) -> None:
    old, new = Authority.make("Old"), Authority.make("New")
    server, alice = Server(tmp_path, old), issued(old)
    server.trusts(new)
    assert not server.distrusts(alice), "its files may be new already"
    server.passed = GRACE_SECONDS
    assert server.distrusts(alice) == f"the certificate of {ALICE} is signed by an authority that is trusted no more"
    assert not server.distrusts(issued(new))
    server.trusts(new, old)
    assert not server.distrusts(alice)
    server.passed = 3 * GRACE_SECONDS
    assert not server.distrusts(alice)


def test_an_ended_certificate_is_refused_after_the_same_grace(tmp_path: Path) -> None:
    authority = Authority.make()
    server, alice = Server(tmp_path, authority), caller(authority.issue(uris=[ALICE], lifetime=timedelta(days=1))[0])
    assert alice.certificate is not None
    server.began = alice.certificate.expire_ms / 1_000
    server.passed = GRACE_SECONDS - 1
    assert not server.distrusts(alice)
    server.passed = GRACE_SECONDS + 1
    assert server.distrusts(alice) == f"the certificate of {ALICE} has ended"


def test_a_caller_in_plaintext_has_nothing_to_trust(tmp_path: Path) -> None:
    assert not Server(tmp_path, Authority.make()).distrusts(Caller("alice", "default", "", "peer"))


async def test_a_stream_ends_once(tmp_path: Path) -> None:
    old = Authority.make("Old")
    server, alice = Server(tmp_path, old), issued(old)
    lifetimes, ended = StreamLifetimes(0.01, server.trust), list[str]()
    lifetimes.begin(alice, lambda: ended.append("by trust"))
    over = lifetimes.begin(alice, lambda: ended.append("after its end"))
    over()
    lifetimes.look()
    assert not ended
    server.trusts(Authority.make("New"))
    server.trust.distrust(alice)
    server.passed = GRACE_SECONDS
    lifetimes.look()
    lifetimes.look()
    assert ended == ["by trust"]


@pytest.mark.parametrize("authenticated", [True, False])
async def test_only_a_stream_with_a_certificate_ends_in_time(authenticated: bool, tmp_path: Path) -> None:
    over = asyncio.Event()
    StreamLifetimes(0.001).begin(Caller("alice", "default", "", "peer", authenticated), over.set)
    if authenticated:
        await asyncio.wait_for(over.wait(), 10)
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(over.wait(), 0.05)
