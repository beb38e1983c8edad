"""A topic of a cluster in memory, with its logs and replicas."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from braid.kafka.memory.log import Log
from braid.kafka.memory.replicas import Replicas
from braid.kernel.ports import TopicDescription


@dataclass(slots=True)
class MemoryTopic:
    """A topic as its cluster keeps it; logs and replicas by partition. Brokers that are `stopped` lead nothing."""

    topic_id: bytes
    logs: list[Log]
    config: dict[str, str]
    replicas: list[Replicas]

    @property
    def numbers(self) -> range:
        """The topic's partitions."""
        return range(len(self.logs))

    def describe(self, name: str, stopped: Collection[int], epochs: Sequence[int]) -> TopicDescription:
        """Describes the topic as metadata does, with these leader epochs."""
        return TopicDescription(
            name,
            self.topic_id,
            [each.leader(stopped) for each in self.replicas],
            [at for at, each in enumerate(self.replicas) if each.is_thin(stopped)],
            epochs,
            [each.all for each in self.replicas],
        )

    def lacks_copies(self, partition: int, stopped: Collection[int]) -> bool:
        """Whether fewer copies are in step than an append needs; a topic with fewer copies needs all it has."""
        needed, replicas = int(self.config.get("min.insync.replicas", "1")), self.replicas[partition]
        return needed > 1 and len(replicas.copies(stopped)) < min(needed, len(replicas.all))
