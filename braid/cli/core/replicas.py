"""Asks one replica of a service by itself, past the mesh's choice of who answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from braid.cli.core.session import Session
from braid.kernel.ports import CallOptions
from braid.rpc.directory import KnownEndpoint
from braid.rpc.methods import method_path

T = TypeVar("T")


class ReplicaConnection:
    """One replica over a connection of its own."""

    def __init__(self, session: Session, known: KnownEndpoint) -> None:
        self._service = known.service
        self._channel = session.ports.transport.channel(known.address, known.tls_address)

    async def ask(self, method: str, request: object, response_type: type[T], seconds: float) -> T:
        """Calls a method within so many seconds. Raises what it answers."""
        path = method_path(self._service, method)
        return await self._channel.unary(path, request, response_type, CallOptions(seconds))

    async def close(self) -> None:
        """Ends the connection."""
        await self._channel.close()


@asynccontextmanager
async def connected(session: Session, known: KnownEndpoint) -> AsyncIterator[ReplicaConnection]:
    """A replica to ask, until the block ends."""
    replica = ReplicaConnection(session, known)
    try:
        yield replica
    finally:
        await replica.close()
