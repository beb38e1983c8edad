"""Seals, tried as soon as the registry says that there is one: does the topic refuse a record?"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from braid.api.registry.v1.stream_pb2 import Channel, ChannelState, DrainStep
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import BraidError
from testbed.checkers.facts import Topic
from testbed.ground.clusters import takes_records
from testbed.ground.field import Field, now_ms

POLL_SECONDS: Final = 0.2
_SEALED: Final = (DrainStep.DRAIN_STEP_END_OFFSETS, DrainStep.DRAIN_STEP_GROUPS)


class Seals:
    """The results of append attempts on recorded seals.

    Attributes:
        taking: Partitions that took a record, by topic that was tried.
        tried_ms: When (wall clock).
    """

    def __init__(self, field: Field) -> None:
        self.taking: dict[Topic, list[int]] = {}
        self.tried_ms: dict[Topic, int] = {}
        self._field = field
        self._kafka = AioKafka("chaos")

    @property
    def refuses(self) -> Mapping[Topic, bool]:
        """Whether each tried topic refused the append."""
        return {topic: not taking for topic, taking in self.taking.items()}

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Tries them in the background until the block ends."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        if not watching.cancelled():
            watching.result()

    async def try_again(self, channel: Channel) -> list[int] | None:
        """Partitions that take a record now; None where there is no topic, or nobody to ask."""
        clusters = self._field.mesh.ready.clusters
        admin = self._kafka.cluster(clusters[channel.cluster].bootstrap, "").admin()
        try:
            if channel.topic not in await admin.describe_topics([channel.topic]):
                return None
            return await takes_records(admin, channel.topic, channel.partitions)
        except BraidError:
            return None
        finally:
            await admin.close()

    async def _watch(self) -> None:
        while True:
            for channel in await self._sealed():
                topic = Topic(channel.cluster, channel.topic)
                if topic not in self.taking and (taking := await self.try_again(channel)) is not None:
                    self.taking[topic], self.tried_ms[topic] = taking, now_ms()
            await asyncio.sleep(POLL_SECONDS)

    async def _sealed(self) -> list[Channel]:
        try:
            channels = await self._field.channels()
        except BraidError:
            return []
        return [
            each
            for each in channels
            if not each.stranded and (each.state == ChannelState.CHANNEL_STATE_DRAINED or each.drain_step in _SEALED)
        ]
