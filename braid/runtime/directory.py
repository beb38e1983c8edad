"""Live replicas and leaders, read from the event store and cached briefly. No RPCs.

A caller has other replicas to ask and a deadline of its own, so a store that does not answer soon is not waited for.
"""

import asyncio
from collections.abc import Sequence

from braid.kernel.errors import Unavailable
from braid.kernel.limits.runtime import DIRECTORY_CACHE_SECONDS, DIRECTORY_READ_SECONDS
from braid.kernel.limits.store import STORE_CALL_SECONDS
from braid.kernel.ports import Clock, EventStore
from braid.rpc.directory import KnownEndpoint


class StoreDirectory:
    """The store's directory joined with its elections. While the store does not answer, the last answer stands."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._endpoints: tuple[KnownEndpoint, ...] = ()
        self._fresh_until = float("-inf")
        self._stale = False
        self._reading = asyncio.Lock()

    @property
    def stale(self) -> bool:
        """Whether the store did not answer the last read: the cached replicas and leaders may be outdated."""
        return self._stale

    async def endpoints(self) -> Sequence[KnownEndpoint]:
        """All live replicas, sorted; at most `DIRECTORY_CACHE_SECONDS` old while the store answers."""
        async with self._reading:
            if self._clock.elapsed() >= self._fresh_until:
                await self._read()
        return self._endpoints

    async def leader_address(self, service: str) -> str:
        """The address of a service's leader, '' for none; the last known one while the store does not answer."""
        try:
            async with asyncio.timeout(DIRECTORY_READ_SECONDS):
                leader = await self._store.leader(service)
        except (Unavailable, TimeoutError):
            return next((known.address for known in self._endpoints if known.service == service and known.leader), "")
        return leader.endpoint.address if leader else ""

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(DIRECTORY_READ_SECONDS if self._endpoints else STORE_CALL_SECONDS):
                found = await self._store.directory()
                services = sorted({endpoint.service for endpoint in found})
                leaders = {service: await self._store.leader(service) for service in services}
        except (Unavailable, TimeoutError):
            self._stale = True
            self._fresh_until = self._clock.elapsed() + DIRECTORY_CACHE_SECONDS  # nobody else waits for the same
            return
        self._stale = False
        leading = {leader.endpoint for leader in leaders.values() if leader}
        self._endpoints = tuple(
            KnownEndpoint(each.service, each.instance, each.address, each in leading, each.tls_address)
            for each in found
        )
        self._fresh_until = self._clock.elapsed() + DIRECTORY_CACHE_SECONDS
