"""An event loop that refuses connections to chosen addresses: it simulates the loss of a cluster or a broker.

Everything below it is real: the SDK's own clients see broken connections and refused attempts. Connections to Braid's
services do not pass through it: gRPC opens its own.
"""

import asyncio
import errno
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, cast

Address = tuple[str, int]
_Connect = Callable[..., Awaitable[tuple[asyncio.Transport, asyncio.BaseProtocol]]]


def parse_addresses(text: Iterable[str]) -> frozenset[Address]:
    """Parses a list of `host:port` addresses."""
    return frozenset((host.strip("[]"), int(port)) for host, _, port in (each.rpartition(":") for each in text))


class GatedLoop(asyncio.SelectorEventLoop):
    """Refuses connections to addresses in the form in which they are requested: by name or by number."""

    def __init__(self) -> None:
        super().__init__()
        self._refused: Collection[Address] = frozenset()
        self._open: Final[dict[Address, weakref.WeakSet[asyncio.Transport]]] = {}

    def refuse(self, addresses: Collection[Address]) -> None:
        """Breaks connections to these addresses, and refuses new ones. An empty set admits all again."""
        self._refused = frozenset(addresses)
        for address in addresses:
            for transport in list(self._open.pop(address, ())):
                transport.abort()

    async def create_connection(  # type: ignore[override]  # one signature for all overloads
        self, protocol_factory: object, host: str | None = None, port: int | None = None, **options: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """See `asyncio.loop.create_connection`. Raises `ConnectionRefusedError` for a refused address."""
        address = (host or "", port or 0)
        self._check(address)
        connect = cast("_Connect", super().create_connection)
        transport, protocol = await connect(protocol_factory, host, port, **options)
        if address in self._refused:
            transport.abort()
            self._check(address)
        self._open.setdefault(address, weakref.WeakSet()).add(transport)
        return transport, protocol

    def _check(self, address: Address) -> None:
        if address in self._refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"a drill refuses {address[0]}:{address[1]}")
