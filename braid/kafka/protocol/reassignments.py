"""Reassignments of partitions (KIP-455) in Kafka's requests and answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from braid.kernel.ports import Reassignment

# Rows of answers, by topic and partition, as aiokafka decodes them; tagged fields come last.
RefusalRows: TypeAlias = Iterable[tuple[str, Iterable[tuple[int, int, str | None, object]], object]]
MoveRows: TypeAlias = Iterable[
    tuple[str, Iterable[tuple[int, Sequence[int], Sequence[int], Sequence[int], object]], object]
]


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


def refusals_of(rows: RefusalRows) -> Iterator[tuple[int, int, str | None]]:
    """Partitions that the controller refused to reassign: number, error code, its own words."""
    for _, partitions, _ in rows:
        for number, code, message, _ in partitions:
            if code:
                yield number, code, message


def told_reassignments(rows: MoveRows) -> dict[int, Reassignment]:
    """Reads the reassignments under way, by partition, from an answer about one topic."""
    return {
        number: Reassignment(tuple(replicas), tuple(adding), tuple(removing))
        for _, partitions, _ in rows
        for number, replicas, adding, removing, _ in partitions
    }
