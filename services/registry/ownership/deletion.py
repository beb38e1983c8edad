"""Deletes topics: the only place where Braid does, behind one gate. One attempt per call.

A topic is deleted only if the cluster carries this mesh's mark, is the cluster that the topic was made on, and the
topic is the one that was made. A topic that never carried traffic according to its history must also prove that: it is
closed, and every partition's log starts at 0 and ends at 0. A history may be older than the cluster (its store was
restored from a backup), a log is not.
"""

from collections.abc import Mapping

from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.registry.resources import SEAL_CANARIES_MAX
from braid.kernel.ports import Clock, OffsetAt, TopicDescription, TopicPartition
from services.registry.kafka.clients import Access
from services.registry.kafka.drain import HeldStep, close_log
from services.registry.kafka.log_reading import read_records
from services.registry.kafka.surveys import read_written_ends
from services.registry.model.channels import SPARE, Channel, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.stream_commands import RecordFound, RecordRetired, StreamCommand
from services.registry.ownership.mark_log import MarkLogs
from services.registry.peers import Peers


async def retire(
    access: Access,
    marks: MarkLogs,
    peers: Peers,
    cluster: Cluster,
    name: str,
    channel: Channel,
    revision: int,
    clock: Clock,
) -> StreamCommand | HeldStep:
    """Deletes the channel's topic, once no group may join it; records what it finds there instead, if anything."""
    if channel.state is ChannelState.DRAINED:
        await peers.close_channel(name, revision)
    return await delete_topic(access, marks, cluster, channel, clock)


async def delete_topic(
    access: Access, marks: MarkLogs, cluster: Cluster, channel: Channel, clock: Clock
) -> StreamCommand | HeldStep:
    """Deletes a channel's topic, or returns what was found instead.

    A topic of the channel's name that is not the channel's stays. A spare's topic that holds records stays too: the
    channel is recorded as found, and drained.

    Raises:
        Refused: the cluster is another mesh's.
        ClusterUnavailable: the cluster does not answer, has no mark yet, or was replaced and this is not recorded yet.
    """
    admin = access.admin(cluster)
    await access.described(cluster)
    await marks.require_ours(admin, access.reader(cluster.spec), cluster.name, cluster.spec.topic_prefix)
    topic = (await admin.describe_topics([channel.topic])).get(channel.topic)
    if topic is None or not _of_channel(topic, channel, cluster):
        return RecordRetired(channel.ref)
    if channel.state in SPARE and (kept := await _kept(access, cluster, channel, topic, clock)):
        return kept
    await admin.delete_topic(channel.topic)
    return RecordRetired(channel.ref)


async def was_written(access: Access, cluster: Cluster, topic: str, count: int) -> bool:
    """Whether a topic of so many partitions ever held a record, as far as Kafka can tell; canaries of a seal do not
    count.

    A record that a leader accepted but not all copies have counts: its producer may still be acknowledged.
    """
    admin, partitions = access.admin(cluster), [TopicPartition(topic, number) for number in range(count)]
    starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    ends = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
    written = await read_written_ends(admin, topic)
    if any(starts.values()) or any(written.get(each, end) > end for each, end in ends.items()):
        return True
    return not await _only_canaries(access, cluster, {each: end for each, end in ends.items() if end})


def _of_channel(topic: TopicDescription, channel: Channel, cluster: Cluster) -> bool:
    """Whether a topic is the channel's; before its id was recorded, whether an interrupted attempt can have made it."""
    if channel.topic_id:
        return topic.topic_id == channel.topic_id
    return topic.partitions == channel.partitions and not cluster.belonging.may_be_orphan(topic.name)


async def _kept(
    access: Access, cluster: Cluster, channel: Channel, topic: TopicDescription, clock: Clock
) -> StreamCommand | HeldStep | None:
    """Why a spare's topic is kept; None if it is empty, always was, and accepts no record any more.

    If a topic was never recorded and holds records, nobody knows who made it: it is left alone, and unsealed.
    """
    written = await was_written(access, cluster, channel.topic, channel.partitions)
    if not written:
        if held := await close_log(access.admin(cluster), channel, clock):
            return held
        written = await was_written(access, cluster, channel.topic, channel.partitions)
    if not written:
        return None
    if not channel.topic_id:
        return RecordRetired(channel.ref)
    return RecordFound(
        channel.ref, cluster.name, channel.topic, channel.partitions, topic.topic_id, cluster.kafka_cluster_id
    )


async def _only_canaries(access: Access, cluster: Cluster, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether logs from 0 to these ends hold only canaries of a seal, which leaders accepted before they learned of
    it."""
    if any(end > SEAL_CANARIES_MAX for end in ends.values()):
        return False
    for partition, end in ends.items():
        records = await read_records(access.reader(cluster.spec), partition, 0, end)
        if len(records) < end or any((each.key, each.value) != (None, SEAL_CANARY) for each in records):
            return False
    return True
