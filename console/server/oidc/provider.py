"""The provider that people sign in with: asks it for its document, its keys and tokens, and checks each answer."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit, urlunsplit

from braid.host import secret_files
from braid.kernel.errors import BraidError, Refused, Unauthenticated, Unavailable
from braid.kernel.ports import Host, Shown
from braid.runtime.tokens.authenticator import Tokens
from braid.runtime.tokens.keys import IssuerKeys
from braid.runtime.tokens.settings import ALGORITHMS, TokenSettings
from console.server.limits import METADATA_KEPT_SECONDS, METADATA_PAUSE_SECONDS, METADATA_SECONDS
from console.server.oidc.http import Http, HttpRequest
from console.server.oidc.metadata import WELL_KNOWN, Metadata, parse_metadata
from console.server.oidc.pending import Pending
from console.server.oidc.settings import BearerKind, OidcSettings
from console.server.oidc.tokens import (
    BEGIN_AGAIN,
    Answered,
    Expected,
    Grant,
    check_claims,
    chosen_bearer,
    lifetime_ms,
    parse_answer,
)

_log: Final = logging.getLogger("braid.console.oidc")


class Provider:
    """A provider of OpenID Connect, and this console as its client.

    Attributes:
        settings: Both of them.
    """

    def __init__(self, settings: OidcSettings, http: Http, host: Host) -> None:
        self.settings = settings
        self._http = http
        self._host = host
        self._asking = asyncio.Lock()
        self._metadata: Metadata | None = None
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._trouble: BraidError | None = None
        checked = TokenSettings(settings.issuer, settings.client_id, "", algorithms=ALGORITHMS)
        keys = IssuerKeys(self._read_keys, host.clock, host.tasks, lambda why: _log.warning("%s", why))
        self._tokens = Tokens(checked, keys, host.clock)

    async def sign_in_url(self, pending: Pending) -> str:
        """Where a browser goes to sign in. Raises `Unavailable` or `Refused`, where the provider gives no document."""
        asked = [
            ("response_type", "code"),
            ("client_id", self.settings.client_id),
            ("redirect_uri", self.settings.redirect_uri),
            ("scope", " ".join(self.settings.scopes.split())),
            ("state", pending.state),
            ("nonce", pending.nonce),
            ("code_challenge", pending.challenge),
            ("code_challenge_method", "S256"),
            *self._resource().items(),
            *self.settings.further,
        ]
        return _with_query((await self._known()).authorization_endpoint, asked)

    def sign_out_url(self, grant: Grant, back_to: str) -> str:
        """Where a browser goes to sign out at the provider, too; empty where there is no such address."""
        address = self._metadata.end_session_endpoint if self._metadata is not None else ""
        asked = [
            ("client_id", self.settings.client_id),
            ("id_token_hint", grant.id_token),
            ("post_logout_redirect_uri", back_to),
        ]
        return _with_query(address, asked) if address else ""

    async def check_named(self, issuer: str) -> None:
        """Raises `Unauthenticated` where an answer to a browser comes from another provider (RFC 9207)."""
        if issuer != self.settings.issuer and (issuer or (await self._known()).names_itself):
            raise Unauthenticated("the answer comes from another sign-in provider", remedy=BEGIN_AGAIN)

    async def redeem(self, code: str, pending: Pending) -> Grant:
        """Exchanges a code for tokens, and checks them.

        Raises:
            Unavailable: the provider does not answer, or out of form.
            Unauthenticated: it refuses, or its ID token is not that of this sign-in.
            Refused: services could not use its tokens.
        """
        answered = await self._ask(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.settings.redirect_uri,
                "code_verifier": pending.verifier,
            }
        )
        if not answered.id_token:
            raise Unavailable("the sign-in provider gives no ID token", remedy="check BRAID_CONSOLE_OIDC_SCOPES")
        claims = await self._verified(answered, Expected(self.settings.client_id, pending.nonce))
        return self._grant(answered, answered.id_token, answered.refresh_token, str(claims["sub"]), pending.nonce)

    async def renew(self, grant: Grant) -> Grant:
        """Gets the next tokens of a person. Raises as `redeem` does."""
        answered = await self._ask({"grant_type": "refresh_token", "refresh_token": grant.refresh_token})
        if answered.id_token:
            await self._verified(answered, Expected(self.settings.client_id, grant.nonce, grant.subject))
        elif self.settings.bearer is BearerKind.ID:
            raise Refused("the sign-in provider renews no ID token", remedy="let services take its access tokens")
        id_token, refresh_token = answered.id_token or grant.id_token, answered.refresh_token or grant.refresh_token
        return self._grant(answered, id_token, refresh_token, grant.subject, grant.nonce)

    async def _known(self) -> Metadata:
        """The provider's document: read once an hour; the last good one counts for a day while there is no newer."""
        async with self._asking:
            now = self._host.clock.elapsed()
            if now - self._read_at >= METADATA_SECONDS and now - self._tried_at >= METADATA_PAUSE_SECONDS:
                try:
                    url = self.settings.issuer.rstrip("/") + WELL_KNOWN
                    answer = await self._http.send(HttpRequest(url))
                    self._metadata = parse_metadata(answer, self.settings.issuer)
                    self._read_at, self._trouble = self._host.clock.elapsed(), None
                except BraidError as error:
                    self._trouble = error
                    _log.warning("%s", error)
                finally:  # those who waited meanwhile share the result
                    self._tried_at = self._host.clock.elapsed()
            if self._metadata is not None and now - self._read_at < METADATA_KEPT_SECONDS:
                return self._metadata
            raise self._trouble or Unavailable("the sign-in provider was not asked yet", remedy=BEGIN_AGAIN)

    async def _read_keys(self) -> bytes:
        answer = await self._http.send(HttpRequest((await self._known()).jwks_uri))
        if answer.status != 200:
            raise Unavailable(f"the sign-in provider answers {answer.status} when it is asked for its keys")
        return answer.body

    async def _ask(self, form: Mapping[str, str]) -> Answered:
        known, client = await self._known(), self.settings.client_id
        secret = await self._host.tasks.run_blocking(self._secret)
        whole = {**form, **self._resource()}
        if not secret:
            request = HttpRequest(known.token_endpoint, {**whole, "client_id": client})
        elif "client_secret_basic" in known.auth_methods:
            request = HttpRequest(known.token_endpoint, whole, (quote_plus(client), quote_plus(secret)))
        else:
            request = HttpRequest(known.token_endpoint, {**whole, "client_id": client, "client_secret": secret})
        return parse_answer(await self._http.send(request))

    def _secret(self) -> str:
        """The client's secret as its file has it now; empty for a public client."""
        return "" if self.settings.client_secret is None else read_client_secret(self.settings.client_secret)

    async def _verified(self, answered: Answered, expected: Expected) -> Mapping[str, object]:
        try:
            await self._tokens.identify(Shown(encrypted=True, bearer=answered.id_token))
        except Unauthenticated as error:
            message = f"the sign-in provider's ID token is not taken: {error.message}"
            timely = error.metadata.get("problem") not in ("token_expired", "token_not_yet")
            remedy = (error.remedy or BEGIN_AGAIN) if timely else "check the clocks of the provider and the console"
            raise Unauthenticated(message, remedy=remedy, metadata=error.metadata) from None
        return check_claims(answered.id_token, answered.access_token, expected)

    def _grant(self, answered: Answered, id_token: str, refresh_token: str, subject: str, nonce: str) -> Grant:
        bearer = chosen_bearer(self.settings.bearer, answered.access_token, id_token)
        said = answered.lifetime_seconds if self.settings.bearer is BearerKind.ACCESS else 0.0
        now_ms = self._host.clock.now_ms()
        lasts = lifetime_ms(bearer, said, now_ms)
        if not lasts:
            raise Refused("the sign-in provider gives tokens that are over, or never are", remedy="check its clock")
        return Grant(bearer, now_ms + lasts, lasts, id_token, refresh_token, subject, nonce)

    def _resource(self) -> Mapping[str, str]:
        return {"resource": self.settings.resource} if self.settings.resource else {}


def read_client_secret(path: Path) -> str:
    """The client's secret. Raises `Unavailable`, without it, for a file that cannot be used."""
    try:
        content, exposed = secret_files.read_bytes(path)
    except OSError as error:
        raise _unusable(f"{path} cannot be read ({(error.strerror or 'error').lower()})", "check the path") from None
    if exposed:
        raise _unusable(f"{path} {exposed}", f"chmod 600 {path}")
    text = content[:4_096].decode("utf-8", "replace").strip()
    if not text or not text.isprintable():
        raise _unusable(f"{path} holds no secret", "write the secret there, on one line")
    return text


def _unusable(message: str, remedy: str) -> Unavailable:
    return Unavailable(message, field="oidc_client_secret", remedy=remedy)


def _with_query(url: str, parameters: list[tuple[str, str]]) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query, keep_blank_values=True), *parameters])))
