"""Identities that the console reads and acts with: its own user's, or those of tokens that people signed in with.

A token stays in this process, and is sent to the services with each call. They see the person, not the console.
"""

import base64
import hashlib
import json
from collections.abc import Callable

from braid.api.registry.v1 import grant_pb2
from braid.kernel.errors import BraidError, Exhausted
from braid.kernel.ports import Host
from console.server.limits import IDENTITIES_MAX
from console.server.reads.reader import Reader
from console.server.signing.sessions import Identity

Open = Callable[[str], Reader]  # clients of all services, by a token; empty for the console's own certificate
_OWN = "own"


class Identities:
    """The identities of one console, each with connections of its own."""

    def __init__(self, host: Host, open: Open) -> None:
        self._host = host
        self._open = open
        self._known: dict[str, Identity] = {}

    async def own(self) -> Identity:
        """The identity of the user that runs the console. Its principal is empty until the mesh has answered."""
        identity = self._known.get(_OWN)
        if identity is None:
            identity = self._known[_OWN] = Identity(self._host.ids.ulid(), "link", self._open(""))
        if not identity.principal:
            try:
                identity.principal = await _principal(identity.reader)
            except BraidError:  # the mesh is away: the pages will say so, part by part
                return identity
        return identity

    async def of_token(self, token: str) -> Identity:
        """The identity of a token, which the mesh has verified.

        Raises:
            Invalid: it is no token.
            Unauthenticated: the mesh does not take it.
            Exhausted: too many people are signed in.
        """
        key = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        known = self._known.get(key)
        if known is not None:
            known.principal = await _principal(known.reader)  # it may have been revoked since
            return known
        if len(self._known) >= IDENTITIES_MAX:
            raise Exhausted("too many people are signed in", remedy="try again in a while")
        reader = self._open(token)
        try:
            principal = await _principal(reader)
        except BaseException:
            await reader.close()
            raise
        made = Identity(self._host.ids.ulid(), "token", reader, principal, _expiry_ms(token))
        identity = self._known.setdefault(key, made)
        if identity.reader is not reader:  # the same token, twice at once
            await reader.close()
        return identity

    async def close_unused(self) -> None:
        """Ends connections of tokens that no session uses any more."""
        unused = [key for key, each in self._known.items() if key != _OWN and not each.sessions]
        for key in unused:
            await self._known.pop(key).reader.close()

    async def close(self) -> None:
        """Ends all connections."""
        while self._known:
            await self._known.popitem()[1].reader.close()


async def _principal(reader: Reader) -> str:
    """The name of the caller in the mesh. Raises the registry's error."""
    request = grant_pb2.CheckAccessRequest(verb="view", kind="mesh")
    found = await reader.one("registry", "CheckAccess", request, grant_pb2.CheckAccessResponse)
    return found.principal


def _expiry_ms(token: str) -> int:
    """When a verified token ends, as it says itself; 0 where it says nothing. The mesh judges each call anyway."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0, int(float(claims["exp"]) * 1_000))
    except (IndexError, ValueError, KeyError, TypeError, OverflowError):
        return 0
