"""Kafka's messages about a broker's disks (DescribeLogDirs, KIP-827) and features (ApiVersions, KIP-584).

Sizes are decoded here in one pass: a cluster may have tens of thousands of copies, and aiokafka's own decoding of as
many rows would hold the loop up.
"""

import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Final, NamedTuple

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response, ResponseHeader_v0
from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
    UnsignedVarInt32,
)

from braid.kernel.ports import TopicPartition

_NAME: Final = CompactString()
# Number, bytes, lag, whether it is to replace another, and no tagged fields: none is defined.
_COPY: Final = struct.Struct(">iqq?B")
_SUPPORTED_TAG: Final = 0
_FINALIZED_TAG: Final = 2
_SOFTWARE: Final = ("braid", "1")


class ToldDir(NamedTuple):
    """A log directory as a broker describes it."""

    error_code: int
    total_bytes: int
    usable_bytes: int
    sizes: Mapping[TopicPartition, int]


class _Dirs(AbstractType[list[ToldDir]]):
    """The type of a list of log directories, which is decoded only."""

    @classmethod
    def encode(cls, value: list[ToldDir]) -> bytes:
        """Never sent."""
        raise NotImplementedError

    @classmethod
    def decode(cls, data: BytesIO) -> list[ToldDir]:
        """Decodes all directories. Raises ValueError, struct.error for data out of form."""
        return [_dir(data) for _ in range(UnsignedVarInt32.decode(data) - 1)]


def _dir(data: BytesIO) -> ToldDir:
    error_code = Int16.decode(data)
    _NAME.decode(data)
    sizes: dict[TopicPartition, int] = {}
    for _ in range(UnsignedVarInt32.decode(data) - 1):
        topic = _NAME.decode(data) or ""
        count = UnsignedVarInt32.decode(data) - 1
        copies = data.read(count * _COPY.size)
        if len(copies) != count * _COPY.size:
            raise ValueError("sizes of copies are cut off")
        for number, size, _, future, tags in _COPY.iter_unpack(copies):
            if tags:
                raise ValueError("sizes of copies carry unknown fields")
            if not future:
                sizes[TopicPartition(topic, number)] = size
        TaggedFields.decode(data)
    total_bytes, usable_bytes = Int64.decode(data), Int64.decode(data)
    TaggedFields.decode(data)
    return ToldDir(error_code, total_bytes, usable_bytes, sizes)


class DescribeLogDirsResponseV4(Response):
    """Directories of logs with their disks."""

    API_KEY = 35
    API_VERSION = 4
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("dirs", _Dirs), ("tags", TaggedFields))


class DescribeLogDirsRequestV4(RequestStruct):
    """Since Kafka 3.3: the version that tells the room on disks."""

    API_KEY = 35
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeLogDirsResponseV4
    SCHEMA = Schema(
        ("topics", CompactArray(("topic", CompactString()), ("tags", TaggedFields))), ("tags", TaggedFields)
    )


class DescribeLogDirsRequest(Request[DescribeLogDirsRequestV4]):
    """One broker's directories, with the copies of all topics."""

    API_KEY = 35

    def build(self, request_struct_class: type[DescribeLogDirsRequestV4]) -> DescribeLogDirsRequestV4:
        """The request on the wire."""
        return request_struct_class(None, {})


class FeaturesResponseV3(Response):
    """A broker's answer with its features, which are tagged fields."""

    API_KEY = 18
    API_VERSION = 3
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "api_versions",
            CompactArray(("api_key", Int16), ("min_version", Int16), ("max_version", Int16), ("tags", TaggedFields)),
        ),
        ("throttle_time_ms", Int32),
        ("tags", TaggedFields),
    )


class FeaturesRequestV3(RequestStruct):
    """Asks for a broker's features, since Kafka 2.4.

    Its answer has the header of version 0, so that any client can read it.
    """

    API_KEY = 18
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FeaturesResponseV3
    SCHEMA = Schema(("name", CompactString()), ("version", CompactString()), ("tags", TaggedFields))

    def parse_response_header(self, read_buffer: BytesIO | bytes) -> ResponseHeader_v0:
        """Reads the response header, which has version 0 so that any client can read it."""
        return ResponseHeader_v0.decode(read_buffer)


class FeaturesRequest(Request[FeaturesRequestV3]):
    """A broker's features, and the levels its cluster agreed on."""

    API_KEY = 18

    def build(self, request_struct_class: type[FeaturesRequestV3]) -> FeaturesRequestV3:
        """The request on the wire."""
        return request_struct_class(*_SOFTWARE, {})


_FEATURES: Final = CompactArray(("name", CompactString()), ("first", Int16), ("second", Int16), ("tags", TaggedFields))


def supported_features(tags: Mapping[int, bytes]) -> dict[str, int]:
    """The highest level of each feature a broker could go to, from its answer's tagged fields."""
    return {name: highest for name, _, highest, _ in _features(tags, _SUPPORTED_TAG)}


def finalized_features(tags: Mapping[int, bytes]) -> dict[str, int]:
    """The level of each feature that is agreed on, from a broker's answer's tagged fields."""
    return {name: highest for name, highest, _, _ in _features(tags, _FINALIZED_TAG)}


def _features(tags: Mapping[int, bytes], tag: int) -> list[tuple[str, int, int, object]]:
    return (_FEATURES.decode(BytesIO(tags[tag])) or []) if tag in tags else []
