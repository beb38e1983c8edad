"""Tokens in memory, for simulation and tests: an issuer, and the `Authenticator` that takes what it issued."""

from typing import NamedTuple

from braid.kernel.errors import Unauthenticated
from braid.kernel.limits.access.tokens import TOKEN_LEEWAY_SECONDS
from braid.kernel.ports import Clock, Identity, Shown
from braid.kernel.principals import token_principal


class _Issued(NamedTuple):
    name: str
    audience: str
    begin_ms: int
    end_ms: int


class MemoryTokens:
    """Stands in for a real issuer and `runtime.tokens`, without signatures: nobody can guess a token."""

    def __init__(
        self,
        clock: Clock,
        audience: str = "braid",
        prefix: str = "",
        leeway_seconds: float = TOKEN_LEEWAY_SECONDS,
    ) -> None:
        self._clock = clock
        self._audience = audience
        self._prefix = prefix
        self._leeway_ms = int(leeway_seconds * 1000)
        self._issued: dict[str, _Issued] = {}

    def issue(self, name: str, seconds: float, *, audience: str = "", begins_in: float = 0.0) -> str:
        """A token for a name that ends after some seconds."""
        now = self._clock.now_ms()
        issued = _Issued(name, audience or self._audience, now + int(begins_in * 1000), now + int(seconds * 1000))
        token = f"memory.{len(self._issued)}.token"
        self._issued[token] = issued
        return token

    def now(self) -> float:
        """The issuer's clock, seconds since the epoch."""
        return self._clock.now_ms() / 1000

    async def identify(self, shown: Shown) -> Identity | None:
        """See `Authenticator.identify`."""
        if not shown.bearer:
            return None
        found, now = self._issued.get(shown.bearer), self._clock.now_ms()
        if found is None:
            raise _refused("malformed", "the token is none of those issued")
        if found.audience != self._audience:
            raise _refused("audience", f"the token is for another audience than {self._audience}")
        if found.begin_ms - self._leeway_ms > now:
            raise _refused("not_yet", "the token is not valid yet")
        if now >= found.end_ms + self._leeway_ms:
            raise _refused("expired", "the token has expired")
        return Identity(token_principal(self._prefix, found.name), found.end_ms + self._leeway_ms)


def _refused(problem: str, message: str) -> Unauthenticated:
    return Unauthenticated(message, metadata={"problem": f"token_{problem}"})
