"""Until when a certificate is valid, as its file says it; anything else is nothing, not an error."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from braid.kafka.certificates import expiry_of
from tests.support.tls_files import Authority

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a name")])


def signed(end: datetime) -> x509.Certificate:
    """A certificate that is valid until then."""
    builder = x509.CertificateBuilder().subject_name(NAME).issuer_name(NAME).public_key(KEY.public_key())
    return (
        builder.serial_number(1)
        .not_valid_before(datetime(1951, 1, 1, tzinfo=UTC))
        .not_valid_after(end)
        .sign(KEY, hashes.SHA256())
    )


@pytest.mark.parametrize("year", [1951, 1999, 2026, 2049, 2050, 9999])
def test_the_end_of_a_certificate_is_read(tmp_path: Path, year: int) -> None:
    end = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    path = tmp_path / "a.pem"
    path.write_bytes(b"what stands before\n" + signed(end).public_bytes(serialization.Encoding.PEM) * 2)
    assert expiry_of(path) == end


def test_a_file_without_a_certificate_says_nothing(tmp_path: Path) -> None:
    files = Authority(tmp_path).issue("a", days=-2)
    assert expiry_of(files.certificate) is not None
    assert expiry_of(files.both) == expiry_of(files.certificate)
    assert expiry_of(files.key) is None and expiry_of(tmp_path / "missing") is None
    for text in (
        "",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
        "\xff",
    ):
        files.both.write_text(text, encoding="latin-1")
        assert expiry_of(files.both) is None
