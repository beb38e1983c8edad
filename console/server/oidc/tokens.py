"""Tokens as a provider answers them, checked for form, and the claims of an ID token. Pure.

Signatures, issuer, audience and times of ID tokens are checked by the same code that services check tokens with
(`braid.runtime.tokens`); the rest of OpenID Connect's rules is here.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Final, NamedTuple

from braid.kernel.errors import Refused, Unauthenticated, Unavailable
from braid.kernel.limits.access.tokens import TOKEN_BYTES_MAX
from console.server.limits import PROVIDER_SECRET_CHARS_MAX, TOKEN_LIFETIME_SECONDS_MAX
from console.server.oidc.http import HttpAnswer, shown_text
from console.server.oidc.metadata import json_object
from console.server.oidc.settings import BearerKind

BEGIN_AGAIN: Final = "sign in again"
_REMEDIES: Final[Mapping[str, str]] = {
    "access_denied": "sign in as somebody who may use this client, or ask who administers the provider",
    "invalid_grant": BEGIN_AGAIN,
    "invalid_client": "check BRAID_CONSOLE_OIDC_CLIENT_ID and BRAID_CONSOLE_OIDC_CLIENT_SECRET",
    "unauthorized_client": "allow this client the authorization code flow at the provider",
    "invalid_scope": "check BRAID_CONSOLE_OIDC_SCOPES",
    "invalid_target": "check BRAID_CONSOLE_OIDC_RESOURCE",
    "invalid_request": "check the client's redirect address at the provider, and BRAID_CONSOLE_URL",
    "server_error": "try again in a while",
    "temporarily_unavailable": "try again in a while",
}
_HASHES: Final = {"256": "sha256", "384": "sha384", "512": "sha512"}


@dataclass(frozen=True, slots=True)
class Answered:
    """The tokens of one answer.

    Attributes:
        access_token: May be opaque.
        id_token: Empty where the answer has none.
        refresh_token: Empty where the answer has none.
        lifetime_seconds: Of the access token, as the provider says; 0 where it does not.
    """

    access_token: str = field(repr=False)
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    lifetime_seconds: float


@dataclass(frozen=True, slots=True)
class Grant:
    """The tokens that a person's sign-in gave the console.

    Attributes:
        bearer: The token that services get.
        expire_ms: When it ends, by this process's clock.
        lifetime_ms: How long it lasts in all.
        id_token: The last ID token: signing out shows it to the provider.
        refresh_token: Gets the next tokens; empty where there is none.
        subject: Who signed in, in the provider's words.
        nonce: Of the sign-in.
    """

    bearer: str = field(repr=False)
    expire_ms: int
    lifetime_ms: int
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    subject: str
    nonce: str = field(repr=False)


class Expected(NamedTuple):
    """The claims that the ID token of an answer must have."""

    client_id: str
    nonce: str
    subject: str = ""


def parse_answer(answer: HttpAnswer) -> Answered:
    """Reads an answer of the token endpoint.

    Raises:
        Unavailable: the provider has trouble of its own, or answers out of form.
        Unauthenticated: it refuses.
    """
    document = json_object(answer.body)
    if answer.status >= 500 or answer.status == 429 or document is None:
        message = f"the sign-in provider answers {answer.status} when it is asked for tokens"
        raise Unavailable(message, remedy="try again in a while")
    if answer.status != 200:
        raise refusal(document.get("error"), document.get("error_description"))
    kind = document.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise Unavailable("the sign-in provider gives no bearer tokens", remedy="use a client that gets them there")
    lifetime = document.get("expires_in", 0)
    if isinstance(lifetime, str) and lifetime.isascii() and lifetime.isdecimal():
        lifetime = float(lifetime[:12])  # some send a number as text
    if not isinstance(lifetime, int | float) or isinstance(lifetime, bool) or not isfinite(lifetime) or lifetime < 0:
        raise Unavailable("the sign-in provider gives tokens without a sound lifetime")
    return Answered(
        _token_text(document, "access_token"),
        _token_text(document, "id_token"),
        _token_text(document, "refresh_token"),
        min(float(lifetime), TOKEN_LIFETIME_SECONDS_MAX),
    )


def refusal(error: object, description: object) -> Unauthenticated:
    """The error of a provider that refuses, with its own words as text."""
    code = shown_text(error) or "it does not say why"
    words = shown_text(description)
    said = f"{code}: {words}" if words else code
    remedy = _REMEDIES.get(code, "ask who administers the provider")
    return Unauthenticated(f"the sign-in provider refuses: {said}", remedy=remedy, metadata={"error": code})


def claims_of(token: str) -> Mapping[str, object]:
    """The claims of a signed token, without a look at its signature; none of a token that is opaque."""
    parts = token.split(".")
    header, claims = (_part(each) for each in (*parts[:2], "", "")[:2]) if len(parts) == 3 else (None, None)
    return claims if claims is not None and header is not None and "alg" in header else {}


def check_claims(id_token: str, access_token: str, expected: Expected) -> Mapping[str, object]:
    """Checks what a verified ID token says about the sign-in; returns its claims.

    Raises:
        Unauthenticated: it belongs to another sign-in, client, person or access token.
    """
    claims = claims_of(id_token)
    subject, nonce = claims.get("sub"), claims.get("nonce")
    if not isinstance(subject, str) or not subject or (expected.subject and subject != expected.subject):
        raise _wrong("names another person, or nobody")
    renewed = bool(expected.subject)
    if not (renewed and nonce is None) and not _same(nonce, expected.nonce):
        raise _wrong("belongs to another sign-in")
    party, audience = claims.get("azp"), claims.get("aud")
    if party is None and isinstance(audience, list) and len(audience) > 1:
        raise _wrong("is for several, and does not say for whom it was made")
    if party is not None and party != expected.client_id:
        raise _wrong("was made for another client")
    proof = claims.get("at_hash")
    if proof is not None and not _same(proof, _access_hash(id_token, access_token)):
        raise _wrong("belongs to another access token")
    return claims


def chosen_bearer(kind: BearerKind, access_token: str, id_token: str) -> str:
    """The token for services. Raises `Refused` for one that they could not verify or carry."""
    token = access_token if kind is BearerKind.ACCESS else id_token
    if not claims_of(token):
        raise Refused(
            f"the sign-in provider's {kind} token is opaque: services can verify signed tokens (JWT) alone",
            remedy="ask for an access token of your API with BRAID_CONSOLE_OIDC_RESOURCE, _SCOPES or _PARAMETERS; or "
            "set BRAID_CONSOLE_OIDC_TOKEN=id, and let services take this client's id as audience",
        )
    if len(token) > TOKEN_BYTES_MAX:
        message = f"the sign-in provider's {kind} token has {len(token)} characters, more than {TOKEN_BYTES_MAX}"
        raise Refused(message, remedy="ask for fewer scopes, or leave groups out of it at the provider")
    return token


def lifetime_ms(token: str, said_seconds: float, now_ms: int) -> int:
    """How long a token lasts from now. The provider's own times count, so a clock that is ahead does no harm."""
    if said_seconds > 0:
        return int(said_seconds * 1_000)
    claims = claims_of(token)
    begun, ends = claims.get("iat"), claims.get("exp")
    if not _is_time(ends):
        return 0
    seconds = float(ends) - (float(begun) if _is_time(begun) else now_ms / 1_000)  # type: ignore[arg-type]
    return int(max(0.0, min(seconds, TOKEN_LIFETIME_SECONDS_MAX)) * 1_000)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _token_text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    if value is None and name != "access_token":
        return ""
    plain = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
    if not isinstance(value, str) or not plain or not 0 < len(value) <= PROVIDER_SECRET_CHARS_MAX:
        raise Unavailable(f"the sign-in provider's {name} is out of form")
    return value


def _part(text: str) -> Mapping[str, object] | None:
    try:
        return json_object(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        return None


def _access_hash(id_token: str, access_token: str) -> str:
    """The left half of the access token's digest, by the ID token's algorithm (OpenID Connect Core, 3.1.3.6)."""
    header = _part(id_token.partition(".")[0]) or {}
    algorithm = str(header.get("alg"))
    digest = hashlib.new("sha512" if algorithm == "EdDSA" else _HASHES.get(algorithm[2:], "sha256"))
    digest.update(access_token.encode())
    half = digest.digest()[: digest.digest_size // 2]
    return base64.urlsafe_b64encode(half).rstrip(b"=").decode()


def _same(value: object, expected: str) -> bool:
    return isinstance(value, str) and hmac.compare_digest(value.encode("utf-8", "replace"), expected.encode())


def _wrong(what: str) -> Unauthenticated:
    return Unauthenticated(f"the sign-in provider's ID token {what}", remedy=BEGIN_AGAIN)
