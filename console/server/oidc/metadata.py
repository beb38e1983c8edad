"""The provider's document about itself (OpenID Connect Discovery 1.0), read and checked. Pure."""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from braid.kernel.errors import BraidError, Refused, Unavailable
from console.server.oidc.http import HttpAnswer, shown_text
from console.server.oidc.settings import check_url

WELL_KNOWN: Final = "/.well-known/openid-configuration"


class Metadata(NamedTuple):
    """Addresses and abilities of a provider that the console uses.

    Attributes:
        authorization_endpoint: Where browsers are sent to sign in.
        token_endpoint: Where a code becomes tokens.
        jwks_uri: Its public keys.
        end_session_endpoint: Where browsers are sent to sign out; empty where it has none.
        auth_methods: How clients with a secret may show it.
        names_itself: Whether each of its answers to browsers names it (RFC 9207).
    """

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str
    auth_methods: tuple[str, ...]
    names_itself: bool


def parse_metadata(answer: HttpAnswer, issuer: str) -> Metadata:
    """Reads the document.

    Raises:
        Unavailable: there is none now.
        Refused: it is of another issuer, has unsafe addresses, or the provider has no PKCE.
    """
    url = issuer.rstrip("/") + WELL_KNOWN
    if answer.status != 200:
        message = f"the sign-in provider answers {answer.status} at {url}"
        raise Unavailable(message, remedy="check BRAID_CONSOLE_OIDC_ISSUER, and whether the provider works")
    document = json_object(answer.body)
    if document is None:
        raise Unavailable(f"the sign-in provider's document at {url} is no JSON object", remedy="check the issuer")
    named = document.get("issuer")
    if named != issuer:
        remedy = f"set BRAID_CONSOLE_OIDC_ISSUER to {shown_text(named)}, if that is your provider"
        raise Refused(f"the sign-in provider at {issuer} calls itself {shown_text(named)!r}", remedy=remedy)
    methods = document.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise Refused("the sign-in provider has no PKCE with S256", remedy="allow S256 for this client there")
    found = {
        name: _address(document, name, required=name != "end_session_endpoint")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint")
    }
    ways = document.get("token_endpoint_auth_methods_supported")
    known = tuple(each for each in ways if isinstance(each, str)) if isinstance(ways, list) else ()
    says = document.get("authorization_response_iss_parameter_supported") is True
    return Metadata(**found, auth_methods=known or ("client_secret_basic",), names_itself=says)


def json_object(body: bytes) -> Mapping[str, object] | None:
    """The JSON object in an answer; None where there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None


def _address(document: Mapping[str, object], name: str, *, required: bool) -> str:
    value = document.get(name)
    if value is None and not required:
        return ""
    try:
        if not isinstance(value, str):
            raise Refused(f"the sign-in provider names no {name}", remedy="use a provider of OpenID Connect")
        check_url(value, name)
    except BraidError as error:
        raise Refused(f"the sign-in provider's {name}: {error.message}", remedy=error.remedy) from None
    return value
