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
        found.append(_AUTHORITY.judge(facts.name, facts.authority_ends_at, now_seconds))
    if facts.plaintext:
        message = f"it serves plaintext too, at {facts.plaintext}: callers there are who they say they are"
        remedy = "set BRAID_TLS_MODE=required once every client has a certificate"
        found.append(Finding(facts.name, "plaintext", Level.WARN, message, remedy))
    return found


def _end(facts: CertificateFacts, now_seconds: float) -> Finding:
    if facts.error:
        return Finding(facts.name, "certificate", Level.FAIL, facts.error, _REPLACE)
    return _CERTIFICATE.judge(facts.name, facts.expires_at, now_seconds)


class _Lifetime(NamedTuple):
    """A kind of certificate, its name in sentences, and how near its end warns and fails."""

    kind: str
    shown: str
    warn_days: float
    fail_days: float
    remedy: str

    def judge(self, name: str, ends_at: float, now_seconds: float) -> Finding:
        """Checks when one ends; times are seconds since the epoch."""
        left = days_until(ends_at, now_seconds)
        if left <= 0:
            return Finding(name, self.kind, Level.FAIL, f"{self.shown} has expired", self.remedy)
        message = f"{self.shown} ends in {age_text(1, 1 + round((ends_at - now_seconds) * 1_000))}"
        if left < self.fail_days:
            return Finding(name, self.kind, Level.FAIL, message, self.remedy)
        if left < self.warn_days:
            return Finding(name, self.kind, Level.WARN, message, self.remedy)
        return Finding(name, self.kind, Level.OK, message)


_CERTIFICATE: Final = _Lifetime(
    "certificate", "its certificate", CLI_CERTIFICATE_WARN_DAYS, CLI_CERTIFICATE_FAIL_DAYS, _REPLACE
)
_AUTHORITY: Final = _Lifetime(
    "authority", "the authority of its certificate", CLI_AUTHORITY_WARN_DAYS, CLI_AUTHORITY_FAIL_DAYS, _ROTATE
)
