"""A certificate authority for tests: it signs certificates for services, people and applications."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from braid.host.tls.paths import Tls

SERVICE = "spiffe://test.local/service/registry-0"
ALICE = "spiffe://test.local/user/alice"
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed certificate authority for tests."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, name: str = "Test CA") -> Self:
        """Creates an authority with a new key."""
        key = generate_private_key(SECP256R1())
        return cls(key, _authority_builder(_name(name), _name(name), key).sign(key, hashes.SHA256()))

    def intermediate(self, name: str) -> Self:
        """Another authority that this one vouches for."""
        key = generate_private_key(SECP256R1())
        builder = _authority_builder(_name(name), self.certificate.subject, key)
        return type(self)(key, builder.sign(self.key, hashes.SHA256()))

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        *,
        uris: Sequence[str] = (),
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        name: str = "test",
        lifetime: timedelta = _DAY * 30,
        key: EllipticCurvePrivateKey | None = None,
        password: str = "",
    ) -> tuple[bytes, bytes]:
        """PEM of a certificate for both sides of a connection, and of its key, encrypted where there is a password.

        A negative lifetime is over. The key is a new one unless it is given.
        """
        key = key or generate_private_key(SECP256R1())
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(each) for each in dns]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in ips]
        builder = _builder(_name(name), self.certificate.subject, key, lifetime)
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(usages, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pem = builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)
        encryption: KeySerializationEncryption = NoEncryption()
        if password:
            encryption = BestAvailableEncryption(password.encode())
        return pem, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def service(self, directory: Path, uri: str = SERVICE, *, reload_seconds: float = 10.0) -> Tls:
        """Writes the files of a replica on this machine."""
        return self.write(directory, uris=[uri], dns=["localhost"], ips=["127.0.0.1"], reload_seconds=reload_seconds)

    def client(self, directory: Path, uri: str = ALICE, *, reload_seconds: float = 10.0) -> Tls:
        """Writes the files of a client."""
        return self.write(directory, uris=[uri], reload_seconds=reload_seconds)

    def write(
        self,
        directory: Path,
        *,
        uris: Sequence[str] = (),
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        name: str = "test",
        lifetime: timedelta = _DAY * 30,
        reload_seconds: float = 10.0,
    ) -> Tls:
        """Issues a certificate and writes it, its key and the authority into a directory, created if missing."""
        certificate, key = self.issue(uris=uris, dns=dns, ips=ips, name=name, lifetime=lifetime)
        return write_files(directory, certificate, key, self.pem, reload_seconds=reload_seconds)


def write_files(directory: Path, certificate: bytes, key: bytes, ca: bytes, *, reload_seconds: float = 10.0) -> Tls:
    """Writes the three files, each atomically."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", ca)):
        part = directory / f".{name}"
        part.touch(mode=0o600)
        part.write_bytes(content)
        part.replace(directory / name)
    return Tls(directory / "tls.crt", directory / "tls.key", directory / "ca.crt", reload_seconds)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _authority_builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        *(True, False, False, False, False, True, True, False, False)  # signs data, certificates, revocations
    )
    builder = _builder(subject, issuer, key, _DAY * 365).add_extension(usage, critical=True)
    return builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=400))
        .not_valid_after(now + lifetime)
    )
