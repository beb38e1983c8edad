"""Revocations as values: which identities are refused, whatever they were granted. Pure.

An identity is a principal (`spiffe://…`, `dns:…`), or one certificate: `sha256:` and its fingerprint, or `serial:` and
its serial number. One text names it everywhere.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from braid.kernel.access.grants import check_principal
from braid.kernel.errors import Invalid
from braid.kernel.ports import Caller

FINGERPRINT: Final = "sha256:"
SERIAL: Final = "serial:"
_FINGERPRINT_DIGITS: Final = 64
_SERIAL_DIGITS_MAX: Final = 40  # 20 octets: RFC 5280, section 4.1.2.2
_HEX: Final = re.compile(r"[0-9a-f]+")
_FORMS: Final = "write spiffe://TRUST-DOMAIN/PATH, dns:NAME, sha256:FINGERPRINT or serial:NUMBER in hexadecimal"


@dataclass(frozen=True, slots=True)
class Revocation:
    """One identity that is refused.

    Attributes:
        identity: What is refused, in the form of `check_identity`.
        principal: Whom a revoked certificate names, for people; empty where nobody said.
        reason: Why, for people.
        expire_ms: When the certificate ends, milliseconds since the epoch; 0 for a principal, or where nobody said.
        revoked_by: The principal that revoked it.
        revoked_ms: When.
    """

    identity: str
    principal: str = ""
    reason: str = ""
    expire_ms: int = 0
    revoked_by: str = ""
    revoked_ms: int = 0

    def ended(self, now_ms: int) -> bool:
        """Whether no connection takes the certificate any more: it would have ended by itself."""
        return bool(self.expire_ms) and now_ms >= self.expire_ms


def check_identity(text: str, field: str) -> str:
    """Returns an identity in its one form: digits in lower case, without colons and leading zeros.

    Raises:
        Invalid: it is no principal, and no fingerprint or serial number of a certificate.
    """
    for prefix, read in ((FINGERPRINT, _fingerprint), (SERIAL, _serial)):
        if text.startswith(prefix):
            digits = read(text.removeprefix(prefix).replace(":", "").lower())
            if digits:
                return f"{prefix}{digits}"
            break
    else:
        try:
            return check_principal(text, field)
        except Invalid:
            pass
    raise Invalid(f"{text[:200]!r} is no identity", field=field, remedy=_FORMS)


def is_certificate(identity: str) -> bool:
    """Whether an identity is one certificate; else it is a principal."""
    return identity.startswith((FINGERPRINT, SERIAL))


def identities_of(caller: Caller) -> Collection[str]:
    """All identities that a caller has proved: its principal, and what names its certificate. None in plaintext."""
    if not caller.authenticated:
        return ()
    certificate = caller.certificate
    if certificate is None:
        return (caller.principal,)
    return (caller.principal, f"{FINGERPRINT}{certificate.fingerprint}", f"{SERIAL}{certificate.serial}")


def find_revocation(revocations: Mapping[str, Revocation], caller: Caller) -> Revocation | None:
    """The revocation that a caller falls under, by identity; None for a caller that may go on."""
    if not revocations:
        return None
    return next((revocations[each] for each in identities_of(caller) if each in revocations), None)


def _fingerprint(digits: str) -> str:
    return digits if len(digits) == _FINGERPRINT_DIGITS and _HEX.fullmatch(digits) else ""


def _serial(digits: str) -> str:
    found = digits.removeprefix("0x").lstrip("0")
    return found if _HEX.fullmatch(found) and len(found) <= _SERIAL_DIGITS_MAX else ""
