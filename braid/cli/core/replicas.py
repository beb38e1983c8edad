"""Calls one particular replica of a service, instead of the one that the mesh would choose."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from braid.cli.core.session import Session
from braid.kernel.ports import CallOptions
from braid.rpc.directory import KnownEndpoint
from braid.rpc.methods import method_path

T = TypeVar("T")


class ReplicaConnection:
    """A separate connection to one replica."""

    def __init__(self, session: Session, known: KnownEndpoint) -> None:
        self._service = known.service
        self._channel = session.ports.transport.channel(known.address, known.tls_address)

    async def ask(self, method: str, request: object, response_type: type[T], seconds: float) -> T:
        """Calls a method, with a deadline in seconds. Raises the replica's error."""
        path = method_path(self._service, method)
        return await self._channel.unary(path, request, response_type, CallOptions(seconds))

    async def close(self) -> None:
        """Ends the connection."""
        await self._channel.close()


@asynccontextmanager
async def connected(session: Session, known: KnownEndpoint) -> AsyncIterator[ReplicaConnection]:
    """Opens a connection to a replica for the duration of the block."""
    replica = ReplicaConnection(session, known)
    try:
        yield replica
    finally:
        await replica.close()
