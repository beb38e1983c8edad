"""Looks up the leader of each partition that a fetcher wants, without waiting for fetches.

A broker answers the requests of a connection one after another, so a question behind a held fetch waits for that fetch.
The question therefore has a connection of its own, and callers that need no answer continue with the last one.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from braid.kafka.errors import ACCESS_DENIED, error_for
from braid.kafka.fetching.contact import Owing
from braid.kafka.permissions import Need
from braid.kafka.protocol.wire import ClusterMetadata, Wire
from braid.kernel.errors import ClusterAccessDenied, ClusterUnavailable
from braid.kernel.limits.kafka import KAFKA_BACKOFF_MS, KAFKA_METADATA_AGE_MS
from braid.kernel.ports import TopicPartition

BACKOFF_SECONDS: Final = KAFKA_BACKOFF_MS / 1_000
AGE_SECONDS: Final = KAFKA_METADATA_AGE_MS / 1_000


class Leaders:
    """The leaders of one fetcher's partitions; -1 if none is known."""

    def __init__(self, wire: Wire, owing: Owing, told: Callable[[], None]) -> None:
        """`owing` is told of questions without answers; `told` is called when there is an answer."""
        self._wire = wire
        self._owing = owing
        self._told = told
        self._leaders: dict[TopicPartition, int] = {}  # leaders by partition, where one is known
        self._epochs: dict[TopicPartition, int] = {}  # leader epochs in the newest answer
        self._topics: Sequence[str] = ()  # topics of the last question
        self._known_at = float("-inf")
        self._question: asyncio.Task[None] | None = None
        self.asking_since: float | None = None  # on the event loop's clock, while somebody waits for the answer

    def of(self, partition: TopicPartition) -> int:
        """Returns the leader's broker id."""
        return self._leaders.get(partition, -1)

    def epoch_of(self, partition: TopicPartition) -> int:
        """Returns the leader epoch in the newest answer; -1 before the first."""
        return self._epochs.get(partition, -1)

    def forget(self, partitions: Collection[TopicPartition], *, ask: bool) -> None:
        """Forgets leaders that do not lead, or do not answer; with `ask`, what is known is no longer fresh."""
        for partition in partitions:
            self._leaders.pop(partition, None)
        if ask:
            self._known_at = float("-inf")

    def unknown(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether any of these partitions has no known leader."""
        return not all(map(self._leaders.__contains__, partitions))

    async def ask(self, topics: Sequence[str], *, owed: bool = True) -> ClusterMetadata:
        """Asks the cluster now; a missing answer is `owed` from the first failed question.

        Raises:
            ClusterUnavailable: it says nothing.
        """
        asked = self._now()
        self.asking_since = asked if owed else None
        try:
            return await self._wire.metadata(topics)
        except ClusterAccessDenied as error:
            self._owing.refused(error.message)
            raise
        except ClusterUnavailable:
            if owed:
                self._owing.in_vain(asked)
            raise
        finally:
            self.asking_since = None

    def refresh(self, partitions: Collection[TopicPartition]) -> None:
        """Starts to ask for leaders, unless a question is under way or the last answer is fresh enough.

        An unexpected error in an earlier question is raised here.
        """
        if self._question is not None:
            if not self._question.done():
                return
            self._question.result()
            self._question = None
        if partitions and self._now() - self._known_at >= self._fresh_seconds(partitions):
            self._topics = sorted({partition.topic for partition in partitions})
            look_up = self._look_up(owed=self.unknown(partitions))  # else those who lead may answer, all the same
            self._question = asyncio.create_task(look_up, name="kafka-leaders")

    def close(self) -> list[asyncio.Task[None]]:
        """Cancels the question under way; returns the tasks to wait for."""
        if self._question is None:
            return []
        self._question.cancel()
        return [self._question]

    def _fresh_seconds(self, partitions: Collection[TopicPartition]) -> float:
        """Returns how long an answer stays fresh."""
        if not self.unknown(partitions):
            return AGE_SECONDS
        asked = all(partition.topic in self._topics for partition in partitions)
        return BACKOFF_SECONDS if asked else 0.0

    async def _look_up(self, *, owed: bool) -> None:
        try:
            found = await self.ask(self._topics, owed=owed)
        except ClusterUnavailable:
            await asyncio.sleep(BACKOFF_SECONDS)
            return
        self._known_at = self._now()
        for topic, told in found.topics.items():
            if told.error_code in ACCESS_DENIED:
                self._owing.refused(error_for(told.error_code, f"topic {topic}", Need("Read", topic)).message)
        self._leaders = {
            TopicPartition(topic, number): leader
            for topic, told in found.topics.items()
            for number, leader in told.leaders.items()
            if leader >= 0
        }
        self._epochs = {
            TopicPartition(topic, number): epoch
            for topic, told in found.topics.items()
            for number, epoch in told.epochs.items()
        }
        self._told()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
