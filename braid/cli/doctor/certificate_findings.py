"""`doctor`'s findings on certificates: those that end soon, and replicas that serve plaintext beside TLS. Pure."""

from typing import Final, NamedTuple

from braid.cli.core.limits import (
    CLI_AUTHORITY_FAIL_DAYS,
    CLI_AUTHORITY_WARN_DAYS,
    CLI_CERTIFICATE_FAIL_DAYS,
    CLI_CERTIFICATE_WARN_DAYS,
)
from braid.cli.core.times import age_text
from braid.cli.doctor.findings import Finding, Level
from braid.kernel.timing.days import days_until

_REPLACE: Final = "issue another one and put it in the place of its files: it is read without a restart"
_ROTATE: Final = "make a new authority and give every process its files: braid certs rotate --ca"


class CertificateFacts(NamedTuple):
    """The end of one certificate, of a replica or of this process.

    Attributes:
        name: Name of the replica, or of this side.
        expires_at: Seconds since the epoch; 0 if unknown.
        error: Why it is unknown, or what is wrong with the certificate; empty if all is well.
        plaintext: Address where it also serves plaintext; empty if it does not.
        authority_ends_at: When what signed it ends, seconds since the epoch; 0 if unknown.
    """

    name: str
    expires_at: float = 0.0
    error: str = ""
    plaintext: str = ""
    authority_ends_at: float = 0.0


def check_certificate(facts: CertificateFacts, now_seconds: float) -> list[Finding]:
    """Checks one certificate, and whether it is needed at all."""
    found = [_end(facts, now_seconds)] if facts.expires_at or facts.error else []
    if facts.authority_ends_at:
        found.append(_authority_end(facts, now_seconds))
    if facts.plaintext:
        message = f"it serves plaintext too, at {facts.plaintext}: callers there are who they say they are"
        remedy = "set BRAID_TLS_MODE=required once every client has a certificate"
        found.append(Finding(facts.name, "plaintext", Level.WARN, message, remedy))
    return found


def _end(facts: CertificateFacts, now_seconds: float) -> Finding:
    if facts.error:
        return Finding(facts.name, "certificate", Level.FAIL, facts.error, _REPLACE)
    left = days_until(facts.expires_at, now_seconds)
    if left <= 0:
        return Finding(facts.name, "certificate", Level.FAIL, "its certificate has expired", _REPLACE)
    message = f"its certificate ends in {_span(facts.expires_at, now_seconds)}"
    if left < CLI_CERTIFICATE_FAIL_DAYS:
        return Finding(facts.name, "certificate", Level.FAIL, message, _REPLACE)
    if left < CLI_CERTIFICATE_WARN_DAYS:
        return Finding(facts.name, "certificate", Level.WARN, message, _REPLACE)
    return Finding(facts.name, "certificate", Level.OK, message)


def _authority_end(facts: CertificateFacts, now_seconds: float) -> Finding:
    left = days_until(facts.authority_ends_at, now_seconds)
    if left <= 0:
        return Finding(facts.name, "authority", Level.FAIL, "the authority of its certificate has expired", _ROTATE)
    message = f"the authority of its certificate ends in {_span(facts.authority_ends_at, now_seconds)}"
    if left < CLI_AUTHORITY_FAIL_DAYS:
        return Finding(facts.name, "authority", Level.FAIL, message, _ROTATE)
    if left < CLI_AUTHORITY_WARN_DAYS:
        return Finding(facts.name, "authority", Level.WARN, message, _ROTATE)
    return Finding(facts.name, "authority", Level.OK, message)


def _span(ends_seconds: float, now_seconds: float) -> str:
    return age_text(1, 1 + round((ends_seconds - now_seconds) * 1_000))
