"""Failed TLS handshakes as problems that somebody can mend: whose certificate is at fault, and why. No I/O."""

import ssl
from typing import Final, NamedTuple

_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
_OF_THE_NAME: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_AUTHORITY: Final = "let ca_file of the security profile hold the authority that signs the brokers' certificates"
_NAMES: Final = "connect by a name that the broker's certificate has, or give the broker another certificate"
_RENEW: Final = "renew the certificate of that broker"
_OWN: Final = "look at certificate_file and key_file of the security profile"
_OTHER: Final = "look at security_protocol of the security profile, and at the listener of that address"


class Problem(NamedTuple):
    """Why a cluster and a client do not come together.

    Attributes:
        kind: For programs, as `ClusterAccessDenied.problem` has it.
        text: For people.
        remedy: What to try.
    """

    kind: str
    text: str
    remedy: str


def handshake_problem(error: ssl.SSLError) -> Problem:
    """Says why a handshake failed: this client refuses the broker's certificate, or the broker this client's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _broker_problem(error)
    reason = getattr(error, "reason", "") or str(error)  # one that is not OpenSSL's own has none
    if "ALERT" in reason and "CERTIFICATE" in reason:  # TLS alerts 41 to 46 and 116, RFC 8446 section 6.2
        return Problem("client_certificate", f"it takes no certificate of this client ({reason})", _OWN)
    return Problem("tls", f"the TLS handshake failed: {reason}", _OTHER)


def _broker_problem(error: ssl.SSLCertVerificationError) -> Problem:
    said = f"its certificate is not accepted: {error.verify_message}"
    if error.verify_code == _EXPIRED:
        return Problem("broker_certificate_expired", said, _RENEW)
    if error.verify_code in _OF_THE_NAME:
        return Problem("broker_certificate", said, _NAMES)
    return Problem("broker_certificate", said, _AUTHORITY)
