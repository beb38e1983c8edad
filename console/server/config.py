"""Settings of the console's process, from `BRAID_CONSOLE_…` variables.

Where the mesh is, it finds as the command line does.
"""

import re
import sys
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from braid.host.addresses import is_loopback
from braid.host.secret_files import exposure
from braid.kernel.errors import Invalid
from console.server.oidc.provider import read_client_secret
from console.server.oidc.settings import CALLBACK_PATH, OPENID, BearerKind, OidcSettings, check_oidc, check_url
from console.server.web.signing_in import LINK, OIDC, TOKEN

_WRONG_USAGE: Final = 2
_WAYS: Final = (LINK, TOKEN, OIDC)
_ADDRESS: Final = re.compile(r"https?://[^\s/@?#]+[^\s@?#]*")
_PRIVATE: Final = re.compile(r"https://|http://(127\.0\.0\.1|localhost|\[::1\])[:/]")
_TRACE_LINK: Final = re.compile(r"https?://[!-~]*\{trace_id\}[!-~]*")
_UNSPECIFIED: Final = ("0.0.0.0", "::")


class ConsoleSettings(BaseSettings):
    """Settings of one console process, from its environment.

    Attributes:
        listen: Where browsers reach it, `host:port`; port 0 chooses one.
        home: A directory of its own; the key of one-time links is there, for this process's user alone.
        sign_in: How people sign in: `link`, by one-time links that `braid open` prints, with the console's own rights;
            `token`, by a token of theirs that the mesh verifies, with their rights; `oidc`, with a provider of OpenID
            Connect, with their rights; or several of them, separated by commas.
        url: The address by which browsers reach it, `https://NAME`, where that is not `listen`: something in front of
            it speaks TLS. A provider sends browsers back to `/oidc/callback` there.
        oidc_issuer: The provider's issuer, as its tokens have it as `iss`.
        oidc_client_id: The console's client id at the provider.
        oidc_client_secret: A file with the client's secret, which nobody else may read; none for a public client.
        oidc_scopes: The scopes asked for, separated by blanks; most providers renew tokens for `offline_access`.
        oidc_resource: The resource (RFC 8707) that access tokens are asked for.
        oidc_parameters: Further parameters of the request to sign in, for example `audience=braid&prompt=login`.
        oidc_token: The token of the person that services get: `access`, or `id` where access tokens are opaque.
        oidc_name: What the page calls the provider; its host, where this is not set.
        oidc_ca: The authorities that may sign the provider's certificate, a PEM file; those of the system otherwise.
        hosts: Names by which browsers call it, beside those of this machine and of `listen`, separated by commas.
        tls_certificate: What it shows browsers, a PEM file; without one it serves plain HTTP.
        tls_key: Its private key, a PEM file that nobody else may read.
        plaintext: Serve plain HTTP beyond this machine: something in front of it speaks TLS.
        trace_link: Where a trace is shown, an address with `{trace_id}` in it; the Messages page links to it.
        schema_registry: The address of a schema registry, by which the Messages page reads Avro and Protobuf.
        schema_registry_login: What it is shown: a file with `name:password` that nobody else may read.
        ready_file: Written once it serves: JSON with its address, `console`, and `pid`.
        parent_pid: The process ends when this one is no longer its parent; 0 for never.
    """

    model_config = SettingsConfigDict(env_prefix="BRAID_CONSOLE_", extra="ignore", frozen=True)

    listen: str = "127.0.0.1:7480"
    home: Path
    sign_in: str = LINK
    url: str = ""
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: Path | None = None
    oidc_scopes: str = OPENID
    oidc_resource: str = ""
    oidc_parameters: str = ""
    oidc_token: BearerKind = BearerKind.ACCESS
    oidc_name: str = ""
    oidc_ca: Path | None = None
    hosts: str = ""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    plaintext: bool = False
    trace_link: str = ""
    schema_registry: str = ""
    schema_registry_login: Path | None = None
    ready_file: Path | None = None
    parent_pid: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        host = self.address[0]
        if not self.ways or not set(self.ways) <= set(_WAYS):
            raise ValueError(f"sign_in: {self.sign_in!r} is none of {', '.join(_WAYS)}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_key: a certificate and its key are given together")
        if self.trace_link and not _TRACE_LINK.fullmatch(self.trace_link):
            raise ValueError("trace_link: is no address that begins with https:// or http:// and has {trace_id} in it")
        if self.schema_registry and not _ADDRESS.fullmatch(self.schema_registry):
            raise ValueError("schema_registry: is no address that begins with https:// or http://")
        if self.schema_registry_login and not _PRIVATE.match(self.schema_registry):
            raise ValueError("schema_registry_login: would cross the network in plain text; give an https:// address")
        if self.tls_certificate is None and not self.plaintext and not is_loopback(host):
            raise ValueError(
                "listen: cookies would cross the network in plain text; give tls_certificate and tls_key, or set "
                "plaintext where something in front speaks TLS"
            )
        try:
            self._check_provider()
        except Invalid as error:
            raise ValueError(str(error)) from None
        return self

    def _check_provider(self) -> None:
        if self.url:
            check_url(self.url, "url")
            if urlsplit(self.url).path or urlsplit(self.url).query:
                raise Invalid(f"{self.url!r} has a path", field="url", remedy="give scheme, host and port alone")
        if OIDC in self.ways:
            check_oidc(self.provider(self.url or "http://127.0.0.1"))
        elif self.oidc_issuer or self.oidc_client_id:
            raise Invalid("a provider is set, and no way in", field="sign_in", remedy="add oidc to it")

    def provider(self, url: str) -> OidcSettings:
        """The provider's settings, for a console that browsers reach at a URL."""
        return OidcSettings(
            self.oidc_issuer,
            self.oidc_client_id,
            f"{url}{CALLBACK_PATH}",
            self.oidc_client_secret,
            self.oidc_scopes,
            self.oidc_resource,
            self.oidc_parameters,
            self.oidc_token,
            self.oidc_name,
            self.oidc_ca,
        )

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of `listen`. Raises `ValueError`."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) >= 1 << 16:
            raise ValueError(f"listen: {self.listen!r} is not host:port")
        return host.strip("[]"), int(port)

    @property
    def ways(self) -> tuple[str, ...]:
        """How people sign in."""
        return tuple(each.strip() for each in self.sign_in.split(",") if each.strip())

    @property
    def names(self) -> tuple[str, ...]:
        """Hosts that requests may name, beside those of this machine.

        An address that stands for all of a machine is no name: pages of other sites reach this machine by it.
        """
        listen = self.address[0]
        public = urlsplit(self.url).hostname if self.url else None
        own = [each for each in (public, listen) if each and each not in _UNSPECIFIED]
        return (*own, *(each.strip() for each in self.hosts.split(",") if each.strip()))

    @property
    def secure(self) -> bool:
        """Whether browsers reach it by TLS."""
        return self.tls_certificate is not None or self.url.startswith("https:")


def settings_or_exit() -> ConsoleSettings:
    """This process's settings; says what is wrong with them, and exits with 2."""
    try:
        return ConsoleSettings()  # type: ignore[call-arg]  # from the environment
    except ValidationError as error:
        for each in error.errors():
            name = ".".join(map(str, each["loc"]))
            print(f"console: {f'BRAID_CONSOLE_{name.upper()}: ' if name else ''}{each['msg']}", file=sys.stderr)
        sys.exit(_WRONG_USAGE)


def check_files(settings: ConsoleSettings) -> None:
    """Raises `Invalid` where a file cannot be used, or other users may read a secret; `Unavailable` for a client's."""
    for name in ("tls_certificate", "tls_key", "oidc_client_secret", "oidc_ca"):
        path = getattr(settings, name)
        if path is not None and not path.is_file():
            raise Invalid(f"{path} is no file", field=name, remedy="check the path")
    login = settings.schema_registry_login
    if login is not None and (exposed := "is no file" if not login.is_file() else exposure(login)):
        raise Invalid(f"{login} {exposed}", field="schema_registry_login", remedy=f"chmod 600 {login}")
    if settings.tls_key is not None and (exposed := exposure(settings.tls_key)):
        raise Invalid(f"{settings.tls_key} {exposed}", field="tls_key", remedy=f"chmod 600 {settings.tls_key}")
    if settings.oidc_client_secret is not None:
        read_client_secret(settings.oidc_client_secret)
