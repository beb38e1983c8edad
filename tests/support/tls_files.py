"""Certificates of tests: an authority of their own, and what it signs, as PEM files that nobody else may read."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class CertificateFiles(NamedTuple):
    """A certificate, its private key, and both in one file."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """A certificate authority that signs certificates for 127.0.0.1.

    Attributes:
        ca_file: Its own certificate.
    """

    def __init__(self, directory: Path, name: str = "an authority of tests") -> None:
        """Makes one whose files lie in a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder(self._name, self._key, days=30).add_extension(basic, critical=True)
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, days: int = 30, password: str = "") -> CertificateFiles:
        """A certificate with the subject `CN=name`.

        Args:
            name: Of the subject, and of its files: those of an earlier one are replaced.
            days: How long it is valid from now; negative for one that expired so long ago.
            password: Encrypts the private key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        signed = self._builder(subject, key, days).add_extension(names, critical=False)
        certificate = _pem(signed.sign(self._key, hashes.SHA256()))
        files = CertificateFiles(*(self._directory / f"{name}{end}.pem" for end in ("", "-key", "-both")))
        encryption = serialization.BestAvailableEncryption(password.encode()) if password else None
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            encryption or serialization.NoEncryption(),
        )
        for path, content in zip(files, (certificate, private, private + certificate), strict=True):
            path.write_bytes(content)
            path.chmod(0o600)
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        end = now + days * _DAY
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - _DAY)
            .not_valid_after(end)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
