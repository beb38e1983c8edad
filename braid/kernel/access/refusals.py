"""Why access is refused, as metrics, logs and audit records name it. Pure."""

from enum import Enum
from typing import Final

from braid.kernel.errors import AccessDenied, BraidError, Unauthenticated

REFUSAL_FACT: Final = "refusal"  # in an error's metadata: the reason, where its class does not say it


class RefusalReason(Enum):
    """Why a caller was refused, as one word.

    An error with another one than its class implies names it in its metadata, as `REFUSAL_FACT`.
    """

    UNAUTHENTICATED = "unauthenticated"
    FALSE_CLAIM = "false_claim"  # it claims to be somebody else than its certificate says
    DENIED = "denied"
    ENDED = "ended"  # a stream that was open


def refusal_of(error: BraidError) -> RefusalReason | None:
    """The reason why an error refuses its caller; None for an error of another kind."""
    if not isinstance(error, AccessDenied | Unauthenticated):
        return None
    named = error.metadata.get(REFUSAL_FACT, "")
    implied = RefusalReason.DENIED if isinstance(error, AccessDenied) else RefusalReason.UNAUTHENTICATED
    return next((each for each in RefusalReason if each.value == named), implied)
