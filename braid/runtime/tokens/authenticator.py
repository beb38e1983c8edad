"""`Authenticator` of signed tokens: issuer, audience, time and signature are checked, then the caller has a name.

Nothing of a token stands in an error, a log or a message but the name in it.
"""

import hashlib
from collections.abc import Mapping
from math import isfinite
from typing import Any

import jwt

from braid.kernel.errors import Unauthenticated
from braid.kernel.limits.access.tokens import TOKEN_BYTES_MAX, TOKENS_REMEMBERED_MAX
from braid.kernel.ports import Clock, Identity, Shown
from braid.kernel.principals import token_principal
from braid.runtime.tokens.key_set import KeySet
from braid.runtime.tokens.keys import IssuerKeys
from braid.runtime.tokens.settings import TokenSettings

_SIGNATURE_ALONE: Any = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
    "enforce_minimum_key_length": True,
}  # the rest is checked here, by this process's clock, each with its own words


class Tokens:
    """Takes callers for whom their tokens name."""

    def __init__(self, settings: TokenSettings, keys: IssuerKeys, clock: Clock) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._verified: dict[bytes, Identity] = {}  # by the digest of a token, in the order of use
        self._verified_by: KeySet | None = None

    async def identify(self, shown: Shown) -> Identity | None:
        """See `Authenticator.identify`. A caller without a token is nobody here."""
        token = shown.bearer
        if not token:
            return None
        if len(token) > TOKEN_BYTES_MAX:
            raise _refused("malformed", f"the token has {len(token)} characters, more than {TOKEN_BYTES_MAX}")
        algorithm, key_id = self._header(token)
        keys = await self._keys.current(lambda each: each.find(key_id, algorithm) is not None)
        if keys is not self._verified_by:  # a key may be gone: what it signed is judged anew
            self._verified, self._verified_by = {}, keys
        digest = hashlib.sha256(token.encode()).digest()
        identity = self._verified.pop(digest, None)
        if identity is None:
            identity = self._verify(token, keys, key_id, algorithm)
        self._check_end(identity)
        if len(self._verified) >= TOKENS_REMEMBERED_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = identity
        return identity

    def _header(self, token: str) -> tuple[str, str]:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refused("malformed", "the token is no signed JWT") from None
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            taken = ", ".join(self._settings.algorithms)
            raise _refused("algorithm", f"the token is signed by another algorithm than those taken here: {taken}")
        if not isinstance(key_id, str):
            raise _refused("malformed", "the token's key id is no text")
        return algorithm, key_id

    def _verify(self, token: str, keys: KeySet, key_id: str, algorithm: str) -> Identity:
        key = keys.find(key_id, algorithm)
        if key is None:
            remedy = "get a new token, from the issuer that the service is set up for"
            raise _refused("unknown_key", "the token is signed with a key that its issuer does not publish", remedy)
        try:
            claims = jwt.decode(token, key, [algorithm], _SIGNATURE_ALONE)
        except jwt.InvalidSignatureError:
            raise _refused("signature", "the token's signature is wrong") from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refused("malformed", "the token is no signed JWT") from None
        self._check_parties(claims)
        leeway_ms = int(self._settings.leeway_seconds * 1000)
        begin_ms = _time_ms(claims, "nbf") if "nbf" in claims else 0
        if begin_ms - leeway_ms > self._clock.now_ms():
            raise _refused("not_yet", "the token is not valid yet", "check the clocks of issuer and service")
        name = claims.get(self._settings.claim)
        if not isinstance(name, str):
            raise _refused("name", f"the token has no text as claim {self._settings.claim!r}")
        return Identity(token_principal(self._settings.prefix, name), _time_ms(claims, "exp") + leeway_ms)

    def _check_parties(self, claims: Mapping[str, Any]) -> None:
        if claims.get("iss") != self._settings.issuer:
            message = f"the token is of another issuer than {self._settings.issuer}"
            raise _refused("issuer", message, "get one from that issuer")
        audience = claims.get("aud")
        if self._settings.audience not in (audience if isinstance(audience, list) else [audience]):
            message = f"the token is for another audience than {self._settings.audience}"
            raise _refused("audience", message, "ask the issuer for a token with that audience")

    def _check_end(self, identity: Identity) -> None:
        if self._clock.now_ms() >= identity.expire_ms:
            raise _refused("expired", "the token has expired", "get a new one from the issuer")


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    """A time in a token, milliseconds since the epoch. Raises `Unauthenticated` where there is none."""
    seconds = claims.get(name)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not isfinite(seconds) or seconds < 0:
        raise _refused("malformed", f"the token has no time as claim {name!r}")
    return min(int(seconds * 1000), 1 << 62)


def _refused(problem: str, message: str, remedy: str = "") -> Unauthenticated:
    return Unauthenticated(message, remedy=remedy, metadata={"problem": f"token_{problem}"})
