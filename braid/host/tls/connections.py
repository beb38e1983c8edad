"""The connections of one client to one server: new calls go to the newest, which shows the newest certificate.

A connection keeps its certificate for its life. So a changed certificate opens another one, and the old one is closed
when the calls on it have ended.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from braid.host.tls.files import TlsMaterial
from braid.kernel.limits.rpc import CONNECTION_RENEWAL_SECONDS, TLS_CONNECTIONS_RETIRED_MAX

C = TypeVar("C")


class Materials(Protocol):
    """The credentials and CAs of connections, as they change: `TlsFiles`, or the files beside a token."""

    def current(self) -> TlsMaterial:
        """The same object until it changes."""
        ...


class TlsConnections(Generic[C]):
    """Opens connections when they are used, and closes those that nothing uses any more.

    Args:
        files: Of TLS; None for plain text.
        open_one: Makes a connection that shows this, or speaks plain text.
        close_one: Closes one; what is under way on it ends.
    """

    def __init__(
        self,
        files: Materials | None,
        open_one: Callable[[TlsMaterial | None], C],
        close_one: Callable[[C], Awaitable[None]],
    ) -> None:
        self._files = files
        self._open_one = open_one
        self._close_one = close_one
        self._newest = self._opened()
        self._retired: list[_Connection[C]] = []
        self._closing: set[asyncio.Future[None]] = set()
        self._renew_at = 0.0

    @contextmanager
    def newest(self) -> Iterator[C]:
        """The connection for a call that begins now, kept open while the context lasts."""
        if self.outdated(self._newest.opened):
            self._rotate()
        used = self._newest
        used.calls += 1
        try:
            yield used.opened
        finally:
            used.calls -= 1
            if not used.calls and used in self._retired:
                self._retired.remove(used)
                self._close_soon(used)

    def outdated(self, opened: C) -> bool:
        """Whether a call that begins now would use another connection than this one: the files changed."""
        if opened is not self._newest.opened:
            return True
        return self._files is not None and self._files.current() is not self._newest.material

    def renew(self) -> None:
        """Opens another connection for later calls: the server trusts the certificate of this one no more.

        A handshake shows the files as they are now, and says what is wrong with them if they are refused.
        """
        now = time.monotonic()
        if now >= self._renew_at:
            self._renew_at = now + CONNECTION_RENEWAL_SECONDS
            self._rotate()

    async def close(self) -> None:
        """Closes all; what is under way on them ends."""
        retired, self._retired = self._retired, []
        for each in (*retired, self._newest):
            await self._close_one(each.opened)
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    def _opened(self) -> "_Connection[C]":
        material = self._files.current() if self._files is not None else None
        return _Connection(self._open_one(material), material)

    def _rotate(self) -> None:
        old, self._newest = self._newest, self._opened()
        if not old.calls:
            self._close_soon(old)
            return
        self._retired.append(old)
        if len(self._retired) > TLS_CONNECTIONS_RETIRED_MAX:
            self._close_soon(self._retired.pop(0))

    def _close_soon(self, connection: "_Connection[C]") -> None:
        closing = asyncio.ensure_future(self._close_one(connection.opened))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class _Connection(Generic[C]):
    """One connection, and how many calls are under way on it."""

    def __init__(self, opened: C, material: TlsMaterial | None) -> None:
        self.opened = opened
        self.material = material
        self.calls = 0
