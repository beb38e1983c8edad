"""Reads and checks the PEM files of mutual TLS, and reads them again when they change.

A file that cannot be used leaves what was read before in use: a rotation that goes wrong breaks no connection.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.host import secret_files
from braid.host.reread_files import RereadFiles
from braid.host.tls.paths import Tls
from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import TLS_FILE_BYTES_MAX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_log: Final = logging.getLogger("braid.tls")


class ValidTime(NamedTuple):
    """The time in which a certificate is valid, in seconds since the epoch."""

    begins_at: float
    ends_at: float


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The contents of the files, checked.

    Attributes:
        certificate: PEM of the certificate and the intermediate ones.
        key: PEM of the private key.
        ca: PEM of the trusted authorities.
        expires_at: When the certificate ends, seconds since the epoch.
        valid: When the certificate is valid; None for a side that shows none.
        authority: When the authority is valid that signed it: of several that did, the last to end.
    """

    certificate: bytes
    key: bytes
    ca: bytes
    expires_at: float
    valid: ValidTime | None = None
    authority: ValidTime | None = None

    def __repr__(self) -> str:
        return f"TlsMaterial(expires_at={self.expires_at})"  # never the key


def read_tls(tls: Tls) -> TlsMaterial:
    """Reads the three files and checks them.

    Raises:
        Invalid: a file is missing, unreadable, too large, not PEM or out of its time; the key is open to others,
            encrypted, or not the certificate's. The field is `tls.certificate`, `tls.key` or `tls.ca`.
    """
    certificate, key, ca = _read(tls.certificate, "certificate"), _read_key(tls.key), _read(tls.ca, "ca")
    chain = _certificates(certificate, tls.certificate, "certificate")
    authorities = _certificates(ca, tls.ca, "ca")
    _check_pair(chain[0], _private_key(key, tls.key), tls)
    _check_time(chain[0], tls.certificate)
    valid = _valid(chain[0])
    return TlsMaterial(certificate, key, ca, valid.ends_at, valid, _authority(chain, authorities))


class TlsFiles:
    """The files of a `Tls` as they were last read well. Safe to ask from any thread."""

    def __init__(self, tls: Tls, on_unusable: Callable[[], None] | None = None) -> None:
        """Reads the files. Raises `Invalid` as `read_tls` does.

        Args:
            tls: The files.
            on_unusable: Called once for each change that leaves them unusable.
        """
        self._tls = tls
        self._on_unusable = on_unusable
        self._files = RereadFiles(
            [tls.certificate, tls.key, tls.ca],
            lambda: read_tls(tls),
            tls.reload_seconds,
            on_read=self._was_read,
            on_unusable=self._is_unusable,
        )

    @property
    def tls(self) -> Tls:
        """Where the files are."""
        return self._tls

    def current(self) -> TlsMaterial:
        """The contents to use now; looks at the files again once `reload_seconds` have passed since it did last."""
        return self._files.current()

    def _was_read(self, material: TlsMaterial) -> None:
        _log.info("the TLS files were read anew; the certificate ends at %s", _text(material.expires_at))

    def _is_unusable(self, error: Invalid) -> None:
        _log.warning("the TLS files changed and cannot be used: those read before stay in use: %s", error)
        if self._on_unusable is not None:
            self._on_unusable()


def _read(path: Path, name: str) -> bytes:
    return _bounded(_content(path, name)[0], path, name)


def _read_key(path: Path) -> bytes:
    content, exposure = _content(path, "key")
    if exposure:
        raise _wrong(path, "key", exposure, f"chmod 600 {path}")
    return _bounded(content, path, "key")


def _content(path: Path, name: str) -> tuple[bytes, str]:
    try:
        return secret_files.read_bytes(path)
    except FileNotFoundError:
        raise _wrong(path, name, "does not exist", "check the path") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise _wrong(path, name, f"cannot be read ({reason})", "let this process's user read it") from None


def _bounded(content: bytes, path: Path, name: str) -> bytes:
    if len(content) > TLS_FILE_BYTES_MAX:
        raise _wrong(path, name, f"has {len(content)} bytes, more than {TLS_FILE_BYTES_MAX}", "is it the right file?")
    return content


def _certificates(content: bytes, path: Path, name: str) -> "list[Certificate]":
    # Lazy: most programs that import Braid open no TLS connection.
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(content)
    except ValueError:
        raise _wrong(path, name, "holds no PEM certificate", "it begins with -----BEGIN CERTIFICATE-----") from None


def _private_key(content: bytes, path: Path) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(content, None)
    except TypeError:
        raise _wrong(path, "key", "is encrypted", "write the key without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        remedy = "it begins with -----BEGIN PRIVATE KEY-----"
        raise _wrong(path, "key", "holds no PEM private key", remedy) from None


def _check_pair(leaf: "Certificate", key: "PrivateKeyTypes", tls: Tls) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if leaf.public_key().public_bytes(*form) != key.public_key().public_bytes(*form):
        remedy = "name the key that the certificate was issued for"
        raise _wrong(tls.key, "key", f"is not the key of {tls.certificate}", remedy)


def _check_time(leaf: "Certificate", path: Path) -> None:
    now = datetime.now(UTC)
    if now >= leaf.not_valid_after_utc:
        until = _text(leaf.not_valid_after_utc.timestamp())
        raise _wrong(path, "certificate", f"expired at {until}", "issue a new one")
    if now < leaf.not_valid_before_utc:
        since = _text(leaf.not_valid_before_utc.timestamp())
        raise _wrong(path, "certificate", f"is not valid before {since}", "check this machine's clock")


def _valid(certificate: "Certificate") -> ValidTime:
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return ValidTime(since.timestamp(), until.timestamp())


def _authority(chain: "Sequence[Certificate]", authorities: "Sequence[Certificate]") -> ValidTime:
    """The time of the last to end of the authorities that signed a part of a chain; of all, if no name fits."""
    issuers = {each.issuer for each in chain}
    signed = [each for each in authorities if each.subject in issuers] or authorities
    return max(map(_valid, signed), key=lambda each: each.ends_at)


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wrong(path: Path, name: str, what: str, remedy: str) -> Invalid:
    return Invalid(f"{path} {what}", field=f"tls.{name}", remedy=remedy)
