"""How often an admin asks who leads: calls that come together, or follow one another at once, share an answer."""

import asyncio

import pytest

from braid.kafka.admin import AioAdmin
from braid.kafka.wire import ClusterMetadata, TopicMetadata, Wire
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits import KAFKA_LEADERS_SECONDS

TOPIC = "braid.logs.live.1"
ANSWER_SECONDS = 0.005


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


async def test_calls_at_once_share_an_answer_and_who_follows_it_asks_no_more() -> None:
    wire = Counting()
    admin = AioAdmin(wire)
    await asyncio.gather(*(admin.describe_topics([TOPIC]) for _ in range(8)))
    assert wire.asked == 1
    await admin._known([TOPIC])
    assert wire.asked == 1, "it was told a moment ago"
    await asyncio.sleep(2 * KAFKA_LEADERS_SECONDS)
    await admin._known([TOPIC])
    assert wire.asked == 2, "leaders may have changed"


async def test_who_describes_topics_is_never_told_what_was_so_before_it_asked_somebody() -> None:
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
