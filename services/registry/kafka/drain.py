"""The steps of a safe drain in the outside world. One attempt per call; each returns what to record, or who holds it.

Order and completeness are the domain's: a step recorded out of turn is refused there. An error means "not yet".
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from braid.kernel.errors import TopicSealed
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.kafka import TRY_APPEND_SECONDS
from braid.kernel.limits.registry import (
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
from services.registry.model.clusters import Cluster
from services.registry.model.losses import below, missing, undone
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
    """The step is not done.

    Attributes:
        holders: Who or what holds it, for people.
        loss: What seems to be lost, if anything does.
        proved: What is lost for certain.
        seconds: When to try again.
    """

    holders: tuple[str, ...]
    loss: ReportLoss | None = None
    proved: ReportOverwritten | None = None
    seconds: float = WORK_RETRY_SECONDS


async def look_for_cuts(
    access: Access, cluster: Cluster, channel: Channel, resumptions: Collection[Resumption]
) -> log_cuts.Finding:
    """What the logs lost while they carried traffic. A topic that is gone has lost everything, which others tell."""
    admin = access.admin(cluster)
    if await _stranger(admin, channel):
        return log_cuts.Finding((), (), "")
    return await log_cuts.look(admin, channel, resumptions)


async def lift_retention(access: Access, cluster: Cluster, channel: Channel) -> StreamCommand | HeldStep:
    """From now on the topic keeps everything.

    A channel whose topic could not be found, and which carries traffic still, has it again.
    """
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    await admin.alter_topic_config(channel.topic, KEEP_EVERYTHING)
    if channel.state is ChannelState.ACTIVE and channel.lost != channel.overwritten:
        return ReportLoss(channel.ref, (), "its topic is there again")
    return RecordRetentionLifted(channel.ref)


async def await_tail(
    access: Access, peers: Peers, cluster: Cluster, stream: Stream, channel: Channel, now_ms: int
) -> StreamCommand | HeldStep:
    """Whether retention may be as declared again for a channel that carries traffic, and kept everything for a while.

    It may once it would take nothing that a group has to do: what is left is younger than the stream's retention, and
    the strand allowance comes on top.
    """
    admin, partitions = access.admin(cluster), surveys.partitions_of(channel)
    if stranger := await _stranger(admin, channel):
        return HeldStep(stranger.holders)  # it carries traffic: others see that its topic is gone
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
    taken instead is a record consumers know by its value and pass over. It must not come to lie where a lost record
    lay, which would hide the loss: what receipts say to be missing is told first. Where the log was cut just then all
    the same, the canary's own offset proves it.
    """
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    if channel.acknowledged and (short := await _cut_short(admin, channel)):
        return short
    held = await close_log(admin, channel, clock)
    return (held.proved or held) if held else RecordSealed(channel.ref)


async def close_log(admin: KafkaAdmin, channel: Channel, clock: Clock) -> HeldStep | None:
    """Lets the topic refuse every append from now on; returns what holds that, or None once every leader refuses."""
    if await _settle_config(admin, channel, {**KEEP_EVERYTHING, **SEALED}):
        await clock.sleep(SEAL_SETTLE_SECONDS)
    return await _held_open(admin, channel)


async def _held_open(admin: KafkaAdmin, channel: Channel) -> HeldStep | None:
    """What holds a drain that is not sealed on every partition's leader; each is asked by a canary."""
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
    """The loss that canaries prove, by the offset of each partition's: a record lay there before the log was cut."""
    ends = [max(each) for each in zip(*filter(None, (channel.acknowledged, channel.end_offsets)), strict=True)]
    lost = [OffsetRange(at, offset, offset) for at, offset in canaries.items() if ends and 0 <= offset < ends[at]]
    evidence = "the seal's canary came to lie where a record had been"
    return ReportOverwritten(channel.ref, tuple(lost), evidence) if lost else None


async def _cut_short(admin: KafkaAdmin, channel: Channel) -> HeldStep | None:
    """What holds a drain whose logs end before what producers have receipts for, unless all of that is told."""
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
    """Where a partition's log took a canary; None if it refused it."""
    try:
        return (await admin.try_append(partition, SEAL_CANARY, TRY_APPEND_SECONDS)).offset
    except TopicSealed:
        return None


async def _stranger(admin: KafkaAdmin, channel: Channel) -> HeldStep | None:
    """What holds a drain whose topic is gone, or is another one under the same name: nothing is concluded from it."""
    found = (await admin.describe_topics([channel.topic])).get(channel.topic)
    if found is None:
        return _all_lost(channel, f"topic {channel.topic} is gone: its records are lost?")
    if channel.topic_id and found.topic_id and found.topic_id != channel.topic_id:
        return _all_lost(channel, f"topic {channel.topic} was deleted and made again: the channel's records are lost?")
    return None


def _all_lost(channel: Channel, evidence: str) -> HeldStep:
    return HeldStep((evidence,), ReportLoss(channel.ref, below(channel.known_ends), evidence))


async def _settle_config(admin: KafkaAdmin, channel: Channel, wanted: Mapping[str, str]) -> bool:
    """Configures the topic as a drain wants it; whether it was otherwise.

    A leader that was stopped on its way may have written the configuration of a topic in use over that of a drain.
    """
    config = await admin.topic_config(channel.topic)
    changes = {name: value for name, value in wanted.items() if config.get(name) != value}
    if changes:
        await admin.alter_topic_config(channel.topic, changes)
    return bool(changes)


async def read_end_offsets(access: Access, cluster: Cluster, channel: Channel) -> StreamCommand | HeldStep:
    """Where each partition ends. It is sealed, so nothing is appended after; what was still being copied may follow."""
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    ends = await surveys.read_ends(admin, channel)
    return RecordEndOffsets(channel.ref, tuple(ends.values()))


async def await_groups(
    access: Access, peers: Peers, cluster: Cluster, stream: str, channel: Channel
) -> StreamCommand | HeldStep:
    """Asks who is subscribed, and reads from the cluster itself what each has done, then where the logs end now.

    A log may have grown since its end was read: an end is what all copies have, and a batch appended before the seal
    may have been on its way to them. Then the new end is recorded, and waited for. A shorter log holds the drain.

    The question is asked again after the reads: a group that registered (or whose idle expiry ended) in between holds
    the drain. One that registers after the second answer finds what any later one does: a channel that is drained.

    A reset of a group's progress holds the drain until it is written: what it makes undone is awaited then. One that
    was recorded between the two answers may have been written after progress was read, so all is read again.

    Before it ends the seal is proved once more, and the ends read behind it: whatever keeps topics' configuration may
    have taken it off since, and a late writer was acknowledged then. What leaders took and not all copies have yet is
    waited for: a producer that was given up, and lives, may hear of its acknowledgement once they do.
    """
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    await _settle_config(admin, channel, {**KEEP_EVERYTHING, **SEALED})
    before = await peers.subscriptions(stream, channel.ref.lane)
    found = await surveys.take(access, peers, cluster, stream, channel)
    recorded, ends = found.recorded, found.ends
    if any(ends[partition] > recorded[partition] for partition in ends):
        return RecordEndOffsets(channel.ref, tuple(ends.values()))
    lost = found.lost()
    if channel.lost != lost and lost == channel.overwritten:
        return ReportLoss(channel.ref, lost, "the logs have everything again that can come back")
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
    """Groups whose progress in the channel is not what it was read to be, or will not stay so, for people."""
    held: list[str] = []
    for group, found in sorted(after.items()):
        known = before.get(group, found)
        if channel in (*known.resetting, *found.resetting):
            held.append(f"{group} (its progress is being reset)")
        elif known.resets != found.resets:
            held.append(f"{group} (its progress was reset just now)")
    return tuple(held)


async def _moved_on(admin: KafkaAdmin, channel: Channel, ends: Mapping[TopicPartition, int]) -> HeldStep | None:
    """What holds a drain whose seal was taken off since it was recorded, or was off while its groups were asked."""
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
    """What closing the channel now would give up: what is lost of it, and what groups have not done of the rest.

    A partition without a leader tells nothing: it counts as it ended after the seal, and without a seal on all of them
    as much as of a cluster that is away. None while the channel has steps to go that need nobody's help.
    """
    admin = access.admin(cluster)
    if await _stranger(admin, channel):
        return below(channel.known_ends)
    leaderless = await surveys.leaderless_of(admin, channel)
    if channel.end_offsets is None:
        return below((OPEN,) * channel.partitions) if leaderless else None
    found = await surveys.take(access, peers, cluster, stream, channel, leaderless)
    starts, ends = tuple(found.starts.values()), tuple(found.ends.values())
    left = [undone(tuple(bases.values()), starts, ends) for bases in found.bases.values()]
    return united((*found.lost(), *(each for ranges in left for each in ranges)))
