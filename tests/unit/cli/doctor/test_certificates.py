"""`doctor`'s findings on certificates: when they end, and where they are not needed."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.cli.doctor.certificate_findings import CertificateFacts, check_certificate
from braid.cli.doctor.certificates import certificate_end
from braid.cli.doctor.findings import Level
from braid.host.tls.files import TlsFiles
from braid.kernel.ports import Caller, RpcService
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import unary
from testbed.authority import SERVICE, Authority

NOW, DAY = 1_770_000_000.0, 86_400


@pytest.mark.parametrize(
    ("days", "level", "said"),
    [
        (31.0, Level.OK, "its certificate ends in 31d"),
        (29.5, Level.WARN, "its certificate ends in 29d"),
        (1.5, Level.FAIL, "its certificate ends in 36h"),
        (-1.0, Level.FAIL, "its certificate has expired"),
    ],
)
def test_a_certificate_that_ends_is_told_in_time(days: float, level: Level, said: str) -> None:
    [found] = check_certificate(CertificateFacts("registry-0", NOW + days * DAY), NOW)
    assert (found.level, found.message) == (level, said)
    assert bool(found.remedy) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("days", "level", "said"),
    [
        (400.0, Level.OK, "the authority of its certificate ends in 400d"),
        (89.5, Level.WARN, "the authority of its certificate ends in 89d"),
        (6.5, Level.FAIL, "the authority of its certificate ends in 6d"),
        (-1.0, Level.FAIL, "the authority of its certificate has expired"),
    ],
)
def test_an_authority_that_ends_is_told_in_time(days: float, level: Level, said: str) -> None:
    [found] = check_certificate(CertificateFacts("client", authority_ends_at=NOW + days * DAY), NOW)
    assert (found.check, found.level, found.message) == ("authority", level, said)
    assert ("certs rotate --ca" in found.remedy) is (level is not Level.OK)


def test_what_cannot_be_asked_is_wrong() -> None:
    [found] = check_certificate(CertificateFacts("registry-0", error="no handshake at a:1: refused"), NOW)
    assert (found.level, found.message) == (Level.FAIL, "no handshake at a:1: refused")


def test_plaintext_beside_tls_is_told() -> None:
    [found] = check_certificate(CertificateFacts("registry-0", plaintext="a:1"), NOW)
    assert found.level is Level.WARN
    assert "it serves plaintext too, at a:1" in found.message
    assert "BRAID_TLS_MODE=required" in found.remedy


async def _echo(request: StringValue, caller: Caller) -> StringValue:
    return request


async def test_a_servers_certificate_end_is_read_from_a_handshake(tmp_path: Path) -> None:
    authority = Authority.make()
    server_tls = authority.write(tmp_path / "server", uris=[SERVICE], ips=["127.0.0.1"], lifetime=timedelta(days=3))
    service = RpcService("braid.test.v1.ExampleService", {"/a.B/C": unary(StringValue, _echo)}, {}, {})
    server = await GrpcTransport(TlsFiles(server_tls)).serve("127.0.0.1:0", service)
    try:
        ends_at = await asyncio.to_thread(certificate_end, server.address, authority.client(tmp_path / "client"))
        assert ends_at == pytest.approx(time.time() + 3 * DAY, abs=60)
        stranger = Authority.make("Other CA").client(tmp_path / "stranger")
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(certificate_end, server.address, stranger)
    finally:
        await server.stop(0.0)
