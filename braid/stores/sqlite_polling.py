"""Polls a file's version once for all its watches, because each replica watches several services' histories."""

import asyncio
from collections.abc import Awaitable, Callable

from braid.kernel.errors import BraidError, StoreUnavailable
from braid.kernel.limits.store import SQLITE_POLL_SECONDS
from braid.kernel.ports import Host, Task
from braid.stores.sqlite_database import Version


class VersionPoll:
    """Polls the file's version while a watch waits for another one."""

    def __init__(self, host: Host, ask: Callable[[Version | None], Awaitable[Version]]) -> None:
        """`ask` waits some time for a version other than the given one, and raises a `BraidError` when that fails."""
        self._host = host
        self._ask = ask
        self._waiting: dict[asyncio.Future[Version], Version | None] = {}
        self._newest: Version | None = None
        self._polling: Task | None = None

    async def other_than(self, seen: Version | None) -> Version:
        """Returns the version as soon as it is another one. Raises what `ask` does; once closed, `StoreUnavailable`."""
        if self._newest is not None and self._newest != seen:
            return self._newest
        waiter: asyncio.Future[Version] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = seen
        if self._polling is None:
            self._polling = self._host.tasks.spawn(self._poll(), "sqlite poll")
        try:
            return await waiter
        finally:
            del self._waiting[waiter]
            if waiter.done() and not waiter.cancelled():
                waiter.exception()  # whoever was told and cancelled at once does not hear of it

    def close(self) -> None:
        """Stops polling; waiting watches get `StoreUnavailable`."""
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        try:
            while self._waiting:
                try:
                    self._newest = await self._ask(self._newest)
                except BraidError as error:
                    self._newest = None
                    self._fail(error)
                    await self._host.clock.sleep(SQLITE_POLL_SECONDS)
                else:
                    self._tell(self._newest)
        finally:
            self._polling = self._newest = None
            self._fail(StoreUnavailable("nobody asks for the store's version any more", remedy="try again"))

    def _tell(self, version: Version) -> None:
        for waiter, seen in self._waiting.items():
            if version != seen and not waiter.done():
                waiter.set_result(version)

    def _fail(self, error: BraidError) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(error)
