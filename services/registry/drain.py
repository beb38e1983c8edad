"""The steps of a safe drain in the outside world. One attempt per call; each returns what to record, or who holds it.

Order and completeness are the domain's: a step recorded out of turn is refused there. An error means "not yet".
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from braid.kernel.commit_epochs import newest_epoch
from braid.kernel.errors import TopicSealed
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits import (
    LOSS_TOLD_MAX,
    TAIL_LOOK_SECONDS,
    TRY_APPEND_SECONDS,
    WORK_AT_ONCE,
    WORK_RETRY_SECONDS,
)
from braid.kernel.limits_marks import SEAL_SETTLE_SECONDS
from braid.kernel.offset_ranges import OPEN, Ranges, united
from braid.kernel.ports import Clock, KafkaAdmin, OffsetAt, TopicPartition
from braid.kernel.resumptions import Resumption
from services.registry import cuts
from services.registry.access import Access
from services.registry.channels import Channel, ChannelState
from services.registry.clusters import Cluster
from services.registry.commands import (
    RecordDrained,
    RecordEndOffsets,
    RecordRetentionLifted,
    RecordRetentionRestored,
    RecordSealed,
    ReportLoss,
    StreamCommand,
)
from services.registry.losses import below, missing, undone
from services.registry.peers import Peers, Subscription
from services.registry.streams import Stream
from services.registry.topics import HOUR_MS, KEEP_EVERYTHING, SEALED


@dataclass(frozen=True, slots=True)
class Held:
    """The step is not done.

    Attributes:
        holders: Who or what holds it, for people.
        loss: What seems to be lost, if anything does.
        seconds: When to try again.
    """

    holders: tuple[str, ...]
    loss: ReportLoss | None = None
    seconds: float = WORK_RETRY_SECONDS


def partitions_of(channel: Channel) -> Sequence[TopicPartition]:
    """The channel's partitions on its cluster."""
    return [TopicPartition(channel.topic, number) for number in range(channel.partitions)]


async def look_for_cuts(
    access: Access, cluster: Cluster, channel: Channel, resumptions: Collection[Resumption]
) -> cuts.Finding:
    """What the logs lost while they carried traffic. A topic that is gone has lost everything, which others tell."""
    admin = access.admin(cluster)
    if await _stranger(admin, channel):
        return cuts.Finding((), (), "")
    return await cuts.look(admin, channel, resumptions)


async def lift_retention(access: Access, cluster: Cluster, channel: Channel) -> StreamCommand | Held:
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
) -> StreamCommand | Held:
    """Whether retention may be as declared again for a channel that carries traffic, and kept everything for a while.

    It may once it would take nothing that a group has to do: what is left is younger than the stream's retention, and
    the strand allowance comes on top.
    """
    admin, partitions = access.admin(cluster), partitions_of(channel)
    if stranger := await _stranger(admin, channel):
        return Held(stranger.holders)  # it carries traffic: others see that its topic is gone
    await _settle_config(admin, channel, KEEP_EVERYTHING)
    groups = await peers.groups(stream.name, channel.ref.lane)
    bases = {group: (await _progress(access, cluster, group, channel)).provable for group in groups}
    starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    young = await admin.offsets_at(dict.fromkeys(partitions, now_ms - stream.spec.retention_hours * HOUR_MS))
    left = {group: records_left(done, starts, young) for group, done in bases.items()}
    holders = tuple(f"{group} ({count} records past their retention)" for group, count in left.items() if count)
    return Held(holders, seconds=TAIL_LOOK_SECONDS) if holders else RecordRetentionRestored(channel.ref)


async def seal(access: Access, cluster: Cluster, channel: Channel, clock: Clock) -> StreamCommand | Held:
    """Makes the topic refuse every append, and proves it on every partition's leader.

    Leaders learn of a changed configuration one by one; only a refused append proves that one has. A canary that was
    taken instead is a record consumers know by its value and pass over. It must not come to lie where a lost record
    lay, which would hide the loss: what receipts say to be missing is told first.
    """
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    if channel.acknowledged and channel.lost == channel.overwritten and (short := await _cut_short(admin, channel)):
        return short
    return await close_log(admin, channel, clock) or RecordSealed(channel.ref)


async def close_log(admin: KafkaAdmin, channel: Channel, clock: Clock) -> Held | None:
    """Lets the topic refuse every append from now on; returns what holds that, or None once every leader refuses."""
    if await _settle_config(admin, channel, {**KEEP_EVERYTHING, **SEALED}):
        await clock.sleep(SEAL_SETTLE_SECONDS)
    return await _held_open(admin, channel)


async def _held_open(admin: KafkaAdmin, channel: Channel) -> Held | None:
    """What holds a drain that is not sealed on every partition's leader; each is asked by a canary."""
    partitions = partitions_of(channel)
    refused: list[bool] = []
    for start in range(0, len(partitions), WORK_AT_ONCE):
        some = partitions[start : start + WORK_AT_ONCE]
        refused += await asyncio.gather(*(_refuses(admin, partition) for partition in some))
    open_yet = [str(number) for number, each in enumerate(refused) if not each]
    return Held((f"partitions {', '.join(open_yet)} still take records",)) if open_yet else None


async def _cut_short(admin: KafkaAdmin, channel: Channel) -> Held | None:
    """What holds a drain whose logs end before what producers have receipts for."""
    ends = await _ends(admin, channel)
    receipts = dict(zip(partitions_of(channel), channel.acknowledged, strict=True))
    told = losses({"a producer": receipts}, ends)
    if not told:
        return None
    lost = united((*missing([channel.acknowledged], tuple(ends.values())), *channel.overwritten))
    if lost == channel.lost:  # it was written on, not as far as it went before
        return None
    return Held(tuple(told), ReportLoss(channel.ref, lost, "; ".join(told[:LOSS_TOLD_MAX])))


async def _refuses(admin: KafkaAdmin, partition: TopicPartition) -> bool:
    try:
        await admin.try_append(partition, SEAL_CANARY, TRY_APPEND_SECONDS)
    except TopicSealed:
        return True
    return False


async def _stranger(admin: KafkaAdmin, channel: Channel) -> Held | None:
    """What holds a drain whose topic is gone, or is another one under the same name: nothing is concluded from it."""
    found = (await admin.describe_topics([channel.topic])).get(channel.topic)
    if found is None:
        return _all_lost(channel, f"topic {channel.topic} is gone: its records are lost?")
    if channel.topic_id and found.topic_id and found.topic_id != channel.topic_id:
        return _all_lost(channel, f"topic {channel.topic} was deleted and made again: the channel's records are lost?")
    return None


def _all_lost(channel: Channel, evidence: str) -> Held:
    return Held((evidence,), ReportLoss(channel.ref, below(channel.known_ends), evidence))


async def _settle_config(admin: KafkaAdmin, channel: Channel, wanted: Mapping[str, str]) -> bool:
    """Configures the topic as a drain wants it; whether it was otherwise.

    A leader that was stopped on its way may have written the configuration of a topic in use over that of a drain.
    """
    config = await admin.topic_config(channel.topic)
    changes = {name: value for name, value in wanted.items() if config.get(name) != value}
    if changes:
        await admin.alter_topic_config(channel.topic, changes)
    return bool(changes)


async def read_end_offsets(access: Access, cluster: Cluster, channel: Channel) -> StreamCommand | Held:
    """Where each partition ends. It is sealed, so nothing is appended after; what was still being copied may follow."""
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    ends = await _ends(admin, channel)
    return RecordEndOffsets(channel.ref, tuple(ends.values()))


async def _ends(
    admin: KafkaAdmin, channel: Channel, leaderless: Collection[TopicPartition] = ()
) -> Mapping[TopicPartition, int]:
    """Where each partition that has a leader ends now, in order."""
    partitions = [each for each in partitions_of(channel) if each not in leaderless]
    found = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
    return {partition: found[partition] for partition in partitions}


async def await_groups(
    access: Access, peers: Peers, cluster: Cluster, stream: str, channel: Channel
) -> StreamCommand | Held:
    """Asks who is subscribed, and reads from the cluster itself what each has done, then where the logs end now.

    A log may have grown since its end was read: an end is what all copies have, and a batch appended before the seal
    may have been on its way to them. Then the new end is recorded, and waited for. A shorter log holds the drain.

    The question is asked again after the reads: a group that registered (or whose idle expiry ended) in between holds
    the drain. One that registers after the second answer finds what any later one does: a channel that is drained.

    A reset of a group's progress holds the drain until it is written: what it makes undone is awaited then. One that
    was recorded between the two answers may have been written after progress was read, so all is read again.

    Before it ends the seal is proved once more, and the ends read behind it: whatever keeps topics' configuration may
    have taken it off since, and a late writer was acknowledged then.
    """
    admin = access.admin(cluster)
    if stranger := await _stranger(admin, channel):
        return stranger
    await _settle_config(admin, channel, {**KEEP_EVERYTHING, **SEALED})
    before = await peers.subscriptions(stream, channel.ref.lane)
    survey = await _survey(access, peers, cluster, stream, channel)
    recorded, ends = survey.recorded, survey.ends
    if any(ends[partition] > recorded[partition] for partition in ends):
        return RecordEndOffsets(channel.ref, tuple(ends.values()))
    lost = survey.lost()
    if channel.lost != lost and lost == channel.overwritten:
        return ReportLoss(channel.ref, lost, "the logs have everything again that can come back")
    told = losses(survey.known, ends)
    told += [f"offsets {each} were lost, other records lie there" for each in channel.overwritten]
    holders = [*told, *survey.unfinished()]
    if holders:
        return Held(tuple(holders), ReportLoss(channel.ref, lost, "; ".join(told[:LOSS_TOLD_MAX])) if lost else None)
    after = await peers.subscriptions(stream, channel.ref.lane)
    if changed := sorted({*survey.bases} ^ {*after}):
        return Held(tuple(f"{group} (came or went just now)" for group in changed))
    if resets := _resets(before, after, str(channel.id(stream))):
        return Held(resets)
    return await _moved_on(admin, channel, ends) or RecordDrained(channel.ref, tuple(survey.bases))


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


async def _moved_on(admin: KafkaAdmin, channel: Channel, ends: Mapping[TopicPartition, int]) -> Held | None:
    """What holds a drain whose seal was taken off since it was recorded, or was off while its groups were asked."""
    if unsealed := await _held_open(admin, channel):
        return unsealed
    return Held(("its logs changed just now",)) if await _ends(admin, channel) != ends else None


async def given_up(access: Access, peers: Peers, cluster: Cluster, stream: str, channel: Channel) -> Ranges | None:
    """What closing the channel now would give up: what is lost of it, and what groups have not done of the rest.

    A partition without a leader tells nothing: it counts as it ended after the seal, and without a seal on all of them
    as much as of a cluster that is away. None while the channel has steps to go that need nobody's help.
    """
    admin = access.admin(cluster)
    if await _stranger(admin, channel):
        return below(channel.known_ends)
    leaderless = await _leaderless(admin, channel)
    if channel.end_offsets is None:
        return below((OPEN,) * channel.partitions) if leaderless else None
    survey = await _survey(access, peers, cluster, stream, channel, leaderless)
    starts, ends = tuple(survey.starts.values()), tuple(survey.ends.values())
    left = [undone(tuple(bases.values()), starts, ends) for bases in survey.bases.values()]
    return united((*survey.lost(), *(each for ranges in left for each in ranges)))


@dataclass(frozen=True, slots=True)
class _Survey:
    """What is known of a sealed channel's logs, by partition, in order.

    Attributes:
        bases: By group, up to where each log is done; -1 without progress.
        committed: The same as committed. It is more where the log was cut short and written on since: what a group
            did beyond the cut was lost, and tells how far the log went.
        starts, ends: Where the logs start and end now.
        recorded: Where they ended after the seal.
        receipts: Below which offset producers have receipts; empty when none told any.
        told: What is told as lost already.
        overwritten: What of that never comes back.
    """

    bases: Mapping[str, Mapping[TopicPartition, int]]
    committed: Mapping[str, Mapping[TopicPartition, int]]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    recorded: Mapping[TopicPartition, int]
    receipts: Mapping[TopicPartition, int]
    told: Ranges
    overwritten: Ranges

    @property
    def known(self) -> Mapping[str, Mapping[TopicPartition, int]]:
        """By who knows it, up to which offset each log went."""
        return {"the registry": self.recorded, "a producer": self.receipts, **self.committed}

    def lost(self) -> Ranges:
        """What the logs lack. As long as they lack anything, what was told stays: a canary may lie there since."""
        everywhere = [tuple(offsets.values()) for offsets in self.known.values() if offsets]
        lacking = missing(everywhere, tuple(self.ends.values()))
        return united((*self.told, *lacking)) if lacking else self.overwritten

    def unfinished(self) -> list[str]:
        """Groups with work left, for people."""
        left = {group: records_left(bases, self.starts, self.recorded) for group, bases in self.bases.items()}
        return [f"{group} ({count} records)" for group, count in left.items() if count]


async def _survey(
    access: Access,
    peers: Peers,
    cluster: Cluster,
    stream: str,
    channel: Channel,
    leaderless: Collection[TopicPartition] = (),
) -> _Survey:
    """Reads all there is to know; of leaderless partitions what was known before."""
    admin, partitions = access.admin(cluster), partitions_of(channel)
    groups = await peers.groups(stream, channel.ref.lane)
    found = {group: await _progress(access, cluster, group, channel, leaderless) for group in groups}
    led = [each for each in partitions if each not in leaderless]
    recorded = dict(zip(partitions, channel.end_offsets or (), strict=True))
    receipts = dict(zip(partitions, channel.acknowledged, strict=True)) if channel.acknowledged else {}
    starts = {**dict.fromkeys(partitions, 0), **await admin.offsets_at(dict.fromkeys(led, OffsetAt.EARLIEST))}
    ends = {**recorded, **await _ends(admin, channel, leaderless)}
    return _Survey(
        {group: each.provable for group, each in found.items()},
        {group: each.committed for group, each in found.items()},
        {each: starts[each] for each in partitions},
        ends,
        recorded,
        receipts,
        channel.lost,
        channel.overwritten,
    )


async def _leaderless(admin: KafkaAdmin, channel: Channel) -> Collection[TopicPartition]:
    leaders = (await admin.describe_topics([channel.topic]))[channel.topic].leaders
    return [TopicPartition(channel.topic, number) for number, leader in enumerate(leaders) if leader < 0]


@dataclass(frozen=True, slots=True)
class _Progress:
    """Up to where a group is done with each log, as `committed`, and so far as the log bears that out; -1: nothing."""

    committed: Mapping[TopicPartition, int]
    provable: Mapping[TopicPartition, int]


async def _progress(
    access: Access, cluster: Cluster, group: str, channel: Channel, leaderless: Collection[TopicPartition] = ()
) -> _Progress:
    """Reads a group's progress. It is provable below where leaders later than the commit knows of began to write."""
    partitions = partitions_of(channel)
    found = await access.offsets(cluster).committed(group, partitions)
    epochs = {each: newest_epoch(found[each]) for each in partitions if each not in leaderless}
    known = {each: epoch for each, epoch in epochs.items() if epoch >= 0}
    ends = await access.admin(cluster).epoch_ends(known) if known else {}
    committed = {each: found[each].offset for each in partitions}
    cut = {each: min(committed[each], end) for each, end in ends.items() if end >= 0}
    return _Progress(committed, {**committed, **cut})


def losses(known: Mapping[str, Mapping[TopicPartition, int]], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Logs that end before what somebody knows to have been in them, for people; a drain does not end over them.

    Args:
        known: By who knows it, up to which offset each log went.
        ends: Where they end now.
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
    """How much of the channel a group may still have to do: from the base of each partition to its end.

    The base is the committed offset: everything below it is done. What is done beyond it (the envelope's ranges)
    leaves a gap below, so it does not count. Without progress a partition is done only when it holds nothing.

    Args:
        bases: Committed offset per partition, -1 without progress.
        starts: Where each log starts.
        ends: Where it ended when it was sealed.
    """
    left = 0
    for partition, end in ends.items():
        base = bases.get(partition, -1)
        left += max(0, end - (base if base >= 0 else starts[partition]))
    return left
