"""The causes of failed TLS handshakes, tested with real handshakes in memory."""

import ssl
from pathlib import Path

import pytest

from braid.kafka.errors import access_error
from braid.kafka.tls_errors import handshake_problem
from tests.support.tls_files import Authority, CertificateFiles


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost") -> ssl.SSLError | None:
    """The error on the client's side of a handshake."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    outer = client.wrap_bio(to_client, to_server, server_hostname=name)
    inner = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(10):
            for step in (outer.do_handshake, inner.do_handshake):
                try:
                    step()
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLError:
                    if step == outer.do_handshake:
                        raise
        outer.read(1)
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError as error:
        return error
    return None


def contexts(authority: Authority, files: CertificateFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A client that trusts the authority, and a broker with a certificate."""
    client = ssl.create_default_context(cafile=str(authority.ca_file))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    return client, server


def test_a_brokers_certificate_is_refused_and_the_reason_is_told(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b", "another")
    cases = [
        (authority.issue("old", days=-2), "localhost", "broker_certificate_expired", "certificate has expired"),
        (other.issue("foreign"), "localhost", "broker_certificate", "unable to get local issuer"),
        (authority.issue("named"), "elsewhere", "broker_certificate", "Hostname mismatch"),
    ]
    for files, name, kind, said in cases:
        error = handshake(*contexts(authority, files), name)
        assert error is not None
        problem = handshake_problem(error)
        assert (problem.kind, said in problem.text) == (kind, True), problem
        assert problem.remedy


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_takes_no_certificate_and_the_client_hears_it(tmp_path: Path, version: ssl.TLSVersion) -> None:
    authority = Authority(tmp_path / "a")
    client, server = contexts(authority, authority.issue("broker"))
    client.maximum_version = version
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.ca_file)
    expired = authority.issue("old", days=-2)
    client.load_cert_chain(expired.certificate, expired.key)
    error = handshake(client, server)
    assert error is not None
    denied = access_error(error, "broker east:9093")
    assert denied is not None and denied.problem == "client_certificate"


def test_other_failures_of_tls_are_no_certificates() -> None:
    problem = handshake_problem(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"))
    assert problem.kind == "tls" and "security_protocol" in problem.remedy
