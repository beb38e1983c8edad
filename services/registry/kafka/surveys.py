"""Reads the state of a channel's logs, and of its groups' progress, from the cluster itself."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from braid.kernel.envelope.epochs import newest_epoch
from braid.kernel.errors import NotFound
from braid.kernel.offset_ranges import OffsetRanges, united
from braid.kernel.ports import KafkaAdmin, OffsetAt, TopicDescription, TopicPartition
from services.registry.kafka.clients import Access
from services.registry.kafka.reappeared import lies_there
from services.registry.model.channels import Channel
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.losses import missing
from services.registry.peers import Peers


def partitions_of(channel: Channel) -> Sequence[TopicPartition]:
    """The channel's partitions as topic partitions of its cluster."""
    return [TopicPartition(channel.topic, number) for number in range(channel.partitions)]


async def read_ends(
    admin: KafkaAdmin, channel: Channel, leaderless: Collection[TopicPartition] = ()
) -> Mapping[TopicPartition, int]:
    """End offsets of all partitions that have a leader, in order."""
    partitions = [each for each in partitions_of(channel) if each not in leaderless]
    found = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
    return {partition: found[partition] for partition in partitions}


async def read_written_ends(admin: KafkaAdmin, topic: str) -> Mapping[TopicPartition, int]:
    """The next offset each partition's leader would write; -1 if the leader does not know its own epoch yet.

    `read_ends` covers only records that all in-sync copies have. A leader's own end is the end of its epoch (KIP-101,
    KIP-320). If the latest epoch is older than the leader's, its end is where that leader began: nobody wrote to sealed
    logs since.
    """
    epochs = (await described(admin, topic)).leader_epochs
    return await admin.epoch_ends({TopicPartition(topic, at): epoch for at, epoch in enumerate(epochs)})


async def described(admin: KafkaAdmin, topic: str) -> TopicDescription:
    """Describes a topic. Raises `NotFound` if it is deleted, which may have happened since it was last seen."""
    found = (await admin.describe_topics([topic])).get(topic)
    if found is None:
        raise NotFound(f"topic {topic} is gone")
    return found


@dataclass(frozen=True, slots=True)
class SealedLogs:
    """The state of a sealed channel's logs, by partition, in order.

    Attributes:
        bases: By group, the offset below which each log is done; -1 without progress.
        committed: The same as committed. It is higher if the log was truncated and written again: what a group did
            beyond
            that point was lost, and shows how far the log went.
        starts, ends: Start and end offsets of the logs now.
        recorded: The end offsets recorded after the seal.
        receipts: The offset below which producers have receipts; empty if none reported any.
        told: Records already recorded as lost.
        overwritten: Those of them that never come back.
        reappeared: Whether all others of them are in the logs again, and nothing else in their place.
    """

    bases: Mapping[str, Mapping[TopicPartition, int]]
    committed: Mapping[str, Mapping[TopicPartition, int]]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    recorded: Mapping[TopicPartition, int]
    receipts: Mapping[TopicPartition, int]
    told: OffsetRanges
    overwritten: OffsetRanges
    reappeared: bool

    @property
    def known(self) -> Mapping[str, Mapping[TopicPartition, int]]:
        """The offset up to which each log went, by source of that knowledge."""
        return {"the registry": self.recorded, "a producer": self.receipts, **self.committed}

    def lost(self) -> OffsetRanges:
        """The records the logs lack. A recorded loss stays until exactly its records are there again."""
        everywhere = [tuple(offsets.values()) for offsets in self.known.values() if offsets]
        lacking = missing(everywhere, tuple(self.ends.values()))
        return united((*self.told, *lacking)) if lacking or not self.reappeared else self.overwritten

    def unfinished(self) -> list[str]:
        """Groups with work left, for people."""
        left = {group: records_left(bases, self.starts, self.recorded) for group, bases in self.bases.items()}
        return [f"{group} ({count} records)" for group, count in left.items() if count]


async def take(
    access: Access,
    peers: Peers,
    cluster: Cluster,
    stream: str,
    channel: Channel,
    leaderless: Collection[TopicPartition] = (),
) -> SealedLogs:
    """Reads the state of all logs; for partitions without a leader the last known state stays."""
    admin, partitions = access.admin(cluster), partitions_of(channel)
    groups = await peers.groups(stream, channel.ref.lane)
    found = {group: await progress(access, cluster, group, channel, leaderless) for group in groups}
    led = [each for each in partitions if each not in leaderless]
    recorded = dict(zip(partitions, channel.end_offsets or (), strict=True))
    receipts = dict(zip(partitions, channel.acknowledged, strict=True)) if channel.acknowledged else {}
    starts = {**dict.fromkeys(partitions, 0), **await admin.offsets_at(dict.fromkeys(led, OffsetAt.EARLIEST))}
    ends = {**recorded, **await read_ends(admin, channel, leaderless)}
    told = [each for each in channel.lost if each not in channel.overwritten]
    reappeared = not leaderless and all([await lies_there(admin, channel.topic, each) for each in told])
    return SealedLogs(
        {group: each.provable for group, each in found.items()},
        {group: each.committed for group, each in found.items()},
        {each: starts[each] for each in partitions},
        ends,
        recorded,
        receipts,
        channel.lost,
        channel.overwritten,
        reappeared,
    )


async def leaderless_of(admin: KafkaAdmin, channel: Channel) -> Collection[TopicPartition]:
    leaders = (await described(admin, channel.topic)).leaders
    return [TopicPartition(channel.topic, number) for number, leader in enumerate(leaders) if leader < 0]


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """Offsets up to which a group is done with each log: as `committed`, and as far as the log confirms it; -1:
    none."""

    committed: Mapping[TopicPartition, int]
    provable: Mapping[TopicPartition, int]


async def progress(
    access: Access, cluster: Cluster, group: str, channel: Channel, leaderless: Collection[TopicPartition] = ()
) -> GroupProgress:
    """Reads a group's progress. It counts below the offset where leaders later than those of the commit began to
    write."""
    partitions = partitions_of(channel)
    found = await access.offsets(cluster).committed(group, partitions)
    epochs = {each: newest_epoch(found[each]) for each in partitions if each not in leaderless}
    known = {each: epoch for each, epoch in epochs.items() if epoch >= 0}
    ends = await access.admin(cluster).epoch_ends(known) if known else {}
    committed = {each: found[each].offset for each in partitions}
    cut = {each: min(committed[each], end) for each, end in ends.items() if end >= 0}
    return GroupProgress(committed, {**committed, **cut})


def losses(known: Mapping[str, Mapping[TopicPartition, int]], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Logs that end below what was known to be in them, for people; a drain does not end while there are any.

    Args:
        known: The offset up to which each log went, by source.
        ends: End offsets now.
    """
    return [
        f"{who} saw {partition.topic}/{partition.partition} up to {offset}, it ends at {ends[partition]}:"
        f" offsets {ends[partition]} to {offset - 1} are lost?"
        for who, offsets in known.items()
        for partition, offset in offsets.items()
        if offset > ends[partition]
    ]


def records_left(
    bases: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> int:
    """The number of records of the channel that a group may still have to do: from each partition's base to its end.

    The base is the committed offset: everything below it is done. Done ranges beyond it (in the envelope) leave a gap
    below, so they do not count. Without progress, a partition is done only if it holds nothing.

    Args:
        bases: Committed offset per partition, -1 without progress.
        starts: Start offset of each log.
        ends: End offset of each log after the seal.
    """
    left = 0
    for partition, end in ends.items():
        base = bases.get(partition, -1)
        left += max(0, end - (base if base >= 0 else starts[partition]))
    return left
