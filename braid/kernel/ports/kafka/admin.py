"""The port for administration of a cluster: topics, configuration, logs, brokers and their disks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from braid.kernel.ports.kafka.acls import Acl
from braid.kernel.ports.kafka.quotas import QuotaEntity
from braid.kernel.ports.kafka.records import BatchHead, Fingerprint, TopicPartition, Written


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as its cluster describes it. `leaders[p]` is the broker leading partition p, or -1.

    `under_replicated` are the partitions that have fewer copies in step than they should, `leader_epochs` the number of
    each partition's leader so far, as the broker that was asked knows it; empty where it is unknown. `replicas[p]` are
    the brokers that keep copies of partition p, in step or not, alive or not; empty where they are unknown.
    """

    name: str
    topic_id: bytes
    leaders: Sequence[int]
    under_replicated: Sequence[int] = ()
    leader_epochs: Sequence[int] = ()
    replicas: Sequence[Sequence[int]] = ()

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.leaders)

    @property
    def copies(self) -> int:
        """The number of copies of the partition that has the fewest."""
        return min(map(len, self.replicas), default=1)

    @property
    def holders(self) -> frozenset[int]:
        """Brokers that keep a copy of any partition."""
        return frozenset(broker for replicas in self.replicas for broker in replicas)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster as its brokers describe it."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, str]
    auto_creates_topics: bool
    offset_metadata_max_units: int
    offsets_retention_minutes: int
    default_config: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def configured(
        cls, cluster_id: str, controller: int, brokers: Mapping[int, str], config: Mapping[str, str]
    ) -> "ClusterDescription":
        """Describes a cluster by the configuration of one broker; settings that are missing have Kafka's defaults."""
        return cls(
            cluster_id,
            controller,
            brokers,
            auto_creates_topics=config.get("auto.create.topics.enable", "true") == "true",
            offset_metadata_max_units=int(config.get("offset.metadata.max.bytes", "4096")),
            offsets_retention_minutes=int(config.get("offsets.retention.minutes", "10080")),
            default_config=config,
        )


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker as it describes itself.

    Attributes:
        config: What it is set to; values that brokers keep secret are left out.
        finalized: The level of each feature that its cluster has agreed on, such as `metadata.version`; empty where
            brokers tell none.
        supported: The highest level of each feature that this broker could go to.
        requests: By key of Kafka's protocol, the oldest and the newest version of each request that it answers; empty
            where it does not say.
    """

    config: Mapping[str, str]
    finalized: Mapping[str, int] = field(default_factory=dict)
    supported: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogDir:
    """One of a broker's directories of logs, and the disk it lies on (KIP-827).

    Attributes:
        total_bytes: Of the disk; -1 when the broker does not say.
        usable_bytes: Of the disk, what the broker may still take; -1 as above.
        sizes: Bytes of each partition's copy there, without its indexes.
    """

    total_bytes: int
    usable_bytes: int
    sizes: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Survey:
    """One answer of any broker: who leads the cluster, which brokers serve, and those of the topics that exist.

    `racks` are the racks of brokers that name one.
    """

    controller: int
    brokers: Sequence[int]
    topics: Mapping[str, TopicDescription]
    racks: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition whose copies are on their way to other brokers (KIP-455).

    Attributes:
        replicas: Brokers that keep a copy now or will.
        adding: Of these, the ones whose copy is not in sync yet.
        removing: Of these, the ones that give their copy up once the new ones are in sync.
    """

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class OffsetAt(Enum):
    """Special positions in a log, as ListOffsets numbers them."""

    LATEST = -1
    EARLIEST = -2


class KafkaAdmin(Protocol):
    """Topics, configuration and offsets of logs on one cluster. Every call ends within `KAFKA_CALL_SECONDS`.

    Every method raises `ClusterUnavailable` when the cluster does not answer in time; `NotFound` for an unknown topic.
    `metadata["refused"]` of the former is there when every broker refused to connect.
    """

    async def describe_cluster(self) -> ClusterDescription:
        """Reads identity, brokers and the configuration that matters to Braid."""
        ...

    async def describe_broker(self, broker: int) -> BrokerDescription:
        """Reads one broker's own configuration, and the features it knows."""
        ...

    async def log_dirs(self, broker: int) -> Sequence[LogDir]:
        """DescribeLogDirs: one broker's disks, and the sizes of all copies there. A failed disk is left out.

        Raises:
            Refused: whoever asks may not describe the cluster.
        """
        ...

    async def describe_topics(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Describes those of the topics that exist. Never creates one."""
        ...

    async def survey(self, topics: Sequence[str]) -> Survey:
        """Describes the cluster and those of the topics that exist, in one request. Never creates one."""
        ...

    async def list_topics(self) -> Sequence[str]:
        """Names of all topics, sorted."""
        ...

    async def create_topic(
        self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """Creates a topic. Raises `AlreadyExists`, `Invalid`."""
        ...

    async def try_create_topic(
        self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """Asks the controller whether it would create a topic, and creates none. Raises as `create_topic`.

        Brokers continue to serve clients when no controller answers, and metadata may still name one (KIP-590). Only
        this call shows it.
        """
        ...

    async def delete_topic(self, topic: str) -> None:
        """Deletes a topic; a topic that is not there is fine."""
        ...

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """Reads a topic's effective configuration."""
        ...

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Reads some settings of those of the topics that exist, in one request."""
        ...

    async def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Sets some of a topic's configuration and leaves the rest (incremental alter). None restores the default.

        Returns when the controller has the setting. Leaders apply it one by one, mostly within milliseconds; only a
        leader's behaviour shows that it has applied the setting.
        """
        ...

    async def broker_defaults(self) -> Mapping[str, str]:
        """Reads the settings that were changed for all brokers of the cluster at run time (KIP-226)."""
        ...

    async def alter_broker_defaults(self, changes: Mapping[str, str | None]) -> None:
        """Sets some of what `broker_defaults` reads, for brokers that are away, too. None restores the default."""
        ...

    async def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Gives some partitions other replicas, the first of each preferred as leader (KIP-455).

        Returns when the controller has recorded it; new copies are made afterwards. Repeating the request changes
        nothing.

        Raises:
            Invalid: a broker is not of the cluster, or is named twice.
            NotFound: there is no such topic or partition.
        """
        ...

    async def reassignments(self, topic: str, partitions: int) -> Mapping[int, Reassignment]:
        """Lists the partitions of a topic whose copies are being reassigned; `partitions` says how many there are."""
        ...

    async def create_acls(self, principal: str, acls: Sequence[Acl]) -> None:
        """CreateAcls: lets a principal (`User:NAME`) do what is listed, from any host. What it may do already stays.

        Raises:
            Refused: the cluster has no authorizer, so it keeps no ACLs.
        """
        ...

    async def client_quotas(self, users: Sequence[str]) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """DescribeClientQuotas: what was set for these users, and for client ids of them; values by `QUOTA_KEYS`.

        Each user takes a request, which ends within the bound. What the cluster sets for users without a quota of their
        own is left out.
        """
        ...

    async def alter_client_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """AlterClientQuotas: sets some of what `client_quotas` reads, and leaves the rest. None removes a value.

        Returns when the controller has recorded it. Brokers enforce it a moment later, also for open connections. A
        user that does not exist is fine. Repeating the request changes nothing.

        Raises:
            Invalid: a key is unknown, or a value is not positive, or not whole where Kafka takes whole numbers.
        """
        ...

    async def offsets_at(self, at: Mapping[TopicPartition, OffsetAt | int]) -> Mapping[TopicPartition, int]:
        """ListOffsets: each log's start, its end, or the first offset at or after a time (ms; the end if none)."""
        ...

    async def try_append(self, partition: TopicPartition, value: bytes, timeout_seconds: float) -> Written:
        """Appends one record with `acks=all` outside any producer. Raises `TopicSealed` when the topic is sealed."""
        ...

    async def fingerprint(self, partition: TopicPartition, offset: int) -> Fingerprint | None:
        """Reads the log's identity below an offset; None when that part of the log is gone or nothing is below it."""
        ...

    async def batch_head(self, partition: TopicPartition, offset: int) -> BatchHead | None:
        """Reads the head of the batch that holds an offset; None when no batch does."""
        ...

    async def epoch_ends(self, at: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """OffsetForLeaderEpoch (KIP-320): for each log, the offset where leaders later than an epoch began.

        That is the log's end where no later leader began, and -1 where the log's leader does not know. Whatever lies
        below was taken by leaders of that epoch or an earlier one; a log that was cut begins a later epoch at the cut.
        """
        ...

    async def close(self) -> None:
        """Frees the client's connections."""
        ...
