"""A topic of a cluster in memory."""

from dataclasses import dataclass

from braid.kafka.memory.log import Log
from braid.kafka.memory.replicas import Replicas


@dataclass(slots=True)
class MemoryTopic:
    """What a cluster keeps of a topic; logs and replicas by partition."""

    topic_id: bytes
    logs: list[Log]
    config: dict[str, str]
    replicas: list[Replicas]
