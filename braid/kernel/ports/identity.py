"""The port to identity: what a caller shows of itself, and whom that proves it to be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """The names in a certificate that the transport has verified.

    Attributes:
        uris: URIs among its subject alternative names.
        dns_names: DNS names among them, in the certificate's order.
        subject: What an error calls the certificate.
    """

    uris: Sequence[str] = ()
    dns_names: Sequence[str] = ()
    subject: str = "a client"


@dataclass(frozen=True, slots=True)
class Shown:
    """The proofs that a caller presents. Nothing but the certificate is verified.

    Attributes:
        encrypted: Whether it comes over TLS.
        certificate: The names in its certificate; None where it shows none.
        bearer: The token it sends, as it stands; empty where it sends none. It is a secret: no text may have it.
    """

    encrypted: bool = False
    certificate: CertificateNames | None = None
    bearer: str = ""

    def __repr__(self) -> str:
        token = "a token" if self.bearer else "no token"
        return f"Shown(encrypted={self.encrypted}, certificate={self.certificate}, {token})"


class Identity(NamedTuple):
    """The principal that a caller has proved to be.

    Attributes:
        principal: Its name.
        expire_ms: When the proof ends, by the wall clock, milliseconds since the epoch; 0 where the transport sees to
            that, as with certificates.
    """

    principal: str
    expire_ms: int = 0


class Authenticator(Protocol):
    """Says who calls, from what a caller shows."""

    async def identify(self, shown: Shown) -> Identity | None:
        """The caller's identity; None where it shows nothing that this one judges.

        Raises:
            Unauthenticated: what it shows proves nothing; `metadata['problem']` says why, for programs.
            Unavailable: it cannot be judged now, for example because an issuer's keys were not read yet.
        """
        ...
