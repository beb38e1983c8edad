"""A wire between one client and one etcd member that can also lose one request, or one answer, by what it contains."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from testbed.wire import Wire


@dataclass(frozen=True)
class Trap:
    """Waits for a request that contains `marker`, then cuts its connection.

    Attributes:
        forwarded: None loses the request. Else it is forwarded, its answer lost, and the cut comes after this returns.
    """

    marker: bytes
    forwarded: Callable[[], Awaitable[None]] | None


class EtcdProxy(Wire):
    """Forwards connections to a member's address."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.trap: Trap | None = None

    async def pass_request(self, chunk: bytes, writer: asyncio.StreamWriter, muted: asyncio.Event) -> bool:
        """See `Wire`."""
        trap = self.trap
        if trap is None or trap.marker not in chunk:
            return await super().pass_request(chunk, writer, muted)
        self.trap = None
        muted.set()
        if trap.forwarded:
            await super().pass_request(chunk, writer, muted)
            await trap.forwarded()
        return False


@asynccontextmanager
async def etcd_proxy(target: str) -> AsyncIterator[EtcdProxy]:
    """A running proxy, ended afterwards."""
    proxy = EtcdProxy(target)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
