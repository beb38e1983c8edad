"""A session as its owner sees it: kept alive by a task, with a deadline that errs on the safe side.

Adapters send keep-alives and end sessions; only this module decides when a session counts as lost.
"""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from braid.kernel.errors import Fenced, Unavailable
from braid.kernel.limits.assigner.leases import CLOCK_RATE_SLACK
from braid.kernel.limits.store import KEEP_ALIVES_PER_SESSION
from braid.kernel.ports import Clock, Host

T = TypeVar("T")


class KeepAlive(Protocol):
    """The adapter's way to renew and end a session."""

    async def renew(self, session: str) -> bool:
        """Extends the session by its TTL, counted at the store; False when the store knows it no more.

        Raises:
            Unavailable: no answer; the session may or may not have been extended.
        """
        ...

    async def end(self, session: str) -> None:
        """Ends the session at the store; one it does not know is fine. Raises `Unavailable`."""
        ...


class KeptSession:
    """The `kernel.ports.Session` that a `KeepAlive` maintains.

    Args:
        host: Of the owning process.
        session: Identity at the store, which has granted it already.
        ttl_seconds: What the store granted.
        sent: `Clock.elapsed` when the request that was granted was sent.
        keep_alive: The adapter.
    """

    def __init__(self, host: Host, session: str, ttl_seconds: float, sent: float, keep_alive: KeepAlive) -> None:
        self._clock: Clock = host.clock
        self._id = session
        self._ttl_seconds = ttl_seconds
        self._keep_alive = keep_alive
        self._deadline = self._deadline_after(sent)
        self._over = asyncio.Event()
        self._task = host.tasks.spawn(self._keep(), f"session-{session}")

    @property
    def id(self) -> str:
        """Identity in the store."""
        return self._id

    def deadline(self) -> float:
        """On `Clock.elapsed`: send time of the last acknowledged keep-alive plus the TTL, less 1 % for clock rates."""
        return self._deadline

    def live(self) -> bool:
        """Whether the session has neither ended nor passed its deadline. Once False, always False."""
        if self._clock.elapsed() >= self._deadline:
            self._over.set()
        return not self._over.is_set()

    async def lost(self) -> None:
        """Returns once the session is known to have ended in the store, or its deadline has passed."""
        while self.live():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._deadline - self._clock.elapsed()):
                    await self._over.wait()

    async def close(self) -> None:
        """Ends the session now, and what depends on it. If the store cannot be reached, it ends with the TTL."""
        self.abandon()
        await self._task.ended()
        with contextlib.suppress(Unavailable):
            await self._keep_alive.end(self._id)

    def abandon(self) -> None:
        """Counts the session as lost from now on and sends no more keep-alives."""
        self._over.set()
        self._task.cancel()

    async def while_live(self, work: Awaitable[T]) -> T:
        """Returns what `work` returns, waiting at most as long as the session lives.

        Raises:
            Fenced: the session ended first; `work` was cancelled.
        """
        working = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self.lost())
        try:
            await asyncio.wait([working, losing], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise session_over(self._id)
            return await working
        finally:
            working.cancel()
            losing.cancel()
            await asyncio.wait([working, losing])

    def _deadline_after(self, sent: float) -> float:
        return sent + self._ttl_seconds * (1 - CLOCK_RATE_SLACK)

    async def _keep(self) -> None:
        """Sends keep-alives at an interval; after a late answer it sends the next one at once, which counts more."""
        interval, sent = self._ttl_seconds / KEEP_ALIVES_PER_SESSION, self._clock.elapsed()
        while self.live():
            await self._clock.sleep(max(sent + interval - self._clock.elapsed(), interval / 10))
            sent = self._clock.elapsed()
            await self._renew(sent)

    async def _renew(self, sent: float) -> None:
        """Sends one keep-alive. An answer after the deadline is too late: the owner may have acted on the loss."""
        try:
            known = await self._keep_alive.renew(self._id)
        except Unavailable:
            return
        if not known:
            self._over.set()
        elif self.live():
            self._deadline = self._deadline_after(sent)


def session_over(session: str) -> Fenced:
    """Returns the error for the use of a session that has ended."""
    return Fenced(f"session {session} has ended", remedy="open a new session")
