"""An issuer's public keys as one read of its set gave them (JWK sets, RFC 7517). Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWK, PyJWTError

from braid.kernel.errors import Unavailable
from braid.kernel.limits.access.tokens import TOKEN_KEYS_MAX
from braid.runtime.tokens.settings import KEY_TYPES

_PUBLIC = frozenset(KEY_TYPES.values())


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys that may check signatures, by their ids.

    Attributes:
        by_id: Each key as it stands in the set; '' is the id of those that have none.
    """

    by_id: Mapping[str, Sequence[Mapping[str, Any]]]
    _made: dict[tuple[str, str], PyJWK] = field(default_factory=dict)

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Reads a set. Keys that check no signatures, among them secrets, are left out.

        Raises:
            Unavailable: it is none, holds too many keys, or none that is of use.
        """
        try:
            keys = json.loads(content)["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Unavailable("the issuer's keys are no JWK set") from None
        if not isinstance(keys, list) or len(keys) > TOKEN_KEYS_MAX:
            raise Unavailable(f"the issuer's keys are no list of at most {TOKEN_KEYS_MAX}")
        found: dict[str, list[Mapping[str, Any]]] = {}
        for key in keys:
            if isinstance(key, dict) and str(key.get("kty")) in _PUBLIC and key.get("use", "sig") == "sig":
                found.setdefault(str(key.get("kid", "")), []).append(key)
        if not found:
            raise Unavailable("the issuer's set has no public key for signatures")
        return cls(found)

    def find(self, key_id: str, algorithm: str) -> PyJWK | None:
        """The key that checks a token; None where the set has none.

        A token that names no key is checked with the only one that there is for its algorithm.
        """
        named = self.by_id.get(key_id, ()) if key_id else [key for keys in self.by_id.values() for key in keys]
        fitting = [key for key in named if _fits(key, algorithm)]
        if len(fitting) != 1:
            return None
        made = self._made.get((key_id, algorithm))
        if made is None:
            try:
                made = self._made[key_id, algorithm] = PyJWK(dict(fitting[0]), algorithm)
            except (PyJWTError, UnsupportedAlgorithm):  # a key out of form
                return None
        return made


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    return key.get("kty") == KEY_TYPES.get(algorithm[:2]) and key.get("alg", algorithm) == algorithm
