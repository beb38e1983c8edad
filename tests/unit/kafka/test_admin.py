"""How often an admin asks who leads, and what it takes a refused append for.

Calls that come together, or follow one another at once, share an answer.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.produce import ProduceRequest

from braid.kafka.admin import AioAdmin
from braid.kafka.protocol.topic_lookup import TopicLookup
from braid.kafka.protocol.wire import ClusterMetadata, TopicMetadata, Wire
from braid.kernel.errors import BraidError, ClusterUnavailable, RecordTooLarge, TopicSealed
from braid.kernel.limits.kafka import KAFKA_LEADERS_SECONDS
from braid.kernel.ports import TopicPartition

TOPIC = "braid.logs.live.1"
ANSWER_SECONDS = 0.005
MESSAGE_TOO_LARGE = 10


class Counting(Wire):
    """Answers questions for metadata, counting them."""

    def __init__(self) -> None:
        self.asked = 0
        self.away = False

    async def metadata(self, topics: object) -> ClusterMetadata:
        self.asked += 1
        await asyncio.sleep(ANSWER_SECONDS)
        if self.away:
            raise ClusterUnavailable("away")
        return ClusterMetadata("c", 1, {1: ("h", 1)}, {TOPIC: TopicMetadata(0, bytes(16), {0: 1})})

    async def close(self) -> None:
        """Nothing to close."""


async def test_calls_at_once_share_an_answer() -> None:
    wire = Counting()
    admin = AioAdmin(wire)
    answers = await asyncio.gather(*(admin.describe_topics([TOPIC]) for _ in range(8)))
    assert wire.asked == 1
    assert len({id(each) for each in answers}) == 1, "a topic of thousands of partitions is described once, too"


async def test_a_leader_lookup_uses_facts_reported_a_moment_ago() -> None:
    wire = Counting()
    lookup = TopicLookup(wire)
    await lookup.tell([TOPIC])
    await lookup.known([TOPIC])
    assert wire.asked == 1, "it was told a moment ago"
    await asyncio.sleep(2 * KAFKA_LEADERS_SECONDS)
    await lookup.known([TOPIC])
    assert wire.asked == 2, "leaders may have changed"
    lookup.forget()
    assert await lookup.led(TopicPartition(TOPIC, 0)) == (1, await lookup.known([TOPIC]))
    assert wire.asked == 3, "what was told is so no longer"


async def test_describing_topics_never_uses_facts_older_than_the_call() -> None:
    wire = Counting()
    admin = AioAdmin(wire)
    await admin.describe_topics([TOPIC])
    await admin.describe_topics([TOPIC])
    assert wire.asked == 2


async def test_an_answer_that_failed_serves_nobody_who_asks_later() -> None:
    wire = Counting()
    admin = AioAdmin(wire)
    wire.away = True
    first, second = await asyncio.gather(
        admin.describe_topics([TOPIC]), admin.describe_topics([TOPIC]), return_exceptions=True
    )
    assert isinstance(first, ClusterUnavailable)
    assert isinstance(second, ClusterUnavailable)
    wire.away = False
    assert TOPIC in await admin.describe_topics([TOPIC])


async def test_who_does_not_wait_any_more_does_not_end_it_for_others() -> None:
    admin = AioAdmin(Counting())
    hasty, patient = (asyncio.ensure_future(admin.describe_topics([TOPIC])) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hasty
    assert TOPIC in await patient


class Refusing(Counting):
    """A leader that refuses every append for its size, and a broker that tells how much the topic takes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    async def ask(self, broker: int, request: object) -> Any:
        if isinstance(request, ProduceRequest):
            return SimpleNamespace(topics=[(TOPIC, [(0, MESSAGE_TOO_LARGE, -1, -1)])])
        return await self.ask_any(request)

    async def ask_any(self, request: object) -> Any:
        return SimpleNamespace(resources=[(0, "", 2, TOPIC, [("max.message.bytes", str(self._limit))])])


@pytest.mark.parametrize(
    ("limit", "kind"),
    [(0, TopicSealed), (100, RecordTooLarge), (1_048_588, TopicSealed)],
    ids=["sealed", "too large", "a seal that not all brokers know of"],
)
async def test_why_an_append_was_refused(limit: int, kind: type[BraidError]) -> None:
    with pytest.raises(kind):
        await AioAdmin(Refusing(limit)).try_append(TopicPartition(TOPIC, 0), b"x" * 500, 1.0)
