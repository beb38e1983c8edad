"""Connections that know when the broker ends their SASL session (KIP-368).

A broker with `connections.max.reauth.ms`, or a token that ends, closes a connection at the first request after that
time. aiokafka does not prove itself again over an open connection, so the next request would fail. Whoever uses a
connection therefore asks whether it is `due`, and opens another in time.
"""

import asyncio
import math
import random
from collections.abc import Awaitable

from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest
from aiokafka.protocol.api import Request, Response

from braid.kernel.limits.kafka import SASL_SESSION_PART, SASL_SESSION_SECONDS_MIN


class SessionConnection(AIOKafkaConnection):
    """A connection that notes how long its SASL session lasts.

    Attributes:
        due_at: When another connection is to take its place, on the loop's clock; infinite without an end.
    """

    due_at = math.inf
    _opening = False

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects as aiokafka does. A connection that fails meanwhile is dropped: nothing more is to be said on it."""
        self._opening = True
        try:
            connected: tuple[asyncio.StreamReader, asyncio.StreamWriter] = await super().connect()
        finally:
            self._opening = False
        return connected

    def close(self, reason: object = None, exc: BaseException | None = None) -> "asyncio.Future[None]":
        """Closes as aiokafka does: over TLS with a round trip, unless the connection was still being opened."""
        if self._opening and self._writer is not None:
            self._writer.transport.abort()
        gone: asyncio.Future[None] = super().close(reason, exc)
        return gone

    def send(self, request: Request, expect_response: bool = True) -> Awaitable[Response]:
        """Sends as aiokafka does, and reads the session's lifetime from what SASL answers."""
        began, answer = self._loop.time(), super().send(request, expect_response)
        return self._noting(began, answer) if isinstance(request, SaslAuthenticateRequest) else answer

    async def _noting(self, began: float, answer: Awaitable[Response]) -> Response:
        """A part of the lifetime counts, by chance: clients that came together do not come back together."""
        response = await answer
        lifetime_ms: int = getattr(response, "session_lifetime_ms", 0)  # brokers before 2.2 tell none
        if lifetime_ms > 0:
            used = lifetime_ms / 1_000 * random.uniform(*SASL_SESSION_PART)
            self.due_at = began + max(used, SASL_SESSION_SECONDS_MIN)
        return response


async def open_connection(host: str, port: int, **settings: object) -> SessionConnection:
    """Opens a connection as aiokafka's `create_conn` does. Raises what that does."""
    connection = SessionConnection(host, port, **settings)
    await connection.connect()
    return connection


def is_due(connection: AIOKafkaConnection) -> bool:
    """Whether another connection is to take this one's place, because the broker ends its session soon."""
    due_at: float = getattr(connection, "due_at", math.inf)
    return math.isfinite(due_at) and asyncio.get_running_loop().time() >= due_at


def is_answered(connection: AIOKafkaConnection) -> bool:
    """Whether everything was answered that was sent over a connection."""
    return not connection._requests
