"""The certificates that a replica tells others of: what its files say now, and nothing in plain text."""

from datetime import timedelta
from pathlib import Path

import pytest

from braid.api.mesh.v1 import endpoint_pb2 as pb
from braid.host.tls.files import TlsFiles
from braid.kernel.timing.days import DAY_MS
from braid.runtime.certificates import certificates_in_use
from services.lagmon.alerts.certificate_peers import replica_certificates
from services.lagmon.alerts.decisions.certificates import ReplicaCertificates
from testbed.authority import SERVICE, Authority


def test_a_replica_tells_of_its_own_authority_and_store(tmp_path: Path) -> None:
    authority = Authority.make()
    own = TlsFiles(authority.write(tmp_path / "own", uris=[SERVICE], lifetime=timedelta(days=9)))
    store = TlsFiles(authority.write(tmp_path / "store", uris=[SERVICE], lifetime=timedelta(days=2)))
    told = certificates_in_use(own, store)
    uses = [pb.CERTIFICATE_USE_REPLICA, pb.CERTIFICATE_USE_AUTHORITY, pb.CERTIFICATE_USE_STORE]
    assert [each.use for each in told] == uses
    read = replica_certificates(pb.ListEndpointsResponse(certificates=told))
    assert read.own is not None
    assert read.store is not None
    assert read.authority is not None
    assert read.own.ends_ms == own.current().expires_at * 1_000
    assert read.own.ends_ms - read.store.ends_ms == pytest.approx(7 * DAY_MS, abs=60_000)
    assert read.authority.ends_ms == round(authority.certificate.not_valid_after_utc.timestamp() * 1_000)


def test_a_replica_in_plain_text_tells_of_none() -> None:
    assert list(certificates_in_use(None, None)) == []
    assert replica_certificates(pb.ListEndpointsResponse()) == ReplicaCertificates()


def test_a_use_of_a_later_release_is_left_out() -> None:
    told = pb.CertificateValidity(use=99, begin_time_ms=1, end_time_ms=2)  # type: ignore[arg-type]
    assert replica_certificates(pb.ListEndpointsResponse(certificates=[told])) == ReplicaCertificates()
