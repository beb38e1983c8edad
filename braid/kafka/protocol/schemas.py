"""Requests of Kafka's protocol that aiokafka does not have, in the versions Braid speaks."""

from collections.abc import Mapping
from io import BytesIO
from typing import Final

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

NO_TOPIC_ID: Final = bytes(16)
OP_SET: Final = 0
OP_DELETE: Final = 1
RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4


class Uuid(AbstractType[bytes]):
    """16 bytes as they are."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """The bytes as they are."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """The bytes as they are."""
        return data.read(16)


class MetadataResponseV10(Response):
    """Brokers, and topics with their ids."""

    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("rack", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString()),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataRequestV10(RequestStruct):
    """Since Kafka 2.8: the version that tells topic ids."""

    API_KEY = 3
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponseV10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("topic", CompactString()), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class DescribeTopicsRequest(Request[MetadataRequestV10]):
    """Metadata of some topics, or of all (None). Never creates one."""

    API_KEY = 3

    def __init__(self, topics: list[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[MetadataRequestV10]) -> MetadataRequestV10:
        """The request on the wire."""
        topics: list[tuple[object, ...]] | None = (
            None if self._topics is None else [(NO_TOPIC_ID, topic, {}) for topic in self._topics]
        )
        return request_struct_class(topics, False, False, False, {})


class AlterConfigsResponseV0(Response):
    """The answers to IncrementalAlterConfigs, one for each resource."""

    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class AlterConfigsRequestV0(RequestStruct):
    """Changes some settings and leaves the others: IncrementalAlterConfigs (KIP-339)."""

    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = AlterConfigsResponseV0
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                (
                    "configs",
                    Array(("name", String("utf-8")), ("operation", Int8), ("value", String("utf-8"))),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


class AlterConfigRequest(Request[AlterConfigsRequestV0]):
    """Sets some of the configuration of a topic or of brokers, leaving the rest. None restores a default."""

    API_KEY = 44

    def __init__(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        self._resource = (kind, name)
        self._changes = sorted(changes.items())

    def build(self, request_struct_class: type[AlterConfigsRequestV0]) -> AlterConfigsRequestV0:
        """The request on the wire."""
        configs = [(name, OP_DELETE if value is None else OP_SET, value) for name, value in self._changes]
        return request_struct_class([(*self._resource, configs)], False)


class ListGroupsResponseV4(Response):
    """The groups of a broker, with their states."""

    API_KEY = 16
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "groups",
            CompactArray(
                ("group", CompactString()),
                ("protocol_type", CompactString()),
                ("state", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class ListGroupsRequestV4(RequestStruct):
    """Since Kafka 2.6: the version that tells states, of groups of every kind."""

    API_KEY = 16
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ListGroupsResponseV4
    SCHEMA = Schema(("states", CompactArray(CompactString())), ("tags", TaggedFields))


class ListGroupStatesRequest(Request[ListGroupsRequestV4]):
    """All groups one broker coordinates, whatever their protocol."""

    API_KEY = 16

    def build(self, request_struct_class: type[ListGroupsRequestV4]) -> ListGroupsRequestV4:
        """The request on the wire."""
        return request_struct_class([], {})
