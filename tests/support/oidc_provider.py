"""A provider of OpenID Connect in memory, which does what a test wants: also what no sound provider does."""

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from braid.kernel.errors import Unavailable
from console.server.oidc.http import HttpAnswer, HttpRequest
from console.server.oidc.metadata import WELL_KNOWN
from console.server.oidc.settings import OidcSettings
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer

CLIENT: Final = "braid-console"
HOME: Final = "http://127.0.0.1:7480"
SETTINGS: Final = OidcSettings(ISSUER, CLIENT, f"{HOME}/oidc/callback", name="Example")


class MemoryProvider:
    """Answers a console's requests, and a browser's.

    Attributes:
        document: What it says of itself; a test may change it.
        claims: Replace or add to those of ID tokens; None leaves one out.
        answer: Replaces or adds to the fields of answers with tokens; None leaves one out.
        raw: Answers in the place of those, by path.
        away: Whether nothing answers.
        pause: What each answer waits for.
        asked: The requests that came, in their order.
        lifetime_seconds: Of its tokens.
        person: Who signs in.
        nonce: Of the sign-in that was finished last.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.issuer = TokenIssuer()
        self.document: dict[str, object] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize?tenant=one",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "end_session_endpoint": f"{ISSUER}/end",
            "code_challenge_methods_supported": ["S256"],
        }
        self.claims: dict[str, object] = {}
        self.answer: dict[str, object] = {}
        self.raw: dict[str, HttpAnswer] = {}
        self.away = False
        self.pause: Callable[[], Awaitable[None]] | None = None
        self.asked: list[HttpRequest] = []
        self.lifetime_seconds = 300.0
        self.person = "ada"
        self._now_ms = now_ms
        self._codes: dict[str, Mapping[str, str]] = {}
        self._refresh = ""
        self.nonce = ""
        self._made = 0

    def authorize(self, url: str) -> str:
        """Signs the person in; returns the path that the browser is sent back to."""
        asked = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{ISSUER}/authorize?tenant=one&")
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert (asked["redirect_uri"], asked["code_challenge_method"]) == (SETTINGS.redirect_uri, "S256")
        self._made += 1
        code = f"code-{self._made}"
        self._codes[code] = asked
        return f"/oidc/callback?{urlencode({'code': code, 'state': asked['state']})}"

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """See `Http.send`."""
        self.asked.append(request)
        if self.pause is not None:
            await self.pause()
        if self.away:
            raise Unavailable("the sign-in provider: it cannot be reached: Connection refused")
        path = urlsplit(request.url).path
        if path in self.raw:
            return self.raw[path]
        match path:
            case "/keys":
                return HttpAnswer(200, self.issuer.keys)
            case "/token":
                return self._token(dict(request.form or {}))
        assert path == WELL_KNOWN
        return HttpAnswer(200, json.dumps(self.document).encode())

    def id_token(self, access_token: str) -> str:
        """An ID token for the sign-in that is under way."""
        now = self._now_ms() / 1_000
        digest = hashlib.sha256(access_token.encode()).digest()[:16]
        usual = {"aud": CLIENT, "nonce": self.nonce, "at_hash": base64.urlsafe_b64encode(digest).rstrip(b"=").decode()}
        claims: dict[str, Any] = {**usual, **self.claims}
        return self.issuer.token(claims.pop("sub", self.person), seconds=self.lifetime_seconds, now=now, **claims)

    def _token(self, form: Mapping[str, str]) -> HttpAnswer:
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            if asked is None or asked["code_challenge"] != challenge.rstrip(b"=").decode():
                return HttpAnswer(400, b'{"error": "invalid_grant"}')
            self.nonce = asked["nonce"]
        elif form["refresh_token"] != self._refresh:
            return HttpAnswer(400, b'{"error": "invalid_grant", "error_description": "the session was ended"}')
        self._made += 1
        self._refresh = f"refresh-{self._made}"
        now = self._now_ms() / 1_000
        access = self.issuer.token(
            self.person, seconds=self.lifetime_seconds, now=now, aud=AUDIENCE, jti=str(self._made)
        )
        access = str(self.answer.get("access_token", access))
        usual = {
            "token_type": "Bearer",
            "access_token": access,
            "id_token": self.id_token(access),
            "refresh_token": self._refresh,
            "expires_in": self.lifetime_seconds,
        }
        whole = {name: value for name, value in {**usual, **self.answer}.items() if value is not None}
        return HttpAnswer(200, json.dumps(whole).encode())

    def withdraw(self) -> None:
        """Ends the person's session: the refresh token counts no more."""
        self._refresh = ""
