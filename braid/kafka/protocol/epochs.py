"""Kafka's requests that carry leader epochs (KIP-320), in versions that aiokafka does not have.

OffsetCommit 6 and OffsetFetch 5 store a leader epoch beside a committed offset; OffsetForLeaderEpoch 3 tells where an
epoch ended in a log. All brokers since Kafka 2.3 speak them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String

from braid.kernel.ports import Committed, TopicPartition

_CONSUMER: Final = -1  # whoever asks is no replica
_TEXT: Final = String("utf-8")


def by_topic(partitions: Mapping[TopicPartition, tuple[object, ...]]) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Groups values by topic as requests nest them. Each partition's number comes before its values."""
    topics: dict[str, list[tuple[object, ...]]] = {}
    for partition, values in partitions.items():
        topics.setdefault(partition.topic, []).append((partition.partition, *values))
    return list(topics.items())


class OffsetCommitResponseV6(Response):
    """An error code per partition."""

    API_KEY = 8
    API_VERSION = 6
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("topics", Array(("topic", _TEXT), ("partitions", Array(("partition", Int32), ("error_code", Int16))))),
    )


class OffsetCommitRequestV6(RequestStruct):
    """Commits offsets with leader epochs, since Kafka 2.1."""

    API_KEY = 8
    API_VERSION = 6
    RESPONSE_TYPE = OffsetCommitResponseV6
    SCHEMA = Schema(
        ("group", _TEXT),
        ("generation", Int32),
        ("member_id", _TEXT),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(("partition", Int32), ("offset", Int64), ("leader_epoch", Int32), ("metadata", _TEXT)),
                ),
            ),
        ),
    )


class CommitRequest(Request[OffsetCommitRequestV6]):
    """Commits offsets with their metadata and leader epochs."""

    API_KEY = 8

    def __init__(
        self, group: str, generation: int, member_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> None:
        self._head = (group, generation, member_id)
        self._topics = by_topic({at: (each.offset, each.leader_epoch, each.metadata) for at, each in offsets.items()})

    def build(self, request_struct_class: type[OffsetCommitRequestV6]) -> OffsetCommitRequestV6:
        """The request on the wire."""
        return request_struct_class(*self._head, self._topics)


class OffsetFetchResponseV5(Response):
    """Committed offsets with their leader epochs."""

    API_KEY = 9
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _TEXT),
                        ("error_code", Int16),
                    ),
                ),
            ),
        ),
        ("error_code", Int16),
    )


class OffsetFetchRequestV5(RequestStruct):
    """Reads committed offsets with leader epochs, since Kafka 2.1."""

    API_KEY = 9
    API_VERSION = 5
    RESPONSE_TYPE = OffsetFetchResponseV5
    SCHEMA = Schema(("group", _TEXT), ("topics", Array(("topic", _TEXT), ("partitions", Array(Int32)))))


class CommittedRequest(Request[OffsetFetchRequestV5]):
    """Reads committed offsets of some partitions, or of all (None)."""

    API_KEY = 9

    def __init__(self, group: str, partitions: Sequence[TopicPartition] | None) -> None:
        self._group = group
        topics: dict[str, list[int]] = {}
        for each in partitions or ():
            topics.setdefault(each.topic, []).append(each.partition)
        self._topics = None if partitions is None else list(topics.items())

    def build(self, request_struct_class: type[OffsetFetchRequestV5]) -> OffsetFetchRequestV5:
        """The request on the wire."""
        return request_struct_class(self._group, self._topics)


class OffsetForLeaderEpochResponseV3(Response):
    """Response: the offset at which an epoch ended, which is the start of the next one or the log's end."""

    API_KEY = 23
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class OffsetForLeaderEpochRequestV3(RequestStruct):
    """Asks for the ends of epochs, since Kafka 2.3; it needs only permission to describe the topic."""

    API_KEY = 23
    API_VERSION = 3
    RESPONSE_TYPE = OffsetForLeaderEpochResponseV3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
                ),
            ),
        ),
    )


class EpochEndsRequest(Request[OffsetForLeaderEpochRequestV3]):
    """Asks a leader where epochs ended in its logs."""

    API_KEY = 23

    def __init__(self, asked: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """`asked` has, by partition, the present leader's epoch (-1: any) and the epoch that is asked about.

        A broker that knows an earlier or a later present leader refuses, so that no deposed leader answers.
        """
        self._topics = by_topic(asked)

    def build(self, request_struct_class: type[OffsetForLeaderEpochRequestV3]) -> OffsetForLeaderEpochRequestV3:
        """The request on the wire."""
        return request_struct_class(_CONSUMER, self._topics)
