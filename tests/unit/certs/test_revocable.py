"""A certificate in a file, as a revocation names it."""

from pathlib import Path

import pytest

from braid.certs.revocable import read_certificate
from braid.host.tls.peers import peer_certificate
from braid.kernel.errors import Invalid
from testbed.authority import ALICE, Authority


def test_a_file_names_what_a_server_sees_even_with_a_chain(tmp_path: Path) -> None:
    authority = Authority.make()
    pem, _ = authority.issue(uris=[ALICE])
    file = tmp_path / "chain.pem"
    file.write_bytes(pem + authority.pem)
    seen = peer_certificate(pem)
    assert seen is not None
    assert read_certificate(file, "f") == (f"sha256:{seen.fingerprint}", ALICE, seen.expire_ms)


def test_a_certificate_of_nobody_can_be_revoked_all_the_same(tmp_path: Path) -> None:
    tls = Authority.make().write(tmp_path)
    assert not read_certificate(tls.certificate, "f").principal


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None])
def test_what_is_no_certificate_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    file.write_bytes(Authority.make().pem if content is None else content)
    with pytest.raises(Invalid) as refused:
        read_certificate(file, "f")
    assert refused.value.field == "f" and refused.value.remedy
