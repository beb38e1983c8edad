"""Access tokens for SASL's OAUTHBEARER (RFC 7628, KIP-255): kept until they are old, and fetched in a thread.

A token is fetched in a thread: endpoints are asked over a blocking client, and clients of several event loops may
share one provider. A source that fails is not asked again for `KAFKA_DENIED_SECONDS`.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import OAuthAuthenticator
from aiokafka.errors import KafkaError

from braid.kafka.profiles.token_endpoint import Token, TokenError, check_token, read_secret
from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.kafka import KAFKA_DENIED_SECONDS, KAFKA_TOKEN_WAIT_SECONDS, TOKEN_REFRESH_SHARE

_SOURCE: Final = "look at token_endpoint, client_id, the client's secret and token_ca_file of the security profile"
_FILE: Final = "let token_file of the security profile hold a token"


class TokenWithheld(KafkaError):
    """A broker was sent nothing, because there is no token; the cause says why."""


class FileTokens(AbstractTokenProvider):
    """The token that a file holds, read for each connection."""

    def __init__(self, profile: str, path: Path) -> None:
        """`profile` is for errors."""
        self._profile = profile
        self._path = path

    async def token(self) -> str:
        """See `AbstractTokenProvider`. Raises `TokenWithheld`."""
        try:
            return check_token(read_secret(self._path))
        except TokenError as error:
            raise TokenWithheld() from _denied(self._profile, f"{self._path}: {error}", _FILE)


class FetchedTokens(AbstractTokenProvider):
    """Tokens of a source, each used until it is old.

    After `TOKEN_REFRESH_SHARE` of its lifetime whoever asks gets the old token still, and a new one is fetched beside
    that. Once it has expired, askers wait for the new one, for `KAFKA_TOKEN_WAIT_SECONDS`.
    """

    def __init__(self, profile: str, fetch: Callable[[], Token], elapsed: Callable[[], float] = time.monotonic) -> None:
        """No token is fetched yet.

        Args:
            profile: For errors.
            fetch: Blocks. Raises `TokenError`.
            elapsed: A clock, in seconds.
        """
        self._profile = profile
        self._fetch = fetch
        self._elapsed = elapsed
        self._lock = threading.Lock()  # of what follows
        self._text = ""
        self._refresh_at = self._expires_at = float("-inf")
        self._fetching: Future[None] | None = None
        self._failure = ""
        self._again_at = float("-inf")

    async def token(self) -> str:
        """See `AbstractTokenProvider`. Raises `TokenWithheld`."""
        with self._lock:
            text, fetching = self._good(), self._begin()
        if not text and fetching is not None:
            # It is fetched for others, too: `wait` cancels it neither after its time nor with whoever waits.
            await asyncio.wait([asyncio.wrap_future(fetching)], timeout=KAFKA_TOKEN_WAIT_SECONDS)
            with self._lock:
                text = self._good()
        if text:
            return text
        why = self._failure or f"no token came within {KAFKA_TOKEN_WAIT_SECONDS} s"
        raise TokenWithheld() from _denied(self._profile, why, _SOURCE)

    def _good(self) -> str:
        return self._text if self._elapsed() < self._expires_at else ""

    def _begin(self) -> "Future[None] | None":
        """Returns the task that fetches a token, where needed; begun unless it is under way or failed just now."""
        now = self._elapsed()
        if self._fetching is None and now >= max(self._refresh_at, self._again_at):
            self._fetching = Future()
            threading.Thread(target=self._run, args=(self._fetching,), name="kafka-token", daemon=True).start()
        return self._fetching

    def _run(self, fetching: "Future[None]") -> None:
        """Fetches once, in a thread of its own."""
        began = self._elapsed()
        try:
            found, failure = self._fetch(), ""
        except TokenError as error:
            found, failure = None, str(error)
        with self._lock:
            self._fetching, self._failure = None, failure
            if found is None:
                self._again_at = self._elapsed() + KAFKA_DENIED_SECONDS
            else:
                self._text, self._expires_at = found.text, began + found.lifetime_seconds
                self._refresh_at = began + found.lifetime_seconds * TOKEN_REFRESH_SHARE
        fetching.set_result(None)


def _denied(profile: str, why: str, remedy: str) -> ClusterAccessDenied:
    return ClusterAccessDenied(
        f"security profile {profile!r} has no token: {why}",
        remedy=remedy,
        metadata={"access": "authentication", "problem": "token"},
    )


async def _step(self: OAuthAuthenticator, payload: bytes | None) -> tuple[bytes, bool] | None:
    """Sends the token. To a broker that refuses it, sends what ends the exchange with an error (RFC 7628, 3.2.3).

    aiokafka 0.14 takes that refusal for a success, and the next request fails as if the broker were away.
    """
    if self._token_sent and payload:
        return b"\x01", True
    first: tuple[bytes, bool] | None = await _AIOKAFKA_STEP(self, payload)
    return first


_AIOKAFKA_STEP: Final = OAuthAuthenticator.step
OAuthAuthenticator.step = _step
