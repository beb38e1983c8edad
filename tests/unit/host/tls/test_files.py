"""The PEM files of mutual TLS: what is wrong with them, and what happens when they change."""

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from braid.host.tls.files import TlsFiles, read_tls
from braid.host.tls.paths import Tls
from braid.kernel.errors import Invalid
from testbed.authority import ALICE, Authority

CA = Authority.make()


def no_certificate(tls: Tls) -> None:
    tls.certificate.unlink()


def text_as_certificate(tls: Tls) -> None:
    tls.certificate.write_text("hello")


def text_as_ca(tls: Tls) -> None:
    tls.ca.write_text("hello")


def text_as_key(tls: Tls) -> None:
    tls.key.write_text("hello")


def directory_as_ca(tls: Tls) -> None:
    tls.ca.unlink()
    tls.ca.mkdir()


def key_of_another(tls: Tls) -> None:
    tls.key.write_bytes(CA.issue(uris=[ALICE])[1])


def key_with_a_password(tls: Tls) -> None:
    key = generate_private_key(SECP256R1())
    tls.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))


def key_for_everybody(tls: Tls) -> None:
    tls.key.chmod(0o644)


def certificate_of_the_past(tls: Tls) -> None:
    CA.write(tls.key.parent, uris=[ALICE], lifetime=timedelta(days=-1))


def large_ca(tls: Tls) -> None:
    tls.ca.write_bytes(CA.pem * 3_000)


@pytest.mark.parametrize(
    ("spoil", "field", "said"),
    [
        (no_certificate, "tls.certificate", "tls.crt does not exist"),
        (text_as_certificate, "tls.certificate", "holds no PEM certificate"),
        (text_as_ca, "tls.ca", "ca.crt holds no PEM certificate"),
        (text_as_key, "tls.key", "holds no PEM private key"),
        (directory_as_ca, "tls.ca", r"cannot be read \(is a directory\)"),
        (key_of_another, "tls.key", r"tls.key is not the key of .*tls.crt"),
        (key_with_a_password, "tls.key", "is encrypted"),
        (key_for_everybody, "tls.key", r"is open to other users \(its mode is 0644\)"),
        (certificate_of_the_past, "tls.certificate", "expired at 20"),
        (large_ca, "tls.ca", "more than 1048576"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(spoil: Callable[[Tls], None], field: str, said: str, tmp_path: Path) -> None:
    tls = CA.client(tmp_path)
    spoil(tls)
    with pytest.raises(Invalid, match=said) as error:
        read_tls(tls)
    assert error.value.field == field
    assert error.value.remedy


def test_files_in_order_are_read_whole(tmp_path: Path) -> None:
    tls = CA.client(tmp_path)
    material = read_tls(tls)
    assert (material.certificate, material.ca) == (tls.certificate.read_bytes(), CA.pem)
    assert "PRIVATE" not in repr(material)


def test_changed_files_are_read_after_their_time(tmp_path: Path) -> None:
    files = TlsFiles(CA.client(tmp_path, reload_seconds=1e-9))
    before = files.current()
    tls = CA.client(tmp_path)
    assert files.current().certificate == tls.certificate.read_bytes() != before.certificate


def test_changed_files_are_not_read_before_their_time(tmp_path: Path) -> None:
    files = TlsFiles(CA.client(tmp_path, reload_seconds=3_600))
    before = files.current()
    CA.client(tmp_path)
    assert files.current() == before


def test_unusable_files_keep_the_old_and_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    unusable: list[None] = []
    tls = CA.client(tmp_path, reload_seconds=1e-9)
    files = TlsFiles(tls, lambda: unusable.append(None))
    before = files.current()
    tls.certificate.write_text("half a certifi")
    with caplog.at_level(logging.WARNING, "braid.tls"):
        assert [files.current() for _ in range(3)] == [before] * 3
    assert len(unusable) == len(caplog.records) == 1
    assert "holds no PEM certificate" in caplog.text

    CA.client(tmp_path)
    assert files.current().certificate == tls.certificate.read_bytes()


def test_files_that_vanish_keep_the_old(tmp_path: Path) -> None:
    tls = CA.client(tmp_path, reload_seconds=1e-9)
    files = TlsFiles(tls)
    before = files.current()
    tls.key.unlink()
    assert files.current() == before


def test_the_authority_is_the_last_to_end_that_signed(tmp_path: Path) -> None:
    tls = CA.client(tmp_path)
    stranger = Authority.make("Stranger")
    tls.ca.write_bytes(stranger.pem + CA.pem)
    found = read_tls(tls)
    signed = CA.certificate
    assert found.authority == (signed.not_valid_before_utc.timestamp(), signed.not_valid_after_utc.timestamp())
    assert found.valid is not None
    assert found.valid.ends_at == found.expires_at
    middle = CA.intermediate("Middle")
    chained = middle.client(tmp_path / "chained")
    chained.certificate.write_bytes(chained.certificate.read_bytes() + middle.pem)
    chained.ca.write_bytes(CA.pem)
    assert read_tls(chained).authority == found.authority
