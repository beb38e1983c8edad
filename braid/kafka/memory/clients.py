"""Twins of the admin client and the client for committed offsets: each method is one request over the link."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from braid.kafka.memory.link import Link
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import Refused
from braid.kernel.ports import (
    Acl,
    BatchHead,
    BrokerDescription,
    ClusterDescription,
    Committed,
    Fingerprint,
    Generation,
    LogDir,
    OffsetAt,
    QuotaEntity,
    Reassignment,
    Survey,
    TopicDescription,
    TopicPartition,
    Written,
)


class MemoryAdmin:
    """The twin of `KafkaAdmin`, over a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._cluster = link.cluster
        self._describing: dict[tuple[str, ...], asyncio.Task[dict[str, TopicDescription]]] = {}

    async def describe_cluster(self) -> ClusterDescription:
        """See `KafkaAdmin.describe_cluster`."""
        return await self._link.call(self._cluster.describe)

    async def describe_broker(self, broker: int) -> BrokerDescription:
        """See `KafkaAdmin.describe_broker`."""
        return await self._link.call(lambda: self._cluster.describe_broker(broker))

    async def log_dirs(self, broker: int) -> Sequence[LogDir]:
        """See `KafkaAdmin.log_dirs`."""
        return await self._link.call(lambda: self._cluster.log_dirs(broker))

    async def describe_topics(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """See `KafkaAdmin.describe_topics`. One request serves all who ask meanwhile, as on a real cluster."""
        asked = tuple(topics)
        describing = self._describing.get(asked)
        if describing is None:
            request = self._link.call(lambda: self._cluster.describe_topics(asked))
            describing = self._describing[asked] = asyncio.ensure_future(request)
            describing.add_done_callback(partial(self._described, asked))
        return await asyncio.shield(describing)

    def _described(self, asked: tuple[str, ...], describing: "asyncio.Task[dict[str, TopicDescription]]") -> None:
        """Ends to share a request. Its failure is noted even where all who waited for it are gone."""
        del self._describing[asked]
        if not describing.cancelled():
            describing.exception()

    async def survey(self, topics: Sequence[str]) -> Survey:
        """See `KafkaAdmin.survey`."""
        return await self._link.call(lambda: self._cluster.survey(topics))

    async def list_topics(self) -> Sequence[str]:
        """See `KafkaAdmin.list_topics`."""
        return list(await self._link.call(lambda: self._cluster.describe_topics(None)))

    async def create_topic(
        self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """See `KafkaAdmin.create_topic`."""
        await self._controlled(lambda: self._cluster.create_topic(topic, partitions, replication_factor, config))

    async def try_create_topic(
        self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """See `KafkaAdmin.try_create_topic`."""
        await self._controlled(lambda: self._cluster.check_topic(topic, partitions, replication_factor, config))

    async def delete_topic(self, topic: str) -> None:
        """See `KafkaAdmin.delete_topic`."""
        await self._controlled(lambda: self._cluster.delete_topic(topic))

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """See `KafkaAdmin.topic_config`."""
        return await self._link.call(lambda: self._cluster.topic_config(topic))

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """See `KafkaAdmin.topic_configs`."""
        return await self._link.call(lambda: self._cluster.topic_configs(topics, names))

    async def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """See `KafkaAdmin.alter_topic_config`."""
        await self._controlled(lambda: self._cluster.alter_topic_config(topic, changes))

    async def broker_defaults(self) -> Mapping[str, str]:
        """See `KafkaAdmin.broker_defaults`."""
        return await self._link.call(lambda: dict(self._cluster.for_all_brokers))

    async def alter_broker_defaults(self, changes: Mapping[str, str | None]) -> None:
        """See `KafkaAdmin.alter_broker_defaults`."""
        await self._controlled(lambda: self._cluster.alter_broker_defaults(changes))

    async def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """See `KafkaAdmin.reassign`."""
        await self._controlled(lambda: self._cluster.reassign(topic, replicas))

    async def reassignments(self, topic: str, partitions: int) -> Mapping[int, Reassignment]:
        """See `KafkaAdmin.reassignments`."""
        return await self._link.call(lambda: self._cluster.reassignments(topic), controlled=True)

    async def create_acls(self, principal: str, acls: Sequence[Acl]) -> None:
        """See `KafkaAdmin.create_acls`. A twin's cluster has no authorizer."""
        await self._controlled(_refuse_acls)

    async def client_quotas(self, users: Sequence[str]) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """See `KafkaAdmin.client_quotas`."""
        return await self._link.call(lambda: self._cluster.client_quotas.describe(users))

    async def alter_client_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """See `KafkaAdmin.alter_client_quotas`."""
        await self._controlled(lambda: self._cluster.client_quotas.alter(entity, changes))

    async def offsets_at(self, at: Mapping[TopicPartition, OffsetAt | int]) -> Mapping[TopicPartition, int]:
        """See `KafkaAdmin.offsets_at`."""
        return await self._link.call(
            lambda: {partition: self._offset_at(partition, when) for partition, when in at.items()}
        )

    async def try_append(self, partition: TopicPartition, value: bytes, timeout_seconds: float) -> Written:
        """See `KafkaAdmin.try_append`."""
        record = NewRecord(self._link.clock.now_ms(), None, value, ())
        offset = await self._link.call(lambda: self._cluster.append(partition, [record]), timeout_seconds)
        return Written(*partition, offset, record.timestamp_ms)

    async def fingerprint(self, partition: TopicPartition, offset: int) -> Fingerprint | None:
        """See `KafkaAdmin.fingerprint`."""
        return await self._link.call(lambda: self._cluster.fingerprint(partition, offset))

    async def batch_head(self, partition: TopicPartition, offset: int) -> BatchHead | None:
        """See `KafkaAdmin.batch_head`."""
        return await self._link.call(lambda: self._cluster.batch_head(partition, offset))

    async def epoch_ends(self, at: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `KafkaAdmin.epoch_ends`."""
        return await self._link.call(
            lambda: {partition: self._cluster.epoch_end(partition, epoch) for partition, epoch in at.items()}
        )

    async def close(self) -> None:
        """Nothing to free."""

    async def _controlled(self, operation: Callable[[], None]) -> None:
        """Sends the request to the controller, as a broker does."""
        await self._link.call(operation, controlled=True)

    def _offset_at(self, partition: TopicPartition, when: OffsetAt | int) -> int:
        log = self._cluster.led_log(partition)
        if when is OffsetAt.EARLIEST:
            return log.start
        return log.high if when is OffsetAt.LATEST else log.offset_at(int(when))


class MemoryOffsets:
    """The twin of `KafkaOffsets`, over a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._cluster = link.cluster

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        """See `KafkaOffsets.commit`."""
        taken = dict(offsets)
        if taken:
            await self._link.call(lambda: self._cluster.commit(group, taken, generation))

    async def committed(
        self, group: str, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, Committed]:
        """See `KafkaOffsets.committed`."""
        return await self._link.call(lambda: self._cluster.groups.committed(group, partitions))

    async def groups(self) -> Sequence[str]:
        """See `KafkaOffsets.groups`."""
        return await self._link.call(self._cluster.groups.names)

    async def group_state(self, group: str) -> str:
        """See `KafkaOffsets.group_state`."""
        return await self._link.call(lambda: self._cluster.groups.state(group))

    async def delete_group(self, group: str) -> None:
        """See `KafkaOffsets.delete_group`."""
        await self._link.call(lambda: self._cluster.groups.delete(group))

    async def close(self) -> None:
        """Nothing to free."""


class MemoryMembership:
    """The twin of `KafkaMembership`, over a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._cluster = link.cluster

    async def check_vacant(self, group: str) -> None:
        """See `KafkaMembership.check_vacant`."""
        await self._link.call(lambda: self._cluster.groups.check_vacant(group))

    async def reserve(self, group: str) -> str:
        """See `KafkaMembership.reserve`."""
        return await self._link.call(lambda: self._cluster.groups.reserve(group))

    async def join(self, group: str, member_id: str) -> Generation:
        """See `KafkaMembership.join`."""
        return await self._link.call(lambda: self._cluster.groups.join_reserved(group, member_id))

    async def renew(self, group: str, generation: Generation) -> None:
        """See `KafkaMembership.renew`."""
        await self._link.call(lambda: self._cluster.groups.renew(group, generation))

    async def leave(self, group: str, member_id: str) -> None:
        """See `KafkaMembership.leave`."""
        await self._link.call(lambda: self._cluster.groups.leave(group, member_id))

    async def close(self) -> None:
        """Nothing to free."""


def _refuse_acls() -> None:
    raise Refused("the cluster keeps no ACLs: it has no authorizer")
