"""Reads, while leading, how far the logs of channels go that producers may write to.

These ends reveal a loss if producers died without reporting receipts (`liveness/seen_ends.py`).
"""

from collections.abc import Mapping, Sequence

from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.resources import LOG_ENDS_BATCH, LOG_ENDS_SECONDS
from braid.kernel.ports import KafkaAdmin, OffsetAt, TopicDescription, TopicPartition
from braid.runtime.replica import Replica
from services.registry.each_cluster import watch_each
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.kafka import surveys
from services.registry.kafka.clients import Access
from services.registry.liveness.seen_ends import ChannelEnds, ChannelKey
from services.registry.model.channels import Channel, ChannelState
from services.registry.model.clusters.cluster import Cluster


class EndsReader:
    """Reads log ends on all clusters that answer, for one term."""

    def __init__(self, replica: Replica, access: Access, ends: ChannelEnds) -> None:
        self._replica = replica
        self._access = access
        self._ends = ends

    async def run(self) -> None:
        """Reads log ends until cancelled."""
        await watch_each(self._replica, self._watch)

    async def _watch(self, name: str) -> None:
        """Reads one cluster's log ends until it is deleted."""
        while (cluster := self._replica.aggregates.state(CLUSTERS, name)).exists:
            if cluster.reachable:
                await self._look(cluster)
            await self._replica.host.clock.sleep(LOG_ENDS_SECONDS)
        self._ends.take(name, (), {}, self._replica.host.clock.elapsed())

    async def _look(self, cluster: Cluster) -> None:
        began, channels = self._replica.host.clock.elapsed(), self._written_to(cluster)
        try:
            found = await _ends(self._access.admin(cluster, "load"), channels)
        except BraidError:
            found = {}  # who looks after the cluster's health tells of it
        self._ends.take(cluster.name, channels.keys(), found, began)

    def _written_to(self, cluster: Cluster) -> Mapping[ChannelKey, Channel]:
        """Channels on the cluster that are not sealed yet."""
        return {
            (name, channel.ref): channel
            for name, stream in self._replica.aggregates.states(STREAMS).items()
            for channel in stream.channels
            if channel.cluster == cluster.name
            and channel.kafka_cluster_id in ("", cluster.kafka_cluster_id)
            and (
                channel.state is ChannelState.ACTIVE or (channel.state is ChannelState.DRAINING and not channel.sealed)
            )
        }


async def _ends(admin: KafkaAdmin, channels: Mapping[ChannelKey, Channel]) -> dict[ChannelKey, Sequence[int]]:
    """End offsets of all channels whose topic is their own and whose partitions all have leaders."""
    if not channels:
        return {}
    topics = await admin.describe_topics(sorted({channel.topic for channel in channels.values()}))
    whole = {key: each for key, each in channels.items() if _is_whole(topics.get(each.topic), each)}
    partitions = [partition for channel in whole.values() for partition in surveys.partitions_of(channel)]
    ends: dict[TopicPartition, int] = {}
    for start in range(0, len(partitions), LOG_ENDS_BATCH):
        ends |= await admin.offsets_at(dict.fromkeys(partitions[start : start + LOG_ENDS_BATCH], OffsetAt.LATEST))
    return {key: [ends[each] for each in surveys.partitions_of(channel)] for key, channel in whole.items()}


def _is_whole(topic: TopicDescription | None, channel: Channel) -> bool:
    """Whether it is the channel's own topic, and every partition can report its end."""
    if topic is None or (topic.topic_id and channel.topic_id and topic.topic_id != channel.topic_id):
        return False
    return len(topic.leaders) == channel.partitions and min(topic.leaders) >= 0
