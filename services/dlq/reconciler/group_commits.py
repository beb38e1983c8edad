"""Reads groups' commits for partitions that letters were sent to, and facts about the logs. No rules."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.errors import BraidError
from braid.kernel.limits.dlq import DLQ_PROOF_CALL_SECONDS
from braid.kernel.ports import KafkaAdmin, KafkaOffsets, OffsetAt, TopicPartition
from services.dlq.domain.handled import CommittedProgress, LogFacts
from services.dlq.model.channels import ChannelView, DlqChannel
from services.dlq.model.events import Position
from services.dlq.model.sent_letters import SentTarget
from services.dlq.peers import ChannelFollower
from services.dlq.reconciler.cluster_clients import ClusterClients


class TargetFacts(NamedTuple):
    """A cluster's answer about one target: the group's commit and the log."""

    progress: CommittedProgress
    log: LogFacts


class GroupCommits:
    """Asks all clusters that hold sent letters, in parallel."""

    def __init__(self, clients: ClusterClients, follower: ChannelFollower) -> None:
        self._clients = clients
        self._follower = follower

    async def read(self, targets: Collection[SentTarget]) -> Mapping[SentTarget, TargetFacts]:
        """Facts about the targets. Targets are left out if their cluster does not answer or they do not exist."""
        by_cluster: dict[str, list[SentTarget]] = {}
        for target in targets:
            by_cluster.setdefault(target.cluster, []).append(target)
        found = await asyncio.gather(*(self._read_cluster(*each) for each in by_cluster.items()))
        return {target: facts for each in found for target, facts in each.items()}

    async def ends(self, stream: str) -> Sequence[Position] | None:
        """End offsets of a stream's dlq channels; None if a cluster does not answer."""
        view = self._follower.view or ChannelView()
        channels = [each for each in view.readable() if each.stream == stream]
        found = await asyncio.gather(*(self._ends_of(view, each) for each in channels))
        if any(each is None for each in found):
            return None
        return [position for each in found for position in each or ()]

    async def _ends_of(self, view: ChannelView, channel: DlqChannel) -> Sequence[Position] | None:
        place = view.clusters.get(channel.cluster)
        if place is None:
            return None
        partitions = [TopicPartition(channel.topic, number) for number in range(channel.partitions)]
        try:
            async with asyncio.timeout(DLQ_PROOF_CALL_SECONDS):
                ends = await self._clients.client(place).admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
        except (BraidError, TimeoutError):
            return None
        return [Position(channel.generation, each.partition, ends[each]) for each in partitions]

    async def _read_cluster(self, cluster: str, targets: Sequence[SentTarget]) -> Mapping[SentTarget, TargetFacts]:
        place = self._follower.view.clusters.get(cluster) if self._follower.view else None
        if place is None:
            return {}
        client = self._clients.client(place)
        try:
            async with asyncio.timeout(DLQ_PROOF_CALL_SECONDS):
                # Commits first: what a log says afterwards holds for what they claim.
                progress = await _progress(client.offsets, targets)
                logs = await _logs(client.admin, targets)
        except (BraidError, TimeoutError):  # a cluster or a group that cannot be read proves nothing
            return {}
        return {each: TargetFacts(progress[each], logs[each]) for each in targets if each in logs}


async def _progress(offsets: KafkaOffsets, targets: Sequence[SentTarget]) -> Mapping[SentTarget, CommittedProgress]:
    by_group: dict[str, dict[TopicPartition, list[SentTarget]]] = {}
    for target in targets:
        by_group.setdefault(target.group, {}).setdefault(_partition(target), []).append(target)
    found: dict[SentTarget, CommittedProgress] = {}
    for group, partitions in by_group.items():
        for partition, committed in (await offsets.committed(group, list(partitions))).items():
            found |= dict.fromkeys(partitions[partition], CommittedProgress.of(committed))
    return found


async def _logs(admin: KafkaAdmin, targets: Sequence[SentTarget]) -> Mapping[SentTarget, LogFacts]:
    topics = await admin.describe_topics(sorted({target.topic for target in targets}))
    there = [each for each in targets if each.topic in topics and each.partition < topics[each.topic].partitions]
    starts = await admin.offsets_at({_partition(each): OffsetAt.EARLIEST for each in there}) if there else {}
    ends: dict[tuple[TopicPartition, int], int] = {}
    left = {(_partition(each), each.leader_epoch) for each in there}
    while left:  # one epoch of each partition a request; mostly there is no more
        asked = dict(sorted(left))
        ends |= {(at, asked[at]): end for at, end in (await admin.epoch_ends(asked)).items()}
        left -= set(asked.items())
    return {
        each: LogFacts(
            topics[each.topic].topic_id, starts[_partition(each)], ends.get((_partition(each), each.leader_epoch), -1)
        )
        for each in there
    }


def _partition(target: SentTarget) -> TopicPartition:
    return TopicPartition(target.topic, target.partition)
