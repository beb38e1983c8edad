"""Whose tokens a replica takes, and what of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from braid.kernel.errors import Invalid, Unauthenticated
from braid.kernel.limits.access.tokens import TOKEN_LEEWAY_SECONDS
from braid.kernel.principals import token_principal

# By the first letters of an algorithm, what kind of key it wants (RFC 7518, RFC 8037). Only signatures by private keys:
# with a secret (HS256) each replica could sign, and so could whoever reads the key that everybody may read.
KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
ALGORITHMS: Final = tuple(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"])
ALGORITHMS_DEFAULT: Final = ("RS256", "PS256", "ES256", "EdDSA")


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings of a service about tokens.

    Attributes:
        issuer: Must stand in each token as `iss`, to the letter.
        audience: Must be among those in each token's `aud`.
        keys: The issuer's public keys (a JWK set, RFC 7517): an https URL, or the path of a file.
        keys_ca: The authorities that may sign the certificate of that URL, a PEM file; None for the system's.
        claim: The claim that names the caller.
        prefix: Stands before the name, behind `jwt:`, in the principal.
        algorithms: Of signatures that count.
        leeway_seconds: That a token counts after its end, and before its beginning: clocks differ.
    """

    issuer: str
    audience: str
    keys: str
    keys_ca: Path | None = None
    claim: str = "sub"
    prefix: str = ""
    algorithms: Sequence[str] = field(default=ALGORITHMS_DEFAULT)
    leeway_seconds: float = TOKEN_LEEWAY_SECONDS


def check_tokens(settings: TokenSettings) -> None:
    """Raises `Invalid` for settings that no token could do with, or that would take too many; the field names one."""
    for name in ("issuer", "audience", "keys", "claim"):
        if not getattr(settings, name):
            raise Invalid("is not set", field=f"token_{name}", remedy="tokens need an issuer, an audience and its keys")
    for algorithm in settings.algorithms or ("",):
        if algorithm not in ALGORITHMS:
            remedy = f"use some of {', '.join(ALGORITHMS)}"
            raise Invalid(f"{algorithm!r} is no signature by a private key", field="token_algorithms", remedy=remedy)
    try:
        token_principal(settings.prefix, "x")
    except Unauthenticated:
        remedy = "use printable ASCII without blanks"
        raise Invalid(f"{settings.prefix!r} begins no principal", field="token_prefix", remedy=remedy) from None
    if is_url(settings.keys):
        check_url(settings.keys)


def is_url(keys: str) -> bool:
    """Whether keys are fetched, not read from a file."""
    return "://" in keys


def check_url(url: str) -> None:
    """Raises `Invalid` for a URL from which keys might come from anybody: plaintext beyond this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise Invalid(f"{url!r} is no URL", field="token_keys", remedy="for example https://id.example/keys") from None
    if parts.scheme == "https" and host:
        return
    if parts.scheme != "http" or not _is_loopback(host):
        remedy = "use https: a network that can change the keys can sign any token"
        raise Invalid(f"{url!r} is not https", field="token_keys", remedy=remedy)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
