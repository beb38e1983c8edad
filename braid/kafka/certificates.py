"""How long a certificate is valid: read from its file (RFC 5280), to say why a broker refuses it. Nothing is trusted.

The standard library tells dates of no certificate but a peer's.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_FIELDS_BEFORE_VALIDITY: Final = 3  # serial number, algorithm, issuer


def expiry_of(path: Path) -> datetime | None:
    """Until when the first certificate of a PEM file is valid; None where the file says nothing that can be read."""
    try:
        text = path.read_text("ascii")
        start = text.index(_BEGIN)
        return _not_after(ssl.PEM_cert_to_DER_cert(text[start : text.index(_END, start) + len(_END)]))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _not_after(certificate: bytes) -> datetime:
    """The end of a DER certificate's validity. Raises `ValueError`, `IndexError` or `StopIteration`."""
    _, whole = next(_elements(certificate))
    _, signed = next(_elements(whole))
    fields = [(tag, content) for tag, content in _elements(signed) if tag != _VERSION]
    tag, validity = fields[_FIELDS_BEFORE_VALIDITY]
    if tag != _SEQUENCE:
        raise ValueError("no validity where it belongs")
    [_, (kind, end)] = _elements(validity)
    if kind not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("no time where it belongs")
    text = end.decode("ascii")
    if kind == _UTC_TIME:  # RFC 5280, 4.1.2.5.1: two digits of the year, of 1950 to 2049
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element of a DER sequence (X.690)."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(data[at : at + count]), at + count
        if at + length > len(data):
            raise ValueError("an element ends behind its sequence")
        yield tag, data[at : at + length]
        at += length
