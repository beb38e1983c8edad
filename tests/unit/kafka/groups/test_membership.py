"""Braid's own membership: how many trips a bump takes, and what follows from a wrong guess."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from braid.kafka.groups.membership import AioMembership, _Sessions
from braid.kafka.profiles.reading import read_profile
from braid.kafka.protocol.wire import Wire
from braid.kernel.errors import Fenced
from braid.kernel.ports import Generation

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25


class Broker:
    """A coordinator that answers a connection's requests in their order, each a moment after it came."""

    def __init__(self) -> None:
        self.generation = 0
        self.synced = 0
        self.refuses = 0
        self.asked: list[str] = []
        self.trips = 0
        self._under_way = 0

    async def ask(self, group: str, request: Any, *_: object) -> object:
        """Records the request, in place of `Coordinators.ask`."""
        name = type(request).__name__.removesuffix("GroupRequest")
        self.asked.append(name)
        self.trips += not self._under_way
        self._under_way += 1
        await asyncio.sleep(0)
        self._under_way -= 1
        if name == "Join":
            self.generation += 1
            code = self.refuses
            return SimpleNamespace(error_code=code, generation_id=self.generation, member_id="m", members=[("m", b"")])
        known = request._generation_id == self.generation
        self.synced = self.generation if known else self.synced
        return SimpleNamespace(error_code=0 if known else ILLEGAL_GENERATION)


def membership(broker: Broker) -> AioMembership:
    """Asks that broker."""
    made = AioMembership(Wire("localhost:1", "test", read_profile(""), 1.0))
    made._sessions = _Sessions(6_000, 1_800_000)
    made._coordinators.ask = broker.ask  # type: ignore[method-assign, assignment]
    return made


async def test_the_second_join_takes_one_trip() -> None:
    broker = Broker()
    member = membership(broker)
    assert await member.join("g", "m") == Generation(1, "m")
    assert (broker.synced, broker.trips) == (1, 2)
    assert await member.join("g", "m") == Generation(2, "m")
    assert (broker.synced, broker.trips) == (2, 3)
    assert broker.asked == ["Join", "Sync", "Join", "Sync"]


async def test_a_generation_made_elsewhere_costs_another_sync() -> None:
    broker = Broker()
    member = membership(broker)
    await member.join("g", "m")
    broker.generation += 1
    assert await member.join("g", "m") == Generation(3, "m")
    assert broker.synced == 3
    assert await member.join("g", "m") == Generation(4, "m")
    assert broker.synced == 4


async def test_after_a_refused_join_nothing_is_guessed() -> None:
    broker = Broker()
    member = membership(broker)
    await member.join("g", "m")
    broker.refuses = UNKNOWN_MEMBER_ID
    with pytest.raises(Fenced):
        await member.join("g", "m")
    broker.refuses, broker.asked = 0, []
    assert await member.join("g", "m") == Generation(3, "m")
    assert (broker.asked, broker.synced) == (["Join", "Sync"], 3)
