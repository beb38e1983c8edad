"""Compares clusters with the histories after a restore of the store, before anything is decided about them.

A cluster whose topics were last compared in an earlier store incarnation gets no new traffic and loses no topic. What
it holds beyond the histories is recorded: channels that were written to since the backup drain from now on, seals on
channels that carry traffic are removed, orphans are listed. A cluster that does not answer is compared later.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

from braid.kernel.errors import BraidError
from braid.kernel.ids import ASIDE_GROUP, ChannelId
from braid.kernel.limits.registry.resources import (
    ORPHANS_NAMED_MAX,
    RECONCILE_SECONDS,
    RESTORE_FIRST_SECONDS,
    RESTORE_PEERS_SECONDS,
    TOPICS_COMPARED_AT_ONCE,
)
from braid.kernel.ports import KafkaAdmin, TopicDescription
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS, STREAMS, read_world
from services.registry.kafka.clients import Access
from services.registry.model.belonging import RecordCompared
from services.registry.model.channels import Channel, ChannelRef
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import RepeatDecommission
from services.registry.model.stream_commands import IntendRetirement, RecordFound
from services.registry.model.topics import SEALED, channel_of, topic_config
from services.registry.ownership.deletion import was_written
from services.registry.ownership.mark_log import MarkLogs
from services.registry.peers import Peers
from services.registry.policy.comparison import Comparison, compare


class Restoration:
    """Compares clusters with the histories for one term."""

    def __init__(self, replica: Replica, access: Access, marks: MarkLogs, peers: Peers) -> None:
        self._replica = replica
        self._access = access
        self._marks = marks
        self._peers = peers

    async def first(self) -> None:
        """Compares all clusters that answer, for a bounded time, before the term's first decisions."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RESTORE_FIRST_SECONDS):
                await self.compare_pending()

    async def run(self) -> None:
        """Compares clusters as soon as they answer, until cancelled."""
        await self._replica.host.clock.sleep(RESTORE_FIRST_SECONDS)
        while True:
            await self.compare_pending()
            await self._replica.host.clock.sleep(RECONCILE_SECONDS)

    async def compare_pending(self) -> None:
        """Tries once to compare every cluster that is due."""
        world = read_world(self._replica.aggregates, self._replica.host.clock.now_ms())
        pending = [each for each in world.clusters.values() if each.exists and each.belonging.uncompared]
        await asyncio.gather(*(self.attempt(each) for each in pending))

    async def attempt(self, cluster: Cluster, *, taken_over: bool = False) -> None:
        """Compares one cluster like `compare`, but logs a failure. After a restore the comparison is repeated."""
        try:
            await self.compare(cluster, taken_over=taken_over)
        except BraidError as error:
            self._replica.log.warning("not compared with the histories yet", cluster=cluster.name, error=str(error))

    async def compare(self, cluster: Cluster, *, taken_over: bool = False) -> None:
        """Compares one cluster and records the findings.

        Channels of a mesh that the cluster was taken over from are orphans, whatever their names.

        Raises:
            BraidError: the cluster does not answer, or is another mesh's; findings recorded so far stay recorded.
        """
        admin, prefix = self._access.admin(cluster), cluster.spec.topic_prefix
        await self._access.described(cluster)
        await self._marks.require_ours(admin, self._access.reader(cluster.spec), cluster.name, prefix)
        await self._reopen_decommission(cluster)
        topics = await admin.list_topics()
        strange = frozenset(topics) if taken_over else frozenset(cluster.belonging.orphan_topics)
        comparison = compare(self._replica.aggregates.states(STREAMS), cluster.name, prefix, topics, strange)
        described = await _describe(admin, [*comparison.spares, *comparison.later])
        await self._give_up(comparison.gone)
        await self._record_spares(cluster, comparison, described)
        await self._record_later(cluster, comparison.later, described)
        await self._unseal(admin, comparison)
        groups = await self._orphan_groups(cluster, prefix)
        await self._record(cluster, comparison.orphans, groups)

    async def _record_spares(
        self, cluster: Cluster, comparison: Comparison, described: Mapping[str, TopicDescription]
    ) -> None:
        for topic, (stream, channel) in comparison.spares.items():
            found = described.get(topic)
            strange = found is None or (channel.topic_id and found.topic_id != channel.topic_id)
            if found is None or strange or not await was_written(self._access, cluster, topic, found.partitions):
                continue
            await self._found(cluster, ChannelId(stream, *channel.ref), found)

    async def _give_up(self, spares: Sequence[tuple[str, Channel]]) -> None:
        """Retires spares whose topics were deleted after the backup: the next ones get their own topics."""
        for stream, channel in spares:
            await self._replica.aggregates.execute(
                STREAMS,
                stream,
                IntendRetirement(channel.ref),
                actor=self._replica.instance,
                cause="store restored: its topic is gone",
            )

    async def _reopen_decommission(self, cluster: Cluster) -> None:
        """Reopens the decommission of a cluster that was empty at the time of the backup: channels may have been
        planned there since."""
        if cluster.emptied:
            await self._replica.aggregates.execute(
                CLUSTERS, cluster.name, RepeatDecommission(), actor=self._replica.instance, cause="store restored"
            )

    async def _record_later(
        self, cluster: Cluster, later: Mapping[str, ChannelId], described: Mapping[str, TopicDescription]
    ) -> None:
        for topic, named in later.items():
            if topic in described:
                await self._found(cluster, named, described[topic])

    async def _found(self, cluster: Cluster, named: ChannelId, topic: TopicDescription) -> None:
        ref = ChannelRef(named.lane, named.generation)
        command = RecordFound(ref, cluster.name, topic.name, topic.partitions, topic.topic_id, cluster.kafka_cluster_id)
        outcome = await self._replica.aggregates.execute(
            STREAMS, named.stream, command, actor=self._replica.instance, cause="store restored"
        )
        if outcome.events:
            self._replica.log.warning("a channel was written to after the backup", channel=str(named))

    async def _unseal(self, admin: KafkaAdmin, comparison: Comparison) -> None:
        """Unseals a channel that carries traffic according to the histories: it was sealed after the backup."""
        channels = {**comparison.carrying, **comparison.spares}
        names = list(SEALED)
        for topic, config in (await admin.topic_configs(list(channels), names) if channels else {}).items():
            if all(config.get(name) == value for name, value in SEALED.items()):
                await self._take_seal_off(admin, *channels[topic])

    async def _take_seal_off(self, admin: KafkaAdmin, stream: str, channel: Channel) -> None:
        spec = self._replica.aggregates.state(STREAMS, stream).spec
        if self._replica.aggregates.state(STREAMS, stream).channel(channel.ref).state is not channel.state:
            return  # it was found, and drains
        declared = topic_config(spec.retention_hours, spec.max_record_bytes, spec.replication_factor, {})
        await admin.alter_topic_config(channel.topic, {name: declared[name] for name in SEALED})

    async def _orphan_groups(self, cluster: Cluster, prefix: str) -> Sequence[str]:
        """Groups with progress in channels' topics that the assigner does not know.

        If the assigner does not answer for a while, the comparison goes on without it: a group that registers again
        keeps its progress.
        """
        offsets = self._access.offsets(cluster)
        try:
            async with asyncio.timeout(RESTORE_PEERS_SECONDS):
                known = await self._known_groups()
        except TimeoutError:
            self._replica.log.warning("groups are not compared: no assigner answers", cluster=cluster.name)
            return ()
        unknown = [each for each in await offsets.groups() if each not in known and not each.startswith(ASIDE_GROUP)]
        committed = {group: await offsets.committed(group, None) for group in unknown}
        return [group for group, found in committed.items() if any(channel_of(prefix, each.topic) for each in found)]

    async def _known_groups(self) -> Collection[str]:
        while True:
            try:
                return await self._peers.every_group()
            except BraidError:
                await self._replica.host.clock.sleep(RECONCILE_SECONDS)

    async def _record(self, cluster: Cluster, topics: Sequence[str], groups: Sequence[str]) -> None:
        command = RecordCompared(
            self._replica.aggregates.incarnation,
            tuple(topics[:ORPHANS_NAMED_MAX]),
            tuple(groups[:ORPHANS_NAMED_MAX]),
            len(topics) + len(groups),
        )
        await self._replica.aggregates.execute(
            CLUSTERS, cluster.name, command, actor=self._replica.instance, cause="compared with the histories"
        )
        if topics or groups:
            self._replica.log.warning("orphans", cluster=cluster.name, topics=list(topics), groups=list(groups))


async def _describe(admin: KafkaAdmin, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
    found: dict[str, TopicDescription] = {}
    for start in range(0, len(topics), TOPICS_COMPARED_AT_ONCE):
        found |= await admin.describe_topics(topics[start : start + TOPICS_COMPARED_AT_ONCE])
    return found
