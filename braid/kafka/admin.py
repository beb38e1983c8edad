"""Topics, configuration and logs of a real cluster. Every call ends within its bound; asking never creates a topic."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest

from braid.kafka.batches.batch import HEAD
from braid.kafka.batches.single import batch_of_one, head_of
from braid.kafka.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    LEADER_RETRY,
    MESSAGE_TOO_LARGE,
    OFFSET_OUT_OF_RANGE,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_TOPIC,
    check,
    raise_error,
)
from braid.kafka.permissions import Need
from braid.kafka.protocol.acls import SECURITY_DISABLED, create_acl_request
from braid.kafka.protocol.admin_schemas import (
    DescribeLogDirsRequest,
    FeaturesRequest,
    finalized_features,
    supported_features,
)
from braid.kafka.protocol.client_quotas import change_quotas, read_quotas
from braid.kafka.protocol.descriptions import described
from braid.kafka.protocol.epochs import EpochEndsRequest, by_topic
from braid.kafka.protocol.reassignments import (
    reassign_request,
    reassignments_request,
    refusals_of,
    told_reassignments,
)
from braid.kafka.protocol.schemas import RESOURCE_BROKER, RESOURCE_TOPIC, AlterConfigRequest
from braid.kafka.protocol.topic_lookup import TopicLookup, leader_of
from braid.kafka.protocol.wire import ANY_BROKER, ClusterMetadata, Wire, bounded
from braid.kernel.errors import ClusterUnavailable, RecordTooLarge, Refused, TopicSealed
from braid.kernel.limits.kafka import KAFKA_ANSWER_BACKOFF_SECONDS, KAFKA_CALL_SECONDS
from braid.kernel.ports import (
    Acl,
    BatchHead,
    BrokerDescription,
    ClusterDescription,
    Fingerprint,
    LogDir,
    OffsetAt,
    QuotaEntity,
    Reassignment,
    Survey,
    TopicDescription,
    TopicPartition,
    Written,
)

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_ACKS_ALL: Final = -1
_ALL_BROKERS: Final = ""  # as a resource: what holds where a broker has no setting of its own
_AUTHORIZER: Final = "set authorizer.class.name on its brokers and controllers"
_CONSUMER: Final = -1
_READ_UNCOMMITTED: Final = 0


class AioAdmin:
    """`KafkaAdmin` for a real cluster, over requests to its brokers and leaders."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._topics = TopicLookup(wire)

    async def describe_cluster(self) -> ClusterDescription:
        """See `KafkaAdmin.describe_cluster`."""
        async with bounded(KAFKA_CALL_SECONDS, "describing a cluster"):
            found = await self._wire.metadata([])
            if not found.brokers:
                raise ClusterUnavailable("the cluster has no broker that serves")
            config = await self._config(RESOURCE_BROKER, str(min(found.brokers)), min(found.brokers))
        brokers = {node: f"{host}:{port}" for node, (host, port) in sorted(found.brokers.items())}
        return ClusterDescription.configured(found.cluster_id, found.controller, brokers, config)

    async def describe_broker(self, broker: int) -> BrokerDescription:
        """See `KafkaAdmin.describe_broker`."""
        async with bounded(KAFKA_CALL_SECONDS, f"describing broker {broker}"):
            config = await self._config(RESOURCE_BROKER, str(broker), broker)
            try:
                told = await self._wire.ask(broker, FeaturesRequest())
            except NotImplementedError:  # older than features
                return BrokerDescription(config)
        requests = {key: (oldest, newest) for key, oldest, newest, *_ in told.api_versions}
        return BrokerDescription(config, finalized_features(told.tags), supported_features(told.tags), requests)

    async def log_dirs(self, broker: int) -> Sequence[LogDir]:
        """See `KafkaAdmin.log_dirs`."""
        async with bounded(KAFKA_CALL_SECONDS, f"reading the disks of broker {broker}"):
            try:
                told = await self._wire.ask(broker, DescribeLogDirsRequest())
            except NotImplementedError as error:
                raise Refused("brokers older than Kafka 3.3 do not report free disk space") from error
        if told.error_code == CLUSTER_AUTHORIZATION_FAILED:
            raise Refused(
                f"broker {broker} does not report its disks to this client",
                remedy="allow its principal to describe the cluster",
            )
        check(told.error_code, f"the disks of broker {broker}", need=Need("Describe"))
        return [LogDir(each.total_bytes, each.usable_bytes, each.sizes) for each in told.dirs if not each.error_code]

    async def describe_topics(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """See `KafkaAdmin.describe_topics`."""
        async with bounded(KAFKA_CALL_SECONDS, "describing topics"):
            return await self._topics.describe(topics)

    async def survey(self, topics: Sequence[str]) -> Survey:
        """See `KafkaAdmin.survey`."""
        async with bounded(KAFKA_CALL_SECONDS, "surveying the cluster"):
            found = await self._topics.tell(topics)
        return Survey(found.controller, sorted(found.brokers), described(found), found.racks)

    async def list_topics(self) -> Sequence[str]:
        """See `KafkaAdmin.list_topics`."""
        async with bounded(KAFKA_CALL_SECONDS, "listing topics"):
            found = await self._wire.metadata(None)
        return sorted(name for name, told in found.topics.items() if told.error_code == 0)

    async def create_topic(
        self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """See `KafkaAdmin.create_topic`. Returns once every partition has a leader."""
        async with bounded(KAFKA_CALL_SECONDS, f"creating topic {topic}"):
            await self._ask_for_topic((topic, partitions, replication_factor, [], sorted(config.items())))
            self._topics.forget()
            while True:
                told = (await self._wire.metadata([topic])).topics[topic]
                if sum(leader >= 0 for leader in told.leaders.values()) == partitions:
                    return
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)

    async def try_create_topic(
        self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """See `KafkaAdmin.try_create_topic`."""
        async with bounded(KAFKA_CALL_SECONDS, f"asking for topic {topic}"):
            spec: tuple[object, ...] = (topic, partitions, replication_factor, [], sorted(config.items()))
            await self._ask_for_topic(spec, validate_only=True)

    async def delete_topic(self, topic: str) -> None:
        """See `KafkaAdmin.delete_topic`. Returns once it is gone from metadata."""
        async with bounded(KAFKA_CALL_SECONDS, f"deleting topic {topic}"):
            request = DeleteTopicsRequest([topic], int(KAFKA_CALL_SECONDS * 1_000))
            for _, code in (await self._wire.ask(ANY_BROKER, request)).topic_error_codes:
                if code != UNKNOWN_TOPIC:
                    check(code, f"topic {topic}", need=Need("Delete", topic))
            self._topics.forget()
            while True:
                if (await self._wire.metadata([topic])).topics[topic].error_code == UNKNOWN_TOPIC:
                    return
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """See `KafkaAdmin.topic_config`."""
        async with bounded(KAFKA_CALL_SECONDS, f"reading the configuration of topic {topic}"):
            return await self._config(RESOURCE_TOPIC, topic, ANY_BROKER)

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """See `KafkaAdmin.topic_configs`."""
        request = DescribeConfigsRequest([(RESOURCE_TOPIC, topic, list(names)) for topic in topics])
        async with bounded(KAFKA_CALL_SECONDS, "reading the configuration of topics"):
            answer = await self._wire.ask_any(request)
        found: dict[str, Mapping[str, str]] = {}
        for code, message, _, topic, entries in answer.resources:
            if code != UNKNOWN_TOPIC:
                check(code, f"topic {topic}", message, need=Need("DescribeConfigs", topic))
                found[topic] = {key: value for key, value, *_ in entries if value is not None}
        return found

    async def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """See `KafkaAdmin.alter_topic_config`."""
        await self._alter_config(RESOURCE_TOPIC, topic, changes, f"topic {topic}")

    async def broker_defaults(self) -> Mapping[str, str]:
        """See `KafkaAdmin.broker_defaults`."""
        async with bounded(KAFKA_CALL_SECONDS, "reading settings of all brokers"):
            return await self._config(RESOURCE_BROKER, _ALL_BROKERS, ANY_BROKER)

    async def alter_broker_defaults(self, changes: Mapping[str, str | None]) -> None:
        """See `KafkaAdmin.alter_broker_defaults`."""
        await self._alter_config(RESOURCE_BROKER, _ALL_BROKERS, changes, "all brokers")

    async def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """See `KafkaAdmin.reassign`."""
        async with bounded(KAFKA_CALL_SECONDS, f"reassigning topic {topic}"):
            answer = await self._wire.ask(ANY_BROKER, reassign_request(topic, replicas, KAFKA_CALL_SECONDS))
        self._topics.forget()
        check(answer.error_code, f"reassigning topic {topic}", answer.error_message, need=Need("Alter"))
        for number, code, message in refusals_of(answer.responses):
            check(code, f"{topic} partition {number}", message)

    async def reassignments(self, topic: str, partitions: int) -> Mapping[int, Reassignment]:
        """See `KafkaAdmin.reassignments`."""
        async with bounded(KAFKA_CALL_SECONDS, f"listing reassignments of topic {topic}"):
            answer = await self._wire.ask(ANY_BROKER, reassignments_request(topic, partitions, KAFKA_CALL_SECONDS))
        check(answer.error_code, f"reassignments of topic {topic}", answer.error_message, need=Need("Describe"))
        return told_reassignments(answer.topics)

    async def create_acls(self, principal: str, acls: Sequence[Acl]) -> None:
        """See `KafkaAdmin.create_acls`."""
        async with bounded(KAFKA_CALL_SECONDS, f"giving permissions to {principal}"):
            for acl in acls:
                answer = await self._wire.ask(ANY_BROKER, create_acl_request(principal, acl))
                for code, message in answer.creation_responses:
                    if code == SECURITY_DISABLED:
                        raise Refused("the cluster keeps no ACLs: it has no authorizer", remedy=_AUTHORIZER)
                    check(code, f"an ACL of {principal}", message, need=Need("Alter"))

    async def client_quotas(self, users: Sequence[str]) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """See `KafkaAdmin.client_quotas`."""
        return await read_quotas(self._wire, users)

    async def alter_client_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """See `KafkaAdmin.alter_client_quotas`."""
        await change_quotas(self._wire, entity, changes)

    async def offsets_at(self, at: Mapping[TopicPartition, OffsetAt | int]) -> Mapping[TopicPartition, int]:
        """See `KafkaAdmin.offsets_at`."""
        asked = {partition: when.value if isinstance(when, OffsetAt) else when for partition, when in at.items()}
        timed = [partition for partition, when in asked.items() if when >= 0]
        async with bounded(KAFKA_CALL_SECONDS, "listing offsets"):
            # Ends first: a record that arrives in between must not be jumped over.
            ends = await self._list_offsets(dict.fromkeys(timed, OffsetAt.LATEST.value))
            found = await self._list_offsets(asked)
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    async def try_append(self, partition: TopicPartition, value: bytes, timeout_seconds: float) -> Written:
        """See `KafkaAdmin.try_append`. Never sends twice what a broker may have taken.

        Raises:
            RecordTooLarge: the value, not the topic, is at fault.
        """
        now_ms = time.time_ns() // 1_000_000
        batch = batch_of_one(value, now_ms)
        topics = [(partition.topic, [(partition.partition, batch)])]
        request = ProduceRequest(None, _ACKS_ALL, int(timeout_seconds * 1_000), topics)
        subject = f"{partition.topic} partition {partition.partition}"
        async with bounded(timeout_seconds, f"appending to {subject}"):
            while True:
                leader, _ = await self._topics.led(partition)
                (((_, ((_, code, offset, timestamp_ms, *_),)),)) = (await self._wire.ask(leader, request)).topics
                if code == 0:
                    written_ms = timestamp_ms if timestamp_ms >= 0 else now_ms
                    return Written(partition.topic, partition.partition, offset, written_ms)
                if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
                    await self._raise_too_large(partition.topic, len(batch))
                if code not in LEADER_RETRY:
                    raise_error(code, subject, need=Need("Write", partition.topic))
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)

    async def fingerprint(self, partition: TopicPartition, offset: int) -> Fingerprint | None:
        """See `KafkaAdmin.fingerprint`."""
        if offset <= 0:
            return None
        data, found = await self._read(partition, offset - 1)
        if (head := head_of(data, offset - 1)) is None:
            return None
        return Fingerprint(found.topics[partition.topic].topic_id, head.leader_epoch, HEAD.unpack_from(data)[4])

    async def batch_head(self, partition: TopicPartition, offset: int) -> BatchHead | None:
        """See `KafkaAdmin.batch_head`."""
        data, _ = await self._read(partition, offset)
        return head_of(data, offset)

    async def _read(self, partition: TopicPartition, offset: int) -> tuple[bytes, ClusterMetadata]:
        """Returns the batch at an offset or the one after it, and its metadata; nothing outside the log."""
        # A broker sends at least one whole batch, however little is asked for.
        topics = [(partition.topic, [(partition.partition, offset, 1)])]
        request = FetchRequest(0, 1, 1, _READ_UNCOMMITTED, topics)
        async with bounded(KAFKA_CALL_SECONDS, f"reading {partition.topic} partition {partition.partition}"):
            while True:
                leader, found = await self._topics.led(partition)
                ((_, ((_, code, *_, data),)),) = (await self._wire.ask(leader, request)).topics
                if code not in LEADER_RETRY:
                    break
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)
            if code == OFFSET_OUT_OF_RANGE:
                return b"", found
            check(code, f"{partition.topic} partition {partition.partition}", need=Need("Read", partition.topic))
        return bytes(data or b""), found

    async def epoch_ends(self, at: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `KafkaAdmin.epoch_ends`."""
        async with bounded(KAFKA_CALL_SECONDS, "looking for the ends of leader epochs"):
            result: dict[TopicPartition, int] = {}
            while missing := {partition: epoch for partition, epoch in at.items() if partition not in result}:
                found = await self._topics.known(sorted({partition.topic for partition in missing}))
                for leader, asked in _by_leader(found, missing).items():
                    epochs = {each: (found.topics[each[0]].epochs.get(each[1], -1), asked[each]) for each in asked}
                    for topic, told in (await self._wire.ask(leader, EpochEndsRequest(epochs))).topics:
                        for code, number, _, end in told:
                            if code not in LEADER_RETRY:
                                check(code, f"{topic} partition {number}", need=Need("Describe", topic))
                                result[TopicPartition(topic, number)] = end
                if len(result) < len(at):
                    self._topics.forget()
                    await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)
        return result

    async def close(self) -> None:
        """Frees connections."""
        await self._wire.close()

    async def _ask_for_topic(self, spec: tuple[object, ...], *, validate_only: bool = False) -> None:
        request = CreateTopicsRequest([spec], int(KAFKA_CALL_SECONDS * 1_000), validate_only)
        for topic, code, message in (await self._wire.ask(ANY_BROKER, request)).topic_errors:
            check(code, f"topic {topic}", message, need=Need("Create", topic))

    async def _alter_config(self, kind: int, name: str, changes: Mapping[str, str | None], subject: str) -> None:
        async with bounded(KAFKA_CALL_SECONDS, f"altering {subject}"):
            answer = await self._wire.ask(ANY_BROKER, AlterConfigRequest(kind, name, changes))
        for code, message, *_ in answer.resources:
            check(code, subject, message, need=Need("AlterConfigs", name))

    async def _config(self, kind: int, name: str, broker: int) -> dict[str, str]:
        request = DescribeConfigsRequest([(kind, name, None)])
        asking = self._wire.ask_any(request) if broker == ANY_BROKER else self._wire.ask(broker, request)
        (told,) = (await asking).resources
        code, message, _, _, entries = told
        subject = f"{'topic' if kind == RESOURCE_TOPIC else 'broker'} {name}"
        check(code, subject, message, need=Need("DescribeConfigs", name))
        return {key: value for key, value, *_ in entries if value is not None}

    async def _list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        result: dict[TopicPartition, int] = {}
        while missing := {partition: when for partition, when in at.items() if partition not in result}:
            found = await self._topics.known(sorted({partition.topic for partition in missing}))
            for leader, asked in _by_leader(found, missing).items():
                wanted = by_topic({partition: (when,) for partition, when in asked.items()})
                answer = await self._wire.ask(leader, OffsetRequest(_CONSUMER, _READ_UNCOMMITTED, wanted))
                for topic, partitions in answer.topics:
                    for number, code, _, offset in partitions:
                        if code in LEADER_RETRY:
                            continue
                        check(code, f"{topic} partition {number}", need=Need("Describe", topic))
                        result[TopicPartition(topic, number)] = offset
            if len(result) < len(at):
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)
        return result

    async def _raise_too_large(self, topic: str, size: int) -> None:
        """Raises why a leader refused so many bytes; its limit may be older or newer than what a broker now reports."""
        limit = int((await self._config(RESOURCE_TOPIC, topic, ANY_BROKER)).get(MAX_MESSAGE_BYTES, "0"))
        if limit == 0 or size <= limit:
            raise TopicSealed(f"topic {topic} is sealed, or was until just now")
        raise RecordTooLarge(f"the record is larger than topic {topic} takes ({limit} bytes)")


def _by_leader(found: ClusterMetadata, at: Mapping[TopicPartition, int]) -> Mapping[int, dict[TopicPartition, int]]:
    """Groups requests by the broker that leads each partition; partitions without a leader are left out."""
    grouped: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, asked in at.items():
        if (leader := leader_of(found, partition)) >= 0:
            grouped[leader][partition] = asked
    return grouped
