"""Looks up topics of a cluster: leaders and copies of their partitions. One answer serves all who ask for it."""

import asyncio
from collections.abc import Mapping, Sequence

from braid.kafka.errors import LEADER_RETRY, UNKNOWN_TOPIC, check
from braid.kafka.permissions import Need
from braid.kafka.protocol.descriptions import described
from braid.kafka.protocol.wire import ClusterMetadata, Wire
from braid.kernel.errors import NotFound
from braid.kernel.limits.kafka import KAFKA_ANSWER_BACKOFF_SECONDS, KAFKA_LEADERS_SECONDS, TOPIC_GONE_SECONDS
from braid.kernel.ports import TopicDescription, TopicPartition


class _Answer:
    """An answer to a metadata request; a failed one serves no later caller."""

    def __init__(self, asking: "asyncio.Task[ClusterMetadata]") -> None:
        self.asking = asking
        self._came_at = float("inf")  # on the loop's time
        self._described: Mapping[str, TopicDescription] | None = None

    def serves(self, now: float, seconds: float) -> bool:
        """Whether it is on its way, or came less than so long ago."""
        return now - self._came_at < seconds

    def came(self, asking: "asyncio.Task[ClusterMetadata]") -> None:
        """Notes that the answer came or failed, even if nobody waits for it any more."""
        failed = asking.cancelled() or asking.exception() is not None
        self._came_at = float("-inf") if failed else asyncio.get_running_loop().time()

    async def described(self) -> Mapping[str, TopicDescription]:
        """Waits for the answer, and describes its topics: once for all who ask, for a topic may be large."""
        found = await asyncio.shield(self.asking)
        if self._described is None:
            self._described = described(found)
        return self._described


class TopicLookup:
    """Looks up topics of one cluster, and keeps each answer for a moment."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._answers: dict[tuple[str, ...], _Answer] = {}

    def forget(self) -> None:
        """Forgets the last answer, which is out of date."""
        self._answers.clear()

    async def tell(self, topics: Sequence[str], *, told_seconds: float = 0.0) -> ClusterMetadata:
        """Returns the cluster's answer, at most so old; one request serves all callers meanwhile."""
        return await asyncio.shield(self._asked(tuple(topics), told_seconds).asking)

    async def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Returns those of the topics that exist; one request serves all callers meanwhile.

        Raises:
            ClusterAccessDenied: the client may not see one of them.
        """
        return await self._asked(tuple(topics)).described()

    def _asked(self, asked: tuple[str, ...], told_seconds: float = 0.0) -> _Answer:
        """An answer at most so old, or the one that is on its way."""
        now = asyncio.get_running_loop().time()
        known = self._answers.get(asked)
        if known is None or not known.serves(now, told_seconds):
            self._answers = {
                topics: each for topics, each in self._answers.items() if each.serves(now, KAFKA_LEADERS_SECONDS)
            }
            asking = asyncio.ensure_future(self._wire.metadata(asked))
            known = self._answers[asked] = _Answer(asking)
            asking.add_done_callback(known.came)
        return known

    async def known(self, topics: Sequence[str]) -> ClusterMetadata:
        """Metadata of topics that exist; a broker that just started may not know them at once.

        Raises:
            NotFound: one of them does not exist.
        """
        deadline = asyncio.get_running_loop().time() + TOPIC_GONE_SECONDS / 4
        while True:
            found = await self.tell(topics, told_seconds=KAFKA_LEADERS_SECONDS)
            unknown = [name for name, told in found.topics.items() if told.error_code == UNKNOWN_TOPIC]
            if not unknown:
                for name, told in found.topics.items():
                    if told.error_code not in LEADER_RETRY:
                        check(told.error_code, f"topic {name}", need=Need("Describe", name))
                return found
            if asyncio.get_running_loop().time() > deadline:
                raise NotFound(f"topic {unknown[0]} does not exist")
            await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)

    async def led(self, partition: TopicPartition) -> tuple[int, ClusterMetadata]:
        """Waits until a partition has a leader; returns it and its metadata. Raises `NotFound`."""
        while True:
            found = await self.known([partition.topic])
            if (leader := leader_of(found, partition)) >= 0:
                return leader, found
            await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)


def leader_of(found: ClusterMetadata, partition: TopicPartition) -> int:
    """Returns the broker that leads a partition; -1 while none does. Raises `NotFound` for an unknown partition."""
    leaders = found.topics[partition.topic].leaders
    if leaders and partition.partition not in leaders:
        raise NotFound(f"topic {partition.topic} has no partition {partition.partition}")
    return leaders.get(partition.partition, -1)
