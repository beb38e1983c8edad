"""Creates, configures and deletes topics of channels. One attempt per call; the reconciler repeats.

An error (`ClusterUnavailable`, `NotFound`, `Invalid`, …) means "not yet": nothing is recorded.
"""

from collections.abc import Collection

from braid.kernel.errors import AlreadyExists, NotFound
from braid.kernel.ports import KafkaAdmin, OffsetAt, TopicPartition
from services.registry.kafka.clients import Access
from services.registry.model.channels import Channel
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.stream_commands import IntendRetirement, RecordProvisioned, StreamCommand
from services.registry.model.streams import Stream, StreamSpec
from services.registry.model.topics import (
    KEEP_EVERYTHING,
    default_copies,
    drained_retention,
    reconfigurable,
    topic_config,
)
from services.registry.ownership.mark_log import MarkLogs
from services.registry.policy.copy_counts import FOLLOWER_THROTTLED, LEADER_THROTTLED, in_sync_change


def copies(spec: StreamSpec, usual_brokers: Collection[int]) -> int:
    """The number of copies of a partition: as declared, or three if the cluster has that many brokers.

    Absent brokers count: KRaft places a copy on a broker that is registered but absent, and it catches up when it
    returns. Otherwise a topic created during an absence would keep two copies for good.
    """
    return spec.replication_factor or default_copies(len(usual_brokers))


async def create_topic(
    access: Access, marks: MarkLogs, cluster: Cluster, stream: Stream, channel: Channel
) -> StreamCommand:
    """Creates the channel's topic, or adopts the one that an interrupted attempt left.

    A topic of that name that holds records, has another shape, or is an orphan on its cluster, is not the channel's
    (names are never reused). It is left alone, and the channel is given up for the next generation.
    """
    admin = access.admin(cluster)
    described = await access.described(cluster)
    wanted = copies(stream.spec, {*cluster.usual_brokers, *described.brokers})
    spec = stream.spec
    config = topic_config(spec.retention_hours, spec.max_record_bytes, wanted, spec.topic_config)
    try:
        await admin.create_topic(channel.topic, channel.partitions, wanted, config)
    except AlreadyExists:
        await marks.require_ours(admin, access.reader(cluster.spec), cluster.name, cluster.spec.topic_prefix)
        if cluster.belonging.may_be_orphan(channel.topic) or not await _is_ours(admin, channel):
            return IntendRetirement(channel.ref)
        await admin.alter_topic_config(channel.topic, config)
    found = await admin.describe_topics([channel.topic])
    if channel.topic not in found:
        raise NotFound(f"topic {channel.topic} is not known yet")
    made = found[channel.topic]
    return RecordProvisioned(channel.ref, made.topic_id, described.cluster_id, made.copies)


async def reconfigure_topic(access: Access, cluster: Cluster, stream: Stream, channel: Channel) -> None:
    """Applies its stream's declaration to a topic in use, except the size limit and a lifted retention."""
    spec = stream.spec
    config = topic_config(spec.retention_hours, spec.max_record_bytes, 0, spec.topic_config)
    kept = KEEP_EVERYTHING if channel.keeps_everything else {}
    changes = {**reconfigurable(config), **in_sync_change(spec, channel), **kept}
    if channel.copies_intended:
        changes = {name: value for name, value in changes.items() if name not in (LEADER_THROTTLED, FOLLOWER_THROTTLED)}
    await access.admin(cluster).alter_topic_config(channel.topic, changes)


async def restore_retention(access: Access, cluster: Cluster, stream: Stream, channel: Channel) -> None:
    """Restores the stream's retention on a drained topic."""
    changes = drained_retention(stream.spec.retention_hours)
    await access.admin(cluster).alter_topic_config(channel.topic, changes)


async def _is_ours(admin: KafkaAdmin, channel: Channel) -> bool:
    """Whether an interrupted attempt can have left this topic: it has the right shape and no records."""
    found = (await admin.describe_topics([channel.topic])).get(channel.topic)
    if found is None or found.partitions != channel.partitions:
        return False
    partitions = [TopicPartition(channel.topic, number) for number in range(channel.partitions)]
    ends = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
    return not any(ends.values())
