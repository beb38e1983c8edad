"""How long a certificate is valid and whose it is, read from its file. Nothing is trusted here."""

from datetime import datetime
from pathlib import Path

from cryptography import x509


def expiry_of(path: Path) -> datetime | None:
    """Until when the first certificate of a PEM file is valid; None where the file says nothing that can be read."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None


def subject_of(path: Path) -> str:
    """The subject of the first certificate of a PEM file, as Kafka names its user; '' if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].subject.rfc4514_string()
    except (OSError, ValueError):
        return ""
