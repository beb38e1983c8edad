"""One Kafka cluster in memory: its brokers' state and answers, and the faults that tests cause.

Everything here happens at once; latency and lost answers belong to the connection (`link.py`).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from braid.kafka.memory.brokers import BROKER, Brokers
from braid.kafka.memory.client_quotas import ClientQuotas
from braid.kafka.memory.groups import Groups
from braid.kafka.memory.log import Log, NewRecord
from braid.kafka.memory.replicas import Replicas, spread
from braid.kafka.memory.retention import Cleaner, kept_from
from braid.kafka.memory.topic import MemoryTopic
from braid.kafka.memory.topic_config import TOPIC_DEFAULTS, alter, check_broker_defaults, check_topic_config
from braid.kernel.errors import (
    AlreadyExists,
    BatchTooLarge,
    ClusterUnavailable,
    Invalid,
    NotFound,
    RecordTooLarge,
    TopicSealed,
)
from braid.kernel.ports import (
    BatchHead,
    BrokerDescription,
    ClusterDescription,
    Committed,
    Fingerprint,
    Generation,
    LogDir,
    Reassignment,
    Survey,
    TopicDescription,
    TopicPartition,
)

_DISK_BYTES: Final = 1 << 40
_FEATURES: Final = {"metadata.version": 30}


class MemoryCluster(Brokers):
    """A cluster, by default of one broker.

    Faults: `kill`, `start`, `pause`, `resume`, `empty`, `truncate`, `expire`, `damage`; `stop_broker`, `start_broker`;
    `grow_epoch`, `elect`, which lose nothing; `slow_seconds` that every request takes more, there and back; `full`: it
    takes no record. `copy_seconds` is how long a new copy takes; `racks` are its brokers' racks.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        now_ms: Callable[[], int],
        *,
        auto_creates_topics: bool = False,
        brokers: int = 1,
    ) -> None:
        super().__init__(name, brokers)
        self.bootstrap = bootstrap
        self.auto_creates_topics = auto_creates_topics
        self.groups = Groups()
        self.client_quotas = ClientQuotas()
        self.slow_seconds = 0.0
        self.disk_bytes = _DISK_BYTES
        self.filled_bytes: dict[int, int] = {}  # of a broker's disk, by whatever else lies there
        self.full = False
        self.copy_seconds = 0.0
        self.for_all_brokers: dict[str, str] = {}
        self._now_ms = now_ms
        self.cluster_id = f"{name}-1"
        self._incarnation = 1
        self._emptied = 0
        self._leader_epoch = 0
        self._grown: dict[TopicPartition, int] = {}  # epochs that a partition's leader got beyond the cluster's
        self._elected: dict[TopicPartition, int] = {}  # so many times a partition's lead was passed on
        self._topics: dict[str, MemoryTopic] = {}
        self._ids = 0
        self._producers = 0
        self._cleaner = Cleaner(now_ms)

    # --- faults

    def kill(self) -> None:
        """kill -9: connections break, what was not answered is not done; logs and groups stay."""
        self._clean()
        super().kill()

    def start(self) -> None:
        """Serves again, under the next leader epoch. Fine when it runs."""
        if not self.running:
            self._cleaner.begin()
            self._leader_epoch += 1
        super().start()

    def pause(self) -> None:
        """SIGSTOP: requests are taken and not answered."""
        self._clean()
        super().pause()

    def resume(self) -> None:
        """SIGCONT: what was taken meanwhile is done now, also for clients that gave up."""
        self.paused = False
        self._cleaner.go_on()
        self._clean()
        super().resume()

    def empty(self, *, replaced: bool = True) -> None:
        """Loses every topic and group, as with a lost disk; a replaced cluster has another id too."""
        self._topics = {}
        self._emptied += 1
        self.groups = Groups(f"member-{self._emptied}")
        self.client_quotas = ClientQuotas()
        self._leader_epoch = 0
        self._grown.clear()
        if replaced:
            self._incarnation += 1
            self.cluster_id = f"{self.name}-{self._incarnation}"
        self.notify()

    def truncate(self, partition: TopicPartition, end: int) -> None:
        """Loses the end of a log."""
        self.log(partition).truncate(end)
        self.notify()

    def grow_epoch(self, partition: TopicPartition) -> None:
        """The leader stays under its next epoch, as when a replica is dropped: nothing is lost, no connection ends."""
        self.log(partition)
        self._grown[partition] = self._grown.get(partition, 0) + 1
        self.notify()

    def elect(self, partition: TopicPartition) -> None:
        """Another copy leads, as after a preferred election: nothing is lost, clients write over another connection."""
        self.grow_epoch(partition)
        self._elected[partition] = self._elected.get(partition, 0) + 1

    def expire(self, partition: TopicPartition, start: int) -> None:
        """Loses the start of a log, as retention does."""
        self.log(partition).expire(start)
        self.notify()

    def compact(self, partition: TopicPartition) -> None:
        """Loses every record of a log that a later one of its key supersedes, and tombstones."""
        self.log(partition).compact()
        self.notify()

    def damage(self, partition: TopicPartition, offset: int, why: str = "damaged: by a test") -> None:
        """Damages the batch that holds an offset: it cannot be decoded any more, as with a bomb or a failing disk."""
        self.log(partition).damage(offset, why)

    def describe(self) -> ClusterDescription:
        """See `KafkaAdmin.describe_cluster`."""
        return ClusterDescription(
            cluster_id=self.cluster_id,
            controller=BROKER,
            brokers=dict.fromkeys(self.serving(), self.bootstrap),
            auto_creates_topics=self.auto_creates_topics,
            offset_metadata_max_units=self.groups.metadata_max_units,
            offsets_retention_minutes=10_080,
        )

    def describe_broker(self, broker: int) -> BrokerDescription:
        """See `KafkaAdmin.describe_broker`."""
        self.check_serves(broker)
        config = {
            "auto.create.topics.enable": str(self.auto_creates_topics).lower(),
            "offset.metadata.max.bytes": str(self.groups.metadata_max_units),
            "offsets.retention.minutes": "10080",
        }
        return BrokerDescription({**config, **self.set_on.get(broker, {})}, _FEATURES, _FEATURES)

    def log_dirs(self, broker: int) -> list[LogDir]:
        """See `KafkaAdmin.log_dirs`: one disk a broker, filled by its copies and by `filled_bytes`."""
        self.check_serves(broker)
        sizes = {
            TopicPartition(name, number): log.size
            for name, topic in self._topics.items()
            for number, log in enumerate(topic.logs)
            if broker in self._placed(name, number)
        }
        used = sum(sizes.values()) + self.filled_bytes.get(broker, 0)
        return [LogDir(self.disk_bytes, max(0, self.disk_bytes - used), sizes)]

    def describe_topics(self, topics: Sequence[str] | None) -> dict[str, TopicDescription]:
        """Describes the topics that exist; all when None."""
        names = self._topics if topics is None else [name for name in topics if name in self._topics]
        for name in names:
            self._copy(name)
        return {
            name: topic.describe(
                name, self._stopped, [self.leader_epoch_of(TopicPartition(name, at)) for at in topic.numbers]
            )
            for name, topic in ((name, self._topics[name]) for name in sorted(names))
        }

    def survey(self, topics: Sequence[str]) -> Survey:
        """See `KafkaAdmin.survey`."""
        return Survey(BROKER, self.serving(), self.describe_topics(topics), self.racks)

    def create_topic(self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """See `KafkaAdmin.create_topic`."""
        self.check_topic(topic, partitions, replication_factor, config)
        self._ids += 1
        digest = hashlib.sha256(f"{self.cluster_id}/{topic}/{self._ids}".encode()).digest()
        logs = [Log() for _ in range(partitions)]
        replicas = [Replicas(each) for each in spread(self._brokers, partitions, replication_factor)]
        self._topics[topic] = MemoryTopic(digest[:16], logs, dict(config), replicas)
        self.notify()

    def check_topic(self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """See `KafkaAdmin.try_create_topic`."""
        if topic in self._topics:
            raise AlreadyExists(f"topic {topic} exists already")
        if partitions < 1:
            raise Invalid(f"topic {topic} cannot have {partitions} partitions")
        if not 1 <= replication_factor <= len(self._brokers):
            raise Invalid(f"topic {topic}: replication factor {replication_factor} of {len(self._brokers)} brokers")
        check_topic_config(topic, config)

    def delete_topic(self, topic: str) -> None:
        """See `KafkaAdmin.delete_topic`."""
        if self._topics.pop(topic, None) is not None:
            self.groups.forget_topic(topic)
            self.notify()

    def topic_config(self, topic: str) -> dict[str, str]:
        """Returns a topic's settings: Kafka's defaults and what was set."""
        return {**TOPIC_DEFAULTS, **self._topic(topic).config}

    def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """See `KafkaAdmin.topic_configs`."""
        known = {topic: self.topic_config(topic) for topic in topics if topic in self._topics}
        return {topic: {name: config[name] for name in names if name in config} for topic, config in known.items()}

    def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """See `KafkaAdmin.alter_topic_config`."""
        found = self._topic(topic)
        check_topic_config(topic, changes)
        alter(found.config, changes)

    def alter_broker_defaults(self, changes: Mapping[str, str | None]) -> None:
        """See `KafkaAdmin.alter_broker_defaults`."""
        check_broker_defaults(changes)
        alter(self.for_all_brokers, changes)

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """See `KafkaAdmin.reassign`."""
        due_ms = self._now_ms() + int(1_000 * self.copy_seconds)
        for number, brokers in replicas.items():
            self.log(TopicPartition(topic, number))
            if not brokers or len(set(brokers)) != len(brokers) or not set(brokers) <= set(self._brokers):
                raise Invalid(f"topic {topic} partition {number}: {list(brokers)} are no replicas of this cluster")
        for number, brokers in replicas.items():
            self._topic(topic).replicas[number].reassign(brokers, due_ms)
        self._copy(topic)
        self.notify()

    def reassignments(self, topic: str) -> dict[int, Reassignment]:
        """See `KafkaAdmin.reassignments`."""
        self._copy(topic)
        found = ((number, each.reassignment) for number, each in enumerate(self._topic(topic).replicas))
        return {number: moving for number, moving in found if moving is not None}

    def new_producer(self) -> int:
        """Returns a new producer id."""
        self._producers += 1
        return self._producers

    def append(
        self, partition: TopicPartition, records: Sequence[NewRecord], producer: int = -1, sequence: int = -1
    ) -> int:
        """Appends a batch and returns its first offset.

        Raises:
            NotFound: no such topic or partition.
            TopicSealed: the topic refuses every append.
            RecordTooLarge, BatchTooLarge: it is larger than `max.message.bytes` (`metadata['limit']`).
            ClusterUnavailable: the partition has no leader, or the cluster is full.
        """
        log = self.led_log(partition)
        if self.full or self._silent.intersection(self._placed(*partition)) or self._lacks_copies(partition):
            raise ClusterUnavailable(f"cluster {self.name} has too few copies in step")
        limit = int(self.topic_config(partition.topic)["max.message.bytes"])
        if limit == 0:
            raise TopicSealed(f"topic {partition.topic} is sealed")
        if sum(record.size() for record in records) > limit:
            kind = RecordTooLarge if any(record.size() > limit for record in records) else BatchTooLarge
            raise kind(f"more than the {limit} bytes of topic {partition.topic}", metadata={"limit": str(limit)})
        offset = log.append(records, self.leader_epoch_of(partition), producer, sequence)
        self.notify()
        return offset

    def log(self, partition: TopicPartition) -> Log:
        """Returns a partition's log. Raises `NotFound`."""
        logs = self._topic(partition.topic).logs
        if not 0 <= partition.partition < len(logs):
            raise NotFound(f"topic {partition.topic} has no partition {partition.partition}")
        return logs[partition.partition]

    def led_log(self, partition: TopicPartition) -> Log:
        """Returns a partition's log to read or write.

        Raises `ClusterUnavailable` while no broker leads it, `NotFound`.
        """
        log = self.log(partition)
        if self._stopped and self._leader(partition) < 0:
            raise ClusterUnavailable(f"{partition.topic} partition {partition.partition} has no leader")
        return log

    def end(self, partition: TopicPartition) -> int | None:
        """Returns a partition's end, if a broker can tell it."""
        found = self._topics.get(partition.topic)
        if self._stopped and found and self._leader(partition) < 0:
            return None
        return found.logs[partition.partition].end if found and partition.partition < len(found.logs) else None

    def fingerprint(self, partition: TopicPartition, offset: int) -> Fingerprint | None:
        """See `KafkaAdmin.fingerprint`."""
        batch = self.led_log(partition).batch_of(offset - 1)
        if batch is None:
            return None
        return Fingerprint(self._topic(partition.topic).topic_id, batch.leader_epoch, batch.crc)

    def batch_head(self, partition: TopicPartition, offset: int) -> BatchHead | None:
        """See `KafkaAdmin.batch_head`."""
        batch = self.led_log(partition).batch_of(offset)
        if batch is None or not batch.base <= offset <= (last := batch.records[-1].offset):
            return None
        return BatchHead(batch.base, last, batch.leader_epoch, batch.producer, batch.sequence)

    def connection(self, partition: TopicPartition) -> int:
        """A number that grows whenever clients need another connection to a partition's leader."""
        return self._starts + self._elected.get(partition, 0)

    def epoch_end(self, partition: TopicPartition, leader_epoch: int) -> int:
        """See `KafkaAdmin.epoch_ends`."""
        return self.led_log(partition).epoch_end(leader_epoch)

    def leader_epoch_of(self, partition: TopicPartition) -> int:
        """Returns a partition's leader epoch, as metadata and its batches have it."""
        return self._leader_epoch + self._grown.get(partition, 0)

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
        """See `KafkaOffsets.commit`."""
        for partition in offsets:
            self.log(partition)
        self.groups.commit(group, offsets, generation)

    def _placed(self, topic: str, partition: int) -> Sequence[int]:
        return self._topics[topic].replicas[partition].all

    def _copy(self, topic: str) -> None:
        """Completes reassignments whose new copies are made by now; a new leader epoch begins, as on real brokers."""
        for number, replicas in enumerate(self._topics[topic].replicas if topic in self._topics else ()):
            leader = replicas.leader(self._stopped)
            if replicas.moving and replicas.copy(self._now_ms(), self.serving()):
                moved = replicas.leader(self._stopped) != leader
                (self.elect if moved else self.grow_epoch)(TopicPartition(topic, number))

    def _leader(self, partition: TopicPartition) -> int:
        return self._topics[partition.topic].replicas[partition.partition].leader(self._stopped)

    def _lacks_copies(self, partition: TopicPartition) -> bool:
        return self._topics[partition.topic].lacks_copies(partition.partition, self._stopped)

    def _clean(self) -> None:
        """Deletes records that retention has deleted by now."""
        if not self.running or self.paused or (looked_ms := self._cleaner.looked_ms()) is None:
            return
        for topic in self._topics.values():
            config = {**TOPIC_DEFAULTS, **topic.config}
            for log in topic.logs:
                log.expire(kept_from(log, config, looked_ms))

    def _topic(self, topic: str) -> MemoryTopic:
        self._clean()
        if topic not in self._topics:
            raise NotFound(f"topic {topic} does not exist")
        return self._topics[topic]
