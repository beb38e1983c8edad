"""Identities that the console reads and acts with: its own user's, or those of tokens that people signed in with.

A token stays in this process, and is sent to the services with each call. They see the person, not the console.
"""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

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

    def __init__(self, host: Host, open: Open, on_close: Callable[[str], None]) -> None:
        """`on_close` is told the key of each identity whose connections are about to end."""
        self._host = host
        self._open = open
        self._on_close = on_close
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

    @asynccontextmanager
    async def of_token(self, token: str) -> AsyncIterator[Identity]:
        """The identity of a token, which the mesh has verified just now.

        Its connections stay open for the block, and then for as long as a session uses it.

        Raises:
            Invalid: it is no token.
            Unauthenticated: the mesh does not take it.
            Exhausted: too many people are signed in.
        """
        key = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        async with self._held(key, "token", token, _expiry_ms(token)) as identity:
            yield identity

    @asynccontextmanager
    async def of_login(self, token: str, expire_ms: int) -> AsyncIterator[Identity]:
        """A new identity for a sign-in at a provider: its token will be renewed, so it is shared with no other.

        Raises as `of_token` does.
        """
        async with self._held(self._host.ids.ulid(), "oidc", token, expire_ms) as identity:
            yield identity

    @asynccontextmanager
    async def _held(self, key: str, how: str, token: str, expire_ms: int) -> AsyncIterator[Identity]:
        identity = self._known.get(key)
        if identity is None:
            if len(self._known) >= IDENTITIES_MAX:
                raise Exhausted("too many people are signed in", remedy="try again in a while")
            identity = Identity(self._host.ids.ulid(), how, self._open(token), "", expire_ms)
            self._known[key] = identity
        identity.sign_ins += 1
        try:
            identity.principal = await _principal(identity.reader)  # a known one may have been revoked since
            yield identity
        finally:
            identity.sign_ins -= 1
            await self._close_if_unused(key, identity)

    async def close_unused(self) -> None:
        """Ends connections of tokens that neither a session nor a sign-in under way uses."""
        for key, identity in list(self._known.items()):
            await self._close_if_unused(key, identity)

    async def _close_if_unused(self, key: str, identity: Identity) -> None:
        # Others may have come or gone at each `await`, so both are asked anew.
        if key == _OWN or identity.in_use or self._known.get(key) is not identity:
            return
        del self._known[key]
        self._on_close(identity.key)
        await identity.reader.close()

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
