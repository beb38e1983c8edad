"""Certificates in files, as they are named when they are revoked."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from braid.kernel.access.revocations import FINGERPRINT
from braid.kernel.errors import Invalid, Unauthenticated
from braid.kernel.limits.rpc import TLS_FILE_BYTES_MAX
from braid.kernel.principals import principal_of

if TYPE_CHECKING:
    from cryptography import x509


class RevocableCertificate(NamedTuple):
    """A certificate, as a revocation names it.

    Attributes:
        identity: `sha256:` and its fingerprint, in hexadecimal.
        principal: Whom it names; empty where that is nobody.
        expire_ms: When it ends, milliseconds since the epoch.
    """

    identity: str
    principal: str
    expire_ms: int


def read_certificate(path: Path, field: str) -> RevocableCertificate:
    """Reads the first certificate of a PEM file: that of the process, before those of authorities.

    Raises:
        Invalid: the file cannot be read, holds no certificate, or begins with that of an authority.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        with path.open("rb") as file:
            found = x509.load_pem_x509_certificate(file.read(TLS_FILE_BYTES_MAX))
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field=field, remedy="check the path") from error
    except ValueError as error:
        remedy = "name the certificate, not its key; it begins with -----BEGIN CERTIFICATE-----"
        raise Invalid(f"{path} holds no PEM certificate", field=field, remedy=remedy) from error
    if _is_authority(found):
        remedy = "take it out of every ca.pem: with a CA of `braid certs`, braid certs rotate --ca, then --finish"
        raise Invalid(f"{path} is the certificate of an authority", field=field, remedy=remedy)
    expire_ms = int(found.not_valid_after_utc.timestamp() * 1_000)
    return RevocableCertificate(f"{FINGERPRINT}{found.fingerprint(SHA256()).hex()}", _principal(found), expire_ms)


def _is_authority(certificate: "x509.Certificate") -> bool:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _principal(certificate: "x509.Certificate") -> str:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        return principal_of(uris, names.get_values_for_type(x509.DNSName), "")
    except (x509.ExtensionNotFound, Unauthenticated):
        return ""
