"""Why access is refused, as metrics, logs and audit records name it. Pure."""

from enum import Enum
from typing import Final

from braid.kernel.errors import (
    AccessDenied,
    BraidError,
    CertificateUntrusted,
    IdentityRevoked,
    QuotaExceeded,
    Unauthenticated,
)

REFUSAL_FACT: Final = "problem"  # in an error's metadata: the reason, where its class does not say it


class RefusalReason(Enum):
    """Why a caller was refused, as one word.

    An error with another one than its class implies names it in its metadata, as `REFUSAL_FACT`.
    """

    UNAUTHENTICATED = "unauthenticated"
    FALSE_CLAIM = "false_claim"  # it claims to be somebody else than its certificate says
    DENIED = "denied"
    ENDED = "ended"  # a stream that was open
    REVOKED = "revoked"  # who calls, not what it may
    QUOTA = "quota"  # what its tenant may have or do, not what it may
    UNTRUSTED = "untrusted"  # its certificate was accepted, and is no more
    UNKNOWN_KEY = "unknown_key"  # its token is signed with a key that its issuer is not known to have
    TOO_MANY_OPEN = "too_many_open"  # it has as many calls open as one caller may


def refusal_of(error: BraidError) -> RefusalReason | None:
    """The reason why an error refuses its caller; None for an error of another kind."""
    implied = next((reason for kind, reason in _IMPLIED.items() if isinstance(error, kind)), None)
    named = next((each for each in RefusalReason if each.value == error.metadata.get(REFUSAL_FACT, "")), None)
    if implied is None:
        return named if named in _NAMED else None
    return named or implied


_NAMED: Final = frozenset({RefusalReason.UNKNOWN_KEY, RefusalReason.TOO_MANY_OPEN})  # no class of errors implies them
_IMPLIED: Final[dict[type[BraidError], RefusalReason]] = {  # the narrowest first
    IdentityRevoked: RefusalReason.REVOKED,
    AccessDenied: RefusalReason.DENIED,
    Unauthenticated: RefusalReason.UNAUTHENTICATED,
    QuotaExceeded: RefusalReason.QUOTA,
    CertificateUntrusted: RefusalReason.UNTRUSTED,
}
