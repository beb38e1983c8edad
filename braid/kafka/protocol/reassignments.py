"""Reassignments of partitions (KIP-455) in Kafka's requests and answers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from braid.kernel.ports import Reassignment


def reassign_request(
    topic: str, replicas: Mapping[int, Sequence[int]], timeout_seconds: float
) -> AlterPartitionReassignmentsRequest:
    """Asks for other replicas of a topic's partitions."""
    partitions: list[Any] = [(number, list(brokers), {}) for number, brokers in sorted(replicas.items())]
    topics: list[Any] = [(topic, partitions, {})]
    tags: Any = {}
    return AlterPartitionReassignmentsRequest(int(timeout_seconds * 1_000), topics, tags)


def reassignments_request(topic: str, partitions: int, timeout_seconds: float) -> ListPartitionReassignmentsRequest:
    """Asks which of a topic's partitions are being reassigned."""
    topics: list[Any] = [(topic, list(range(partitions)), {})]
    tags: Any = {}
    return ListPartitionReassignmentsRequest(int(timeout_seconds * 1_000), topics, tags)


def refusals_of(answer: Any) -> Iterator[tuple[int, int, str | None]]:
    """Partitions that the controller refused to reassign: number, error code, its own words."""
    for _, partitions, *_ in answer.responses:
        for number, code, message, *_ in partitions:
            if code:
                yield number, code, message


def told_reassignments(answer: Any) -> dict[int, Reassignment]:
    """What is under way, by partition, from an answer about one topic."""
    return {
        number: Reassignment(tuple(replicas), tuple(adding), tuple(removing))
        for _, partitions, *_ in answer.topics
        for number, replicas, adding, removing, *_ in partitions
    }
