"""Connections whose SASL session ends are replaced in time, and what is under way over them is answered."""

import asyncio
import math
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest
from aiokafka.protocol.metadata import MetadataRequest

from braid.kafka.protocol import wire
from braid.kafka.protocol.sasl_sessions import SessionConnection, is_due
from braid.kafka.security import Security
from braid.kernel.limits.kafka import SASL_SESSION_PART, SASL_SESSION_SECONDS_MIN

LOW, HIGH = SASL_SESSION_PART


@pytest.mark.parametrize(
    ("lifetime_ms", "low", "high"),
    [
        (10_000, LOW * 10, HIGH * 10),
        (50, SASL_SESSION_SECONDS_MIN, SASL_SESSION_SECONDS_MIN),
        (0, math.inf, math.inf),
        (None, math.inf, math.inf),
    ],
)
async def test_a_part_of_the_told_lifetime_is_used(
    monkeypatch: pytest.MonkeyPatch, lifetime_ms: int | None, low: float, high: float
) -> None:
    async def answered() -> Any:
        return SimpleNamespace() if lifetime_ms is None else SimpleNamespace(session_lifetime_ms=lifetime_ms)

    monkeypatch.setattr(AIOKafkaConnection, "send", lambda *request: answered())
    connection, began = SessionConnection("127.0.0.1", 1), asyncio.get_running_loop().time()
    await connection.send(MetadataRequest([]))
    assert connection.due_at == math.inf
    await connection.send(SaslAuthenticateRequest(b""))
    assert low <= connection.due_at - began <= high + 0.5
    assert not is_due(connection)


class FakeConnection:
    """A connection whose answers come when a test says so."""

    def __init__(self, due_at: float) -> None:
        self.due_at = due_at
        self.closed = False
        self.answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._requests: list[object] = []
        self._writer = None

    def connected(self) -> bool:
        """See `AIOKafkaConnection`."""
        return not self.closed

    def close(self) -> None:
        """See `AIOKafkaConnection`."""
        self.closed = True

    def send(self, request: object) -> Awaitable[object]:
        """See `AIOKafkaConnection`."""
        self._requests.append(request)
        return self._answered()

    async def _answered(self) -> object:
        found = await self.answer
        self._requests.pop()
        return found


async def test_a_session_ends_soon_and_its_connection_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[FakeConnection] = []

    async def open_connection(*address: object, **settings: object) -> AIOKafkaConnection:
        opened.append(FakeConnection(math.inf))
        return cast("AIOKafkaConnection", opened[-1])

    monkeypatch.setattr(wire, "open_connection", open_connection)
    client = wire.Wire("127.0.0.1:1", "test", Security(), 5.0)
    first = asyncio.ensure_future(client.ask(wire.ANY_BROKER, MetadataRequest([])))
    await asyncio.sleep(0.01)
    opened[0].due_at = 0.0
    second = asyncio.ensure_future(client.ask(wire.ANY_BROKER, MetadataRequest([])))
    await asyncio.sleep(0.01)
    assert len(opened) == 2 and not opened[0].closed, "the first request is still under way"
    opened[1].answer.set_result("new")
    opened[0].answer.set_result("old")
    assert [await first, await second] == ["old", "new"]
    assert [each.closed for each in opened] == [True, False]
    opened[1].due_at = 0.0
    opened[1].answer = asyncio.get_running_loop().create_future()
    third = asyncio.ensure_future(client.ask(wire.ANY_BROKER, MetadataRequest([])))
    await asyncio.sleep(0.01)
    assert [each.closed for each in opened] == [True, True, False], "nothing was under way over it"
    await client.close()
    third.cancel()
    assert opened[2].closed
