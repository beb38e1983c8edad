"""A producer waits for as long as a broker says, and no other broker waits with it."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest

from braid.kafka.producing.internals.throttling import Throttle
from braid.kernel.limits.kafka import KAFKA_THROTTLE_SECONDS_MAX
from tests.support.virtual_time import run_virtual, running_loop

PRODUCE = ProduceRequest(None, -1, 1_000, [])


class Client:
    """Answers each request with a word to wait, and notes when it came."""

    def __init__(self, throttle_ms: int) -> None:
        self.throttle_ms = throttle_ms
        self.came: list[tuple[int, float]] = []

    async def send(self, node: int, request: object, group: object = None) -> Any:
        self.came.append((node, running_loop().time()))
        return SimpleNamespace(throttle_time_ms=self.throttle_ms)


def throttled(throttle_ms: int) -> tuple[Throttle, Client]:
    throttle, client = Throttle(), Client(throttle_ms)
    throttle.prepare(SimpleNamespace(client=client))
    return throttle, client


def test_the_next_request_waits_for_as_long_as_the_broker_said() -> None:
    async def scenario() -> None:
        throttle, client = throttled(4_000)
        assert throttle.seconds() == -math.inf
        await client.send(1, PRODUCE)
        assert throttle.seconds() == pytest.approx(4.0)
        await client.send(2, PRODUCE)
        await client.send(1, object())
        assert [at for _, at in client.came] == [0.0, 0.0, 0.0], "another broker, and what is no record, go on"
        await client.send(1, PRODUCE)
        assert client.came[-1][1] == pytest.approx(4.0)
        client.throttle_ms = 0
        await asyncio.sleep(10)
        assert throttle.seconds() == pytest.approx(-6.0)
        await client.send(1, PRODUCE)
        assert client.came[-1][1] == pytest.approx(14.0)

    run_virtual(scenario())


def test_no_broker_holds_a_producer_back_for_ever() -> None:
    async def scenario() -> None:
        throttle, client = throttled(2**31 - 1)
        await client.send(1, PRODUCE)
        assert throttle.seconds() == pytest.approx(KAFKA_THROTTLE_SECONDS_MAX)

    run_virtual(scenario())


def test_aiokafka_sends_records_by_its_clients_send() -> None:
    """Pins where the wait is put in: another release must fail here first."""
    names = SendProduceReqHandler.do.__code__.co_names
    assert "_client" in names and "send" in names
    assert SendProduceReqHandler.create_request.__globals__["ProduceRequest"] is ProduceRequest
    assert "throttle_time_ms" in ProduceRequest.build.__globals__["ProduceResponse_v8"].SCHEMA.names
    assert AIOKafkaClient.send.__code__.co_varnames[1:3] == ("node_id", "request")
