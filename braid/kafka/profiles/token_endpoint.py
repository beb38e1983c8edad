"""Asks an OAuth 2.0 token endpoint for an access token by client credentials (RFC 6749, section 4.4). Blocks."""

import base64
import http.client
import json
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from braid.host import secret_files
from braid.kernel.limits.kafka import KAFKA_TOKEN_ANSWER_BYTES, KAFKA_TOKEN_SECONDS, TOKEN_LIFETIME_SECONDS

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1: nothing that would end a SASL message


class TokenError(Exception):
    """No token can be had; the text says why, without secrets."""


class Token(NamedTuple):
    """An access token, and for how many seconds it is good."""

    text: str
    lifetime_seconds: float


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where and as whom tokens are asked for.

    Attributes:
        url: `https://…`, or `http://…` on this machine.
        client_id: Of the client.
        client_secret: Its secret; empty where `client_secret_file` holds it, which is read for each token.
        client_secret_file: See there.
        scope: What is asked for; empty for the endpoint's own choice.
        ca_file: Authorities that may sign the endpoint's certificate; None for the system's.
    """

    url: str
    client_id: str
    client_secret: str = ""
    client_secret_file: Path | None = None
    scope: str = ""
    ca_file: Path | None = None

    def __repr__(self) -> str:
        return f"TokenEndpoint({self.url!r}, {self.client_id!r})"

    def ask(self) -> Token:
        """Asks once, and follows no redirect: the secret goes to nobody else. Raises `TokenError`."""
        try:
            return self._read(*self._answer())
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise TokenError(
                f"token endpoint {self.url} does not answer: {str(error) or type(error).__name__}"
            ) from error

    def _answer(self) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file is not None else None)
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=KAFKA_TOKEN_SECONDS, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=KAFKA_TOKEN_SECONDS)
        try:
            path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
            connection.request("POST", path, self._body(), self._headers())
            answer = connection.getresponse()
            return answer.status, answer.read(KAFKA_TOKEN_ANSWER_BYTES + 1)
        finally:
            connection.close()

    def _body(self) -> str:
        asked = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        return urlencode(asked)

    def _headers(self) -> dict[str, str]:
        """RFC 6749, section 2.3.1: each part is encoded before they are joined."""
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self._secret())}"
        return {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }

    def _secret(self) -> str:
        return self.client_secret if self.client_secret_file is None else read_secret(self.client_secret_file)

    def _read(self, status: int, body: bytes) -> Token:
        """Section 5 of RFC 6749: a token, or an error with a code."""
        if len(body) > KAFKA_TOKEN_ANSWER_BYTES:
            raise TokenError(f"token endpoint {self.url} answers more than {KAFKA_TOKEN_ANSWER_BYTES:,} bytes")
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if status != http.client.OK:
            code = found.get("error") if isinstance(found, dict) else None
            said = f": {code[:100]}" if isinstance(code, str) and code.isprintable() else ""
            raise TokenError(f"token endpoint {self.url} answers {status}{said}")
        if not isinstance(found, dict) or not isinstance(found.get("access_token"), str):
            raise TokenError(f"token endpoint {self.url} answers without an access_token")
        seconds = found.get("expires_in")
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < float("inf")
        return Token(check_token(found["access_token"]), float(seconds or 0) if known else TOKEN_LIFETIME_SECONDS)


def check_token(text: str) -> str:
    """A token that may stand in a SASL message. Raises `TokenError`."""
    if not _TOKEN.fullmatch(text):
        raise TokenError("the token is not one of RFC 6750: it is empty, or has characters that no token has")
    return text


def read_secret(path: Path) -> str:
    """The content of a file that holds a secret. Raises `TokenError`."""
    try:
        content, exposure = secret_files.read_bytes(path)
        if exposure:
            raise TokenError(f"{path} holds a secret and {exposure}: chmod 600 {path}")
        return content.decode("utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise TokenError(f"{path} cannot be read: {type(error).__name__}") from error
