"""Settings of the provider that people sign in with, and what is refused of them. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from braid.host.addresses import is_loopback
from braid.kernel.errors import Invalid

CALLBACK_PATH: Final = "/oidc/callback"
OPENID: Final = "openid"
# Parameters of a request to sign in that the console sets itself.
_OWN_PARAMETERS: Final = frozenset(
    {
        *("client_id", "code_challenge", "code_challenge_method", "nonce", "redirect_uri", "request", "request_uri"),
        *("resource", "response_mode", "response_type", "scope", "state"),
    }
)


class BearerKind(StrEnum):
    """Which of a person's tokens the console sends to services."""

    ACCESS = "access"
    ID = "id"


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The provider, and this console as its client.

    Attributes:
        issuer: The provider's issuer, an https URL.
        client_id: The console's id there.
        redirect_uri: Where the provider sends browsers back to; it is registered there.
        client_secret: A file with the client's secret; None for a public client.
        scopes: Asked for, separated by blanks; `openid` is one of them.
        resource: For which access tokens are asked (RFC 8707); empty for none.
        parameters: Further parameters of the request to sign in, `name=value&…`.
        bearer: Which token is sent to services.
        name: What the page calls the provider; empty for its host.
        ca: The authorities that may sign the provider's certificate, a PEM file; None for the system's.
    """

    issuer: str
    client_id: str
    redirect_uri: str
    client_secret: Path | None = None
    scopes: str = OPENID
    resource: str = ""
    parameters: str = ""
    bearer: BearerKind = BearerKind.ACCESS
    name: str = ""
    ca: Path | None = None

    @property
    def shown_name(self) -> str:
        """The name of the provider on the page."""
        return self.name or urlsplit(self.issuer).hostname or self.issuer

    @property
    def further(self) -> list[tuple[str, str]]:
        """Further parameters of the request to sign in."""
        return parse_qsl(self.parameters, keep_blank_values=True)


def check_oidc(settings: OidcSettings) -> None:
    """Raises `Invalid` for settings by which nobody could sign in, or anybody could; the field names one."""
    for name in ("issuer", "client_id"):
        if not getattr(settings, name):
            raise Invalid("is not set", field=f"oidc_{name}", remedy="a provider needs an issuer and a client id")
    check_url(settings.issuer, "oidc_issuer")
    if urlsplit(settings.issuer).query:
        raise Invalid("has a query", field="oidc_issuer", remedy="give the issuer as tokens have it as `iss`")
    if OPENID not in settings.scopes.split():
        raise Invalid(f"{settings.scopes!r} lacks {OPENID}", field="oidc_scopes", remedy=f"add {OPENID}")
    try:
        named = {name for name, _ in parse_qsl(settings.parameters, keep_blank_values=True, strict_parsing=True)}
    except ValueError:
        named = set() if not settings.parameters else {settings.parameters}
        if named:
            remedy = "for example prompt=consent&access_type=offline"
            raise Invalid(f"{settings.parameters!r} is no query", field="oidc_parameters", remedy=remedy) from None
    if taken := sorted(named & _OWN_PARAMETERS):
        remedy = "leave it out; scopes and resource have settings of their own"
        raise Invalid(f"{', '.join(taken)} is the console's to set", field="oidc_parameters", remedy=remedy)


def check_url(url: str, field: str) -> None:
    """Raises `Invalid` unless a URL is https, or http on this machine: secrets and tokens travel there."""
    remedy = "use https, for example https://id.example.com"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{url[:200]!r} is no URL", field=field, remedy=remedy) from None
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or not host or parts.fragment or parts.username is not None:
        raise Invalid(f"{url[:200]!r} is no URL of a server", field=field, remedy=remedy)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise Invalid(f"{url[:200]!r} is not https", field=field, remedy=remedy)
