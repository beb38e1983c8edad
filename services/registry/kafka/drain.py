"""The steps of a safe drain on the cluster. One attempt per call; each returns what to record, or what holds the drain.

The domain enforces order and completeness: it refuses a step that is recorded out of turn. An error means "not yet".
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from braid.kernel.errors import TopicSealed
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.kafka import TRY_APPEND_SECONDS
from braid.kernel.limits.registry.resources import (
    LOSS_TOLD_MAX,
    SEAL_SETTLE_SECONDS,
    TAIL_LOOK_SECONDS,
    WORK_AT_ONCE,
    WORK_RETRY_SECONDS,
)
from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges, united
from braid.kernel.ports import Clock, KafkaAdmin, OffsetAt, TopicPartition
from braid.kernel.resumptions import Resumption
from services.registry.kafka import log_cuts, surveys
from services.registry.kafka.clients import Access
from services.registry.model.channels import Channel, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.losses import below, missing, undone
from services.registry.model.stream_commands import (
    RecordDrained,
    RecordEndOffsets,
    RecordRetentionLifted,
    RecordRetentionRestored,
    RecordSealed,
    ReportLoss,
    ReportOverwritten,
    StreamCommand,
)
from services.registry.model.streams import Stream
from services.registry.model.topics import HOUR_MS, KEEP_EVERYTHING, SEALED
from services.registry.peers import Peers, Subscription


@dataclass(frozen=True, slots=True)
class HeldStep:
    """The step cannot be completed yet.

    Attributes:
        holders: Who or what holds it, for people.
        loss: The apparent loss of records, if any.
        proved: The proven loss.
        seconds: When to try again.
    """

    holders: tuple[str, ...]
    loss: ReportLoss | None = None
    proved: ReportOverwritten | None = None
    seconds: float = WORK_RETRY_SECONDS


async def look_for_cuts(
    access: Access, cluster: Cluster, channel: Channel, resumptions: Collection[Resumption]
) -> log_cuts.Finding:
    """Finds what the logs lost while they carried traffic. A deleted topic has lost everything; other steps report
    that."""
    admin = access.admin(cluster)
    if await _held_by_lost_topic(admin, channel):
        return log_cuts.Finding((), (), "")
    return await log_cuts.look(admin, channel, resumptions)


async def lift_retention(access: Access, cluster: Cluster, channel: Channel) -> StreamCommand | HeldStep:
    """Sets the topic to keep everything from now on.

    If a channel on the route had lost its topic and the topic exists again, records that instead.
    """
    admin = access.admin(cluster)
    if held := await _held_by_lost_topic(admin, channel):
        return held
    await admin.alter_topic_config(channel.topic, KEEP_EVERYTHING)
    if channel.state is ChannelState.ACTIVE and channel.lost != channel.overwritten:
        return ReportLoss(channel.ref, (), "its topic is there again")
    return RecordRetentionLifted(channel.ref)


async def await_tail(
    access: Access, peers: Peers, cluster: Cluster, stream: Stream, channel: Channel, now_ms: int
) -> StreamCommand | HeldStep:
    """Decides whether a channel on the route, whose topic kept everything for a while, may use its declared retention
    again.

    It may once retention would delete nothing that a group still has to do: the remaining work is younger than the
    stream's retention, and the strand allowance comes on top.
    """
    admin, partitions = access.admin(cluster), surveys.partitions_of(channel)
    if held := await _held_by_lost_topic(admin, channel):
        return HeldStep(held.holders)  # it carries traffic: others see that its topic is gone
    await _settle_config(admin, channel, KEEP_EVERYTHING)
    groups = await peers.groups(stream.name, channel.ref.lane)
    bases = {group: (await surveys.progress(access, cluster, group, channel)).provable for group in groups}
    starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    young = await admin.offsets_at(dict.fromkeys(partitions, now_ms - stream.spec.retention_hours * HOUR_MS))
    left = {group: surveys.records_left(done, starts, young) for group, done in bases.items()}
    holders = tuple(f"{group} ({count} records past their retention)" for group, count in left.items() if count)
    return HeldStep(holders, seconds=TAIL_LOOK_SECONDS) if holders else RecordRetentionRestored(channel.ref)


async def seal(access: Access, cluster: Cluster, channel: Channel, clock: Clock) -> StreamCommand | HeldStep:
    """Makes the topic refuse every append, and proves it on every partition's leader.

    Leaders learn of a changed configuration one by one; only a refused append proves that one has. A canary that was
    accepted instead is a record that consumers recognise by its value and skip. It must not be written where a lost
    record was, which would hide the loss. So records that receipts show to be missing are reported first. If the log
    was truncated just then all the same, the canary's own offset proves it.
    """
    admin = access.admin(cluster)
    if held := await _held_by_lost_topic(admin, channel):
        return held
    if channel.acknowledged and (short := await _cut_short(admin, channel)):
        return short
    held = await close_log(admin, channel, clock)
    return (held.proved or held) if held else RecordSealed(channel.ref)


async def close_log(admin: KafkaAdmin, channel: Channel, clock: Clock) -> HeldStep | None:
    """Sets the topic to refuse every append; returns the holder of that step, or None once every leader refuses."""
    if await _settle_config(admin, channel, {**KEEP_EVERYTHING, **SEALED}):
        await clock.sleep(SEAL_SETTLE_SECONDS)
    return await _held_open(admin, channel)


async def _held_open(admin: KafkaAdmin, channel: Channel) -> HeldStep | None:
    """The holder of a drain that is not sealed on every partition's leader; asks each by a canary append."""
    partitions = surveys.partitions_of(channel)
    taken: list[int | None] = []
    for start in range(0, len(partitions), WORK_AT_ONCE):
        some = partitions[start : start + WORK_AT_ONCE]
        taken += await asyncio.gather(*(_taken(admin, partition) for partition in some))
    offsets = {number: offset for number, offset in enumerate(taken) if offset is not None}
    if not offsets:
        return None
    return HeldStep(
        (f"partitions {', '.join(map(str, offsets))} still take records",), proved=_hidden(channel, offsets)
    )


def _hidden(channel: Channel, canaries: Mapping[int, int]) -> ReportOverwritten | None:
    """The loss that canaries prove: a canary's offset shows that a record was there before the log was truncated."""
    ends = [max(each) for each in zip(*filter(None, (channel.acknowledged, channel.end_offsets)), strict=True)]
    lost = [OffsetRange(at, offset, offset) for at, offset in canaries.items() if ends and 0 <= offset < ends[at]]
    evidence = "the seal's canary came to lie where a record had been"
    return ReportOverwritten(channel.ref, tuple(lost), evidence) if lost else None


async def _cut_short(admin: KafkaAdmin, channel: Channel) -> HeldStep | None:
    """The holder of a drain whose logs end below producers' receipts, unless all of that loss is recorded."""
    ends = await surveys.read_ends(admin, channel)
    receipts = dict(zip(surveys.partitions_of(channel), channel.acknowledged, strict=True))
    told = surveys.losses({"a producer": receipts}, ends)
    if not told:
        return None
    lost = united((*missing([channel.acknowledged], tuple(ends.values())), *channel.lost))
    if lost == channel.lost:
        return None
    return HeldStep(tuple(told), ReportLoss(channel.ref, lost, "; ".join(told[:LOSS_TOLD_MAX])))


async def _taken(admin: KafkaAdmin, partition: TopicPartition) -> int | None:
    """The offset at which a partition's log accepted a canary; None if it refused it."""
    try:
        return (await admin.try_append(partition, SEAL_CANARY, TRY_APPEND_SECONDS)).offset
    except TopicSealed:
        return None


async def _held_by_lost_topic(admin: KafkaAdmin, channel: Channel) -> HeldStep | None:
    """The holder of a drain whose topic is deleted, or replaced by another of the same name: neither proves
    anything."""
    found = (await admin.describe_topics([channel.topic])).get(channel.topic)
    if found is None:
        return _all_lost(channel, f"topic {channel.topic} is gone: its records are lost?")
    if channel.topic_id and found.topic_id and found.topic_id != channel.topic_id:
        return _all_lost(channel, f"topic {channel.topic} was deleted and made again: the channel's records are lost?")
    return None


def _all_lost(channel: Channel, evidence: str) -> HeldStep:
    return HeldStep((evidence,), ReportLoss(channel.ref, below(channel.known_ends), evidence))


async def _settle_config(admin: KafkaAdmin, channel: Channel, wanted: Mapping[str, str]) -> bool:
    """Configures the topic as a drain requires; returns whether it was different.

    A leader that was stopped midway may have written the configuration of a topic in use over that of a drain.
    """
    config = await admin.topic_config(channel.topic)
    changes = {name: value for name, value in wanted.items() if config.get(name) != value}
    if changes:
        await admin.alter_topic_config(channel.topic, changes)
    return bool(changes)


async def read_end_offsets(access: Access, cluster: Cluster, channel: Channel) -> StreamCommand | HeldStep:
    """Reads each partition's end offset. The topic is sealed, so nothing is appended after; replication may still catch
    up."""
    admin = access.admin(cluster)
    if held := await _held_by_lost_topic(admin, channel):
        return held
    ends = await surveys.read_ends(admin, channel)
    return RecordEndOffsets(channel.ref, tuple(ends.values()))


async def await_groups(
    access: Access, peers: Peers, cluster: Cluster, stream: str, channel: Channel
) -> StreamCommand | HeldStep:
    """Asks who is subscribed, reads from the cluster what each group has done, then where the logs end now.

    A log may have grown since its end was read: an end covers only what all copies have, and a batch appended before
    the seal may have reached them since. Then the new end is recorded, and awaited. A shorter log holds the drain.

    Subscriptions are read again after the reads: a group that registered, or whose idle expiry ended, in between holds
    the drain. A group that registers after the second read is like any later one: it finds a drained channel.

    A reset of a group's progress holds the drain until it is written: the records it makes undone are awaited then. A
    reset recorded between the two reads may have been written after progress was read, so everything is read again.

    Before the drain ends, the seal is proved once more, and the ends are read behind it: a tool that manages topic
    configuration may have removed the seal, and a late writer was acknowledged then. Records that leaders accepted but
    not all copies have are awaited: a producer that was given up but lives may be acknowledged once they do.
    """
    admin = access.admin(cluster)
    if held := await _held_by_lost_topic(admin, channel):
        return held
    await _settle_config(admin, channel, {**KEEP_EVERYTHING, **SEALED})
    before = await peers.subscriptions(stream, channel.ref.lane)
    found = await surveys.take(access, peers, cluster, stream, channel)
    recorded, ends = found.recorded, found.ends
    if any(ends[partition] > recorded[partition] for partition in ends):
        return RecordEndOffsets(channel.ref, tuple(ends.values()))
    lost = found.lost()
    if channel.lost != lost and lost == channel.overwritten:
        return ReportLoss(channel.ref, lost, "the logs have all records again that can come back")
    told = surveys.losses(found.known, ends)
    told += [f"offsets {each} were lost, other records lie there" for each in (channel.overwritten if told else lost)]
    holders = [*told, *found.unfinished()]
    if holders:
        return HeldStep(
            tuple(holders), ReportLoss(channel.ref, lost, "; ".join(told[:LOSS_TOLD_MAX])) if lost else None
        )
    after = await peers.subscriptions(stream, channel.ref.lane)
    if changed := sorted({*found.bases} ^ {*after}):
        return HeldStep(tuple(f"{group} (came or went just now)" for group in changed))
    if resets := _resets(before, after, str(channel.id(stream))):
        return HeldStep(resets)
    held = await _moved_on(admin, channel, ends)
    return (held.proved or held) if held else RecordDrained(channel.ref, tuple(found.bases))


def _resets(before: Mapping[str, Subscription], after: Mapping[str, Subscription], channel: str) -> tuple[str, ...]:
    """Groups whose progress in the channel changed since it was read, or is about to change, for people."""
    held: list[str] = []
    for group, found in sorted(after.items()):
        known = before.get(group, found)
        if channel in (*known.resetting, *found.resetting):
            held.append(f"{group} (its progress is being reset)")
        elif known.resets != found.resets:
            held.append(f"{group} (its progress was reset just now)")
    return tuple(held)


async def _moved_on(admin: KafkaAdmin, channel: Channel, ends: Mapping[TopicPartition, int]) -> HeldStep | None:
    """The holder of a drain whose seal was removed since it was recorded, or was missing while its groups were
    asked."""
    if unsealed := await _held_open(admin, channel):
        return unsealed
    written = await surveys.read_written_ends(admin, channel.topic)
    if late := [each for each, end in written.items() if not 0 <= end <= ends[each]]:
        numbers = ", ".join(str(each.partition) for each in late)
        return HeldStep((f"partitions {numbers}: not all copies have what their leaders took",))
    return HeldStep(("its logs changed just now",)) if await surveys.read_ends(admin, channel) != ends else None


async def given_up(
    access: Access, peers: Peers, cluster: Cluster, stream: str, channel: Channel
) -> OffsetRanges | None:
    """The records that closing the channel now would give up: those lost, and those that groups have not done.

    A partition without a leader answers nothing: it counts as it ended after the seal. Without a full seal it counts
    like a partition of an unreachable cluster. None while the channel has steps left that need nobody's help.
    """
    admin = access.admin(cluster)
    if await _held_by_lost_topic(admin, channel):
        return below(channel.known_ends)
    leaderless = await surveys.leaderless_of(admin, channel)
    if channel.end_offsets is None:
        return below((OPEN,) * channel.partitions) if leaderless else None
    found = await surveys.take(access, peers, cluster, stream, channel, leaderless)
    starts, ends = tuple(found.starts.values()), tuple(found.ends.values())
    left = [undone(tuple(bases.values()), starts, ends) for bases in found.bases.values()]
    return united((*found.lost(), *(each for ranges in left for each in ranges)))
