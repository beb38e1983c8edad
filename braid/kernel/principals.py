"""The principal among the names in a certificate or a token. Pure: parses neither."""

from collections.abc import Sequence
from typing import Final

from braid.kernel.errors import Unauthenticated
from braid.kernel.limits.names import SPIFFE_ID_BYTES_MAX

SPIFFE: Final = "spiffe://"
DNS: Final = "dns:"
TOKEN: Final = "jwt:"  # of every token, whatever its issuer writes: so none names what a certificate does


def principal_of(uris: Sequence[str], dns_names: Sequence[str], subject: str) -> str:
    """The principal of a verified certificate: its SPIFFE id, else `dns:` and its first DNS name.

    Args:
        uris: URIs among its subject alternative names.
        dns_names: DNS names among them, in the certificate's order.
        subject: What an error calls the certificate, for example its common name.

    Raises:
        Unauthenticated: it names neither, several SPIFFE ids (X.509-SVID, section 2, allows one), or one out of form.
    """
    ids = [uri for uri in uris if uri.startswith(SPIFFE)]
    if len(ids) > 1:
        raise Unauthenticated(f"the certificate of {subject} names several SPIFFE ids: {', '.join(ids)}")
    if ids:
        return check_spiffe_id(ids[0], subject)
    if dns_names:
        return f"{DNS}{dns_names[0].lower()}"
    raise Unauthenticated(
        f"the certificate of {subject} names no principal: neither a SPIFFE id nor a DNS name is in it",
        remedy="issue one with the URI spiffe://TRUST-DOMAIN/PATH among its subject alternative names",
    )


def check_spiffe_id(uri: str, subject: str) -> str:
    """Returns a SPIFFE id that is in form: `spiffe://trust-domain/path`. Raises `Unauthenticated` for another."""
    domain, _, path = uri.removeprefix(SPIFFE).partition("/")
    printable = uri.isascii() and uri.isprintable() and " " not in uri
    if not (domain and path) or not printable or len(uri) > SPIFFE_ID_BYTES_MAX or set(uri) & set("?#@"):
        raise Unauthenticated(f"the certificate of {subject} names {uri!r}, which is no SPIFFE id")
    return uri


def token_principal(prefix: str, name: str) -> str:
    """The principal of a verified token: `jwt:`, a prefix of the mesh's own, and the name that stands in the token.

    Raises:
        Unauthenticated: the name is empty, too long, or has characters that no principal has.
    """
    principal = f"{TOKEN}{prefix}{name}"
    printable = principal.isascii() and principal.isprintable() and " " not in principal
    if not name or not printable or len(principal) > SPIFFE_ID_BYTES_MAX:
        raise Unauthenticated(
            f"the token names {name[:100]!r}, which is no principal",
            remedy="let the issuer put a name of printable ASCII without blanks into it",
            metadata={"problem": "token_name"},
        )
    return principal


def trust_domain(principal: str) -> str:
    """The trust domain of a SPIFFE id; empty for any other principal."""
    return principal.removeprefix(SPIFFE).partition("/")[0] if principal.startswith(SPIFFE) else ""
